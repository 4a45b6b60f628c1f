/* src/core/address.h - the parts of an election address: scheme, user, hosts, path and options.
 *
 *   etcd://root@10.0.0.1:2379,[fd00::2]:2379/prefix?cacert=/etc/ca.pem&cert=/etc/me.pem
 *   sqlite:/var/lib/x.db
 *
 * After the scheme comes either "//", then user and hosts up to a slash, then the path with that
 * slash; or the path alone. Options follow "?", separated by "&", each at most once. A byte with a
 * special meaning can be written as %XX everywhere. The parts point into the text, which the caller
 * keeps; they are decoded on request, into the caller's memory. Pure, and allocates nothing. */
#ifndef CV_CORE_ADDRESS_H
#define CV_CORE_ADDRESS_H

#include "core/types.h"

struct cv_span {
    const char *at;
    size_t bytes;
};

/* Invariants after cv__address_split(): every percent sign begins %XX, and none is %00; there are
 * no control characters; each option has a name, and no name occurs twice. An absent part is
 * empty. */
struct cv_address {
    struct cv_span scheme; /* never empty */
    struct cv_span user;   /* the part before the last @ of the authority */
    struct cv_span hosts;
    struct cv_span path;    /* with its leading slash, if it follows "//" and hosts */
    struct cv_span options; /* without the question mark */
    bool has_hosts;         /* there was "//", even if nothing followed it */
};

/* CV_OK or CV_E_INVALID; the error text names the address and what is wrong with it. */
CV_NODISCARD int cv__address_split(const char *text, struct cv_address *ret_address,
                                   struct cv_errtext *reterr);

/* Decodes a part. False: it does not fit, and `buffer` is empty. */
bool cv__address_decode(struct cv_span part, char *buffer, size_t buffer_bytes);

/* Host number `index` of the comma-separated list, decoded and without the brackets of IPv6. The
 * port is 0 if none is written. False: the list is shorter, or this host is malformed or does not
 * fit; cv__address_host_count() tells these apart. */
bool cv__address_host(const struct cv_address *address, uint32_t index, char *host,
                      size_t host_bytes, uint32_t *ret_port);
uint32_t cv__address_host_count(const struct cv_address *address);

/* The value of an option, still encoded. False: the option is absent. An option without "=" has the
 * empty value. */
bool cv__address_option(const struct cv_address *address, const char *name,
                        struct cv_span *ret_value);

/* Fails with CV_E_INVALID: the address has no scheme, or one that is not in `known` (which ends
 * with NULL). The error text shows only the scheme of an address, because the rest may contain a
 * password. */
int cv__address_fail_scheme(const char *text, const char *const *known, struct cv_errtext *reterr);

/* CV_OK if every option is one of `known` (which ends with NULL). Otherwise CV_E_INVALID, and the
 * error text names the first unknown option and what was probably meant. */
CV_NODISCARD int cv__address_check_options(const struct cv_address *address,
                                           const char *const *known, struct cv_errtext *reterr);

#endif
