/* src/runtime/place.h - the default places of this user's files. */
#ifndef CV_RUNTIME_PLACE_H
#define CV_RUNTIME_PLACE_H

#include <conclave/errors.h>

/* A copy of `address`, which the caller frees. NULL: the address of the embedded store in the
 * user's state folder, which is created if needed: $CONCLAVE_STATE, $XDG_STATE_HOME/conclave or
 * $HOME/.local/state/conclave. Refuses the embedded store without a path, with two slashes before
 * it, and with options. */
CV_NODISCARD int cv__place_address(const char *address, char **ret_address,
                                   struct cv_errtext *reterr);

/* The path of a file in that folder, which is created if needed. The caller frees it. */
CV_NODISCARD int cv__place_file(const char *name, char **ret_path, struct cv_errtext *reterr);

#endif
