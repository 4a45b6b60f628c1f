/* src/cli/reasons.h - what a reason means, and what an operator does about it.
 *
 * One table, for `conclave explain REASON`; conclave-explain(1) has the same, and a test compares
 * them. */
#ifndef CV_CLI_REASONS_H
#define CV_CLI_REASONS_H

#include <conclave/core.h>

struct cv_cli_reason {
    const char *meaning;
    const char *advice;
};

/* Not for CV_REASON_COUNT. */
const struct cv_cli_reason *cv__cli_reason(enum cv_reason reason);

#endif
