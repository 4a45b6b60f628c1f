/* src/modules/module.h - parts that are loaded when they are asked for.
 *
 * A client library of a database brings thirty others, ten milliseconds of start and megabytes of
 * memory along; who waits for a turn in a file should not pay for that. So each store and sequencer
 * that needs such a library is a module of its own, a shared object that shows one table. It may be
 * missing: an installation without etcd needs no libcurl.
 *
 * Looked for in $CONCLAVE_MODULES (not by programs with raised privileges), beside the program or
 * library that asks, and where `make install` puts them. A module is loaded once and stays. */
#ifndef CV_MODULES_MODULE_H
#define CV_MODULES_MODULE_H

#include "core/types.h"

/* The table of the module of that name (conclave-NAME.so), or NULL and why. Any thread. */
const void *cv__module_table(const char *name, struct cv_errtext *reterr);

/* In a module: the one symbol that it shows. */
#define CV_MODULE(table)                                                      \
    __attribute__((visibility("default"))) const void *cv_module_table(void); \
    const void *cv_module_table(void)                                         \
    {                                                                         \
        return &(table);                                                      \
    }

#endif
