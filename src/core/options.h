/* src/core/options.h - printing the options that cv_config_set() reads. */
#ifndef CV_CORE_OPTIONS_H
#define CV_CORE_OPTIONS_H

#include "core/types.h"

#define CV_DRIFT_PPB_DEFAULT 100000 /* 1e-4, ten times the drift of a bad quartz */

struct cv_option_text {
    char text[32];
};

/* The value as cv_config_set() would read it back. Points into `text` or to a constant. */
const char *cv__option_format(const struct cv_option *option, int64_t value,
                              struct cv_option_text *text);

/* The same for option number `at` of a configuration, texts included. */
const char *cv__config_format(const struct cv_config *config, const struct cv_option *option,
                              uint32_t at, struct cv_option_text *text);

/* For a protocol's configure(): sets an option to its computed default, unless it was given. */
void cv__config_derive(struct cv_config *config, uint32_t at, int64_t value);

/* Reports that an inequality between two times does not hold, with both times; returns
 * CV_E_INVALID. */
int cv__config_broken(struct cv_errtext *reterr, const char *inequality, int64_t left_ns,
                      int64_t right_ns);

#endif
