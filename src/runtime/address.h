/* src/runtime/address.h - where an election is held: SCHEME:WHERE?NAME=VALUE&NAME=VALUE
 *
 * "multicast:239.1.2.3:7000?interface=eth0&key=/etc/conclave.key&R=3". WHERE and the options are
 * percent-decoded (%26 is an ampersand in a value); an option without '=' is a word of its own. No
 * secret needs to stand in an address: keys are named by their files. */
#ifndef CV_RUNTIME_ADDRESS_H
#define CV_RUNTIME_ADDRESS_H

#include <conclave/errors.h>

#include <stdbool.h>
#include <stdint.h>

#define CV_ADDRESS_BYTES_MAX 2048u
#define CV_ADDRESS_OPTIONS_MAX 32u

struct cv_address_option {
    const char *name;
    const char *value; /* NULL: the word alone */
    bool is_taken;     /* somebody has asked for it */
};

/* Points into its own text: it is not to be copied. */
struct cv_address {
    char text[2 * CV_ADDRESS_BYTES_MAX];
    const char *scheme;
    const char *where;
    struct cv_address_option option[CV_ADDRESS_OPTIONS_MAX];
    uint32_t option_count;
};

/* CV_E_INVALID: it is not of that form, or says a thing twice. */
CV_NODISCARD int cv__address_parse(const char *text, struct cv_address *ret_address,
                                   struct cv_errtext *reterr);

/* The option of that name, which is then taken; NULL: there is none. */
struct cv_address_option *cv__address_take(struct cv_address *address, const char *name);
/* Its value: `otherwise` if there is no such option; "" for the word alone. */
const char *cv__address_value(struct cv_address *address, const char *name, const char *otherwise);
/* The first that nobody has taken; NULL: none is left. */
const struct cv_address_option *cv__address_left(const struct cv_address *address);

#endif
