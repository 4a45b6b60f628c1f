/* src/cli/tracing.h - writes the events and effects of this process's core as a trace, as `conclave
 * sim --trace` does for all nodes of a simulated run. */
#ifndef CV_CLI_TRACING_H
#define CV_CLI_TRACING_H

#include "runtime/tap.h"
#include "trace/trace.h"

struct cv_tracing {
    struct cv_recorder recorder; /* for cv__election_open_recorded(); `self` is this */
    struct cv_trace trace;
    const char *path, *election; /* lent */
    int64_t began_ns;            /* time 0 */
};

/* `tracing` must not move in memory until it is closed. CV_OK or CV_E_IO. */
CV_NODISCARD int cv__tracing_open(struct cv_tracing *tracing, const char *path,
                                  const char *election, struct cv_errtext *reterr);
/* After the election is closed. CV_E_IO: not all could be written. */
CV_NODISCARD int cv__tracing_close(struct cv_tracing *tracing, struct cv_errtext *reterr);

#endif
