/* src/stores/pg_commands.h - PostgreSQL for commands, which connect, ask and wait; store.h
 * describes each call. */
#ifndef CV_STORES_PG_COMMANDS_H
#define CV_STORES_PG_COMMANDS_H

#include "stores/store.h"

CV_NODISCARD int cv__pg_create(const char *address, struct cv_errtext *reterr);

CV_NODISCARD int cv__pg_history(const char *address, const char *election,
                                void (*past)(void *user, const struct cv_store_past *past),
                                void *user, struct cv_errtext *reterr);

/* Do the tables lack columns that later versions add? */
CV_NODISCARD int cv__pg_look_for_gaps(const char *address, bool *ret_has_gaps,
                                      struct cv_errtext *reterr);

CV_NODISCARD int cv__pg_names(const char *address, void (*name)(void *user, const char *name),
                              void *user, struct cv_errtext *reterr);

#endif
