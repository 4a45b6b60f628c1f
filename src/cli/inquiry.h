/* src/cli/inquiry.h - one question to a store, for commands that ask and go. */
#ifndef CV_CLI_INQUIRY_H
#define CV_CLI_INQUIRY_H

#include "stores/store.h"

#define CV_INQUIRY_MS 5000 /* a store that has not answered by then does not */

struct cv_inquiry {
    enum cv_store_verdict verdict;
    bool has_record;
    struct cv_store_record record;
};

/* The kind of store for an address (NULL: the user's own file) and the address itself, which the
 * caller frees; or NULL and a message. */
const struct cv_store_kind *cv__inquiry_kind(const char *via, char **ret_address);

/* What the record says (wish: false), or leaves a wish to resign with the holder. CV_OK, or a code
 * and why. */
CV_NODISCARD int cv__inquire(const struct cv_store_kind *kind, const char *address,
                             const char *election, bool is_wish, const char *heir,
                             struct cv_inquiry *ret_inquiry, struct cv_errtext *reterr);

#endif
