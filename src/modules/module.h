/* src/modules/module.h - parts of the program that are loaded when they are needed.
 *
 * The client library of a database depends on thirty others, and costs ten milliseconds at the
 * start and megabytes of memory. An election in a file should not pay for that. So each store and
 * sequencer that needs such a library is a module: a shared object that exports one table. A module
 * may be missing: an installation without etcd over TLS needs no libcurl.
 *
 * Modules are searched in $CONCLAVE_MODULES (not by programs with raised privileges), beside the
 * program or library that asks, and where `make install` puts them. A module is loaded once and
 * stays loaded. */
#ifndef CV_MODULES_MODULE_H
#define CV_MODULES_MODULE_H

#include "core/types.h"

/* The table of the module of that name (conclave-NAME.so), or NULL and why. Any thread. */
const void *cv__module_table(const char *name, struct cv_errtext *reterr);

/* In a module: the only symbol that it exports. */
#define CV_MODULE(table)                                                      \
    __attribute__((visibility("default"))) const void *cv_module_table(void); \
    const void *cv_module_table(void)                                         \
    {                                                                         \
        return &(table);                                                      \
    }

#endif
