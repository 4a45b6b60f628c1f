/* src/runtime/backends.c - every backend there is; a new one is one file and one line. */
#include "core/address.h"
#include "core/errors.h"
#include "core/text.h"
#include "runtime/backend.h"
#include "runtime/election.h"

#include <string.h>

static const struct cv_backend_kind *const backends[] = {
    &cv__backend_lease,
    &cv__backend_multicast,
    &cv__backend_peers,
};

static int fail_unserved(const char *address, struct cv_errtext *reterr)
{
    const char *known[CV_WORDS_MAX + 1];
    uint32_t known_count = 0;
    for (uint32_t i = 0; i < COUNT_OF(backends); i++) {
        const char *scheme;
        for (uint32_t j = 0; (scheme = backends[i]->scheme_at(j)) != NULL; j++) {
            CV_ASSERT(known_count < CV_WORDS_MAX);
            known[known_count++] = scheme;
        }
    }
    known[known_count] = NULL;
    return cv__address_fail_scheme(address, known, reterr);
}

static int refuse(const char *address, const struct cv_backend_contract *contract,
                  struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_INVALID,
                    "'%.*s' does not promise %s: %s; use 'conclave elect', or set "
                    "accepts_two_leaders in a program",
                    (int)strcspn(address, "?"), address,
                    cv_property_name(CV_PROPERTY_AT_MOST_ONE_LEADER), contract->words);
}

static const struct cv_backend_kind *kind_of(const char *address)
{
    for (uint32_t i = 0; i < COUNT_OF(backends); i++) {
        if (backends[i]->serves(address)) {
            return backends[i];
        }
    }
    return NULL;
}

int cv__backend_name(const char *address, const char *wanted, char ret_node[CV_NODE_BYTES],
                     struct cv_errtext *reterr)
{
    const struct cv_backend_kind *kind = kind_of(address);
    return kind != NULL && kind->name != NULL ? kind->name(address, wanted, ret_node, reterr)
                                              : cv__election_node_name(ret_node, wanted, reterr);
}

int cv__backend_find(const char *address, bool accepts_two_leaders,
                     const struct cv_backend_kind **ret_kind,
                     struct cv_backend_contract *ret_contract, struct cv_errtext *reterr)
{
    const struct cv_backend_kind *kind = kind_of(address);
    if (kind == NULL) {
        return fail_unserved(address, reterr);
    }
    const int code = kind->contract(address, ret_contract, reterr);
    if (code != CV_OK) {
        return code;
    }
    if ((ret_contract->promises & CV_PROP(AT_MOST_ONE_LEADER)) == 0 && !accepts_two_leaders) {
        return refuse(address, ret_contract, reterr);
    }
    *ret_kind = kind;
    return CV_OK;
}
