/* src/core/address.c - see address.h. */
#include "core/address.h"

#include "core/errors.h"
#include "core/text.h"

#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The index of the first `wanted` in a part; the part's length if there is none. */
static size_t find(struct cv_span part, char wanted)
{
    CV_ASSERT(part.at != NULL || part.bytes == 0);
    size_t i = 0;
    while (i < part.bytes && part.at[i] != wanted) {
        i++;
    }
    return i;
}

static struct cv_span cut(struct cv_span part, size_t from, size_t to)
{
    CV_ASSERT(from <= to && to <= part.bytes);
    return (struct cv_span){part.at != NULL ? part.at + from : NULL, to - from}; /* NULL: absent */
}

/* Removes the text up to `divider` from *rest, and the divider too; returns the text. */
static struct cv_span next_part(struct cv_span *rest, char divider)
{
    const size_t end = find(*rest, divider);
    const struct cv_span part = cut(*rest, 0, end);
    const size_t before = rest->bytes;
    *rest = cut(*rest, end < rest->bytes ? end + 1 : end, rest->bytes);
    CV_ASSERT(rest->bytes < before || before == 0); /* so that every loop over parts ends */
    return part;
}

bool cv__address_decode(struct cv_span part, char *buffer, size_t buffer_bytes)
{
    CV_ASSERT(buffer_bytes > 0);
    size_t length = 0;
    for (size_t i = 0; i < part.bytes; i++) {
        char c = part.at[i];
        if (c == '%') {
            CV_ASSERT(i + 2 < part.bytes); /* cv__address_split() looked */
            c = (char)(hex_digit(part.at[i + 1]) * 16 + hex_digit(part.at[i + 2]));
            i += 2;
        }
        CV_ASSERT(c != '\0'); /* %00 was refused, so a name does not end early */
        if (length + 1 >= buffer_bytes) {
            buffer[0] = '\0';
            return false;
        }
        buffer[length++] = c;
    }
    buffer[length] = '\0';
    return true;
}

/* Compares the decoded part with a text. */
static bool equals(struct cv_span part, const char *text)
{
    size_t length = 0;
    for (size_t i = 0; i < part.bytes; i++, length++) {
        char c = part.at[i];
        if (c == '%') {
            CV_ASSERT(i + 2 < part.bytes); /* cv__address_split() looked */
            c = (char)(hex_digit(part.at[i + 1]) * 16 + hex_digit(part.at[i + 2]));
            i += 2;
        }
        CV_ASSERT(c != '\0'); /* so the comparison also stops at the end of `text` */
        if (text[length] != c) {
            return false;
        }
    }
    return text[length] == '\0';
}

static const char *why_malformed(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == 0x7f) {
            return "it contains a control character";
        }
        if (c != '%') {
            continue;
        }
        if (hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0) {
            return "after % come two hexadecimal digits (%25 is the percent sign itself)";
        }
        if (hex_digit(at[1]) == 0 && hex_digit(at[2]) == 0) {
            return "%00 cannot be part of any name";
        }
    }
    return NULL;
}

static size_t scheme_length(const char *text)
{
    size_t length = 0;
    while (is_letter(text[length]) ||
           (length > 0 && (text[length] == '-' || text[length] == '+' ||
                           (text[length] >= '0' && text[length] <= '9')))) {
        length++;
    }
    return text[length] == ':' ? length : 0;
}

int cv__address_fail_scheme(const char *text, const char *const *known, struct cv_errtext *reterr)
{
    CV_ASSERT(text != NULL);
    CV_ASSERT(known != NULL);
    const size_t length = scheme_length(text);
    char scheme[32];
    if (length == 0 || length >= sizeof scheme) {
        const bool is_name = strchr(text, ':') == NULL && strchr(text, '@') == NULL;
        return cv__fail(reterr, CV_E_INVALID,
                        "%s%.200s%s is not an address; write it like sqlite:FILE or "
                        "etcd://HOST:PORT",
                        is_name ? "'" : "this", is_name ? text : "", is_name ? "'" : "");
    }
    memcpy(scheme, text, length);
    scheme[length] = '\0';
    return cv__text_fail_unknown(reterr, CV_E_INVALID, "store", scheme, known);
}

static int check_options(const struct cv_address *address, const char *text,
                         struct cv_errtext *reterr)
{
    CV_ASSERT(address->scheme.bytes > 0); /* every address has one */
    struct cv_span rest = address->options;
    while (rest.bytes > 0) {
        struct cv_span option = next_part(&rest, '&');
        const struct cv_span name = next_part(&option, '=');
        char decoded[64];
        if (name.bytes == 0 || !cv__address_decode(name, decoded, sizeof decoded)) {
            return cv__fail(reterr, CV_E_INVALID,
                            "address '%s': options are written ?name=value&name=value", text);
        }
        for (struct cv_span others = rest; others.bytes > 0;) {
            struct cv_span other = next_part(&others, '&');
            if (equals(next_part(&other, '='), decoded)) {
                return cv__fail(reterr, CV_E_INVALID, "address '%s': option '%s' is given twice",
                                text, decoded);
            }
        }
    }
    return CV_OK;
}

int cv__address_split(const char *text, struct cv_address *ret_address, struct cv_errtext *reterr)
{
    struct cv_address address = {0};
    const char *wrong = why_malformed(text);
    const size_t scheme_bytes = scheme_length(text);
    if (wrong == NULL && scheme_bytes == 0) {
        wrong = "it has to begin with a scheme, as in sqlite:FILE";
    }
    if (wrong != NULL) {
        return cv__fail(reterr, CV_E_INVALID, "address '%s': %s", text, wrong);
    }

    address.scheme = (struct cv_span){text, scheme_bytes};
    struct cv_span rest = {text + scheme_bytes + 1, strlen(text + scheme_bytes + 1)};
    const size_t question = find(rest, '?');
    if (question < rest.bytes) {
        address.options = cut(rest, question + 1, rest.bytes);
        rest = cut(rest, 0, question);
    }
    if (rest.bytes >= 2 && rest.at[0] == '/' && rest.at[1] == '/') {
        address.has_hosts = true;
        rest = cut(rest, 2, rest.bytes);
        const size_t slash = find(rest, '/');
        address.hosts = cut(rest, 0, slash);
        rest = cut(rest, slash, rest.bytes);
        for (size_t at; (at = find(address.hosts, '@')) < address.hosts.bytes;) {
            const char *begin = text + scheme_bytes + 3;
            address.hosts = cut(address.hosts, at + 1, address.hosts.bytes);
            address.user = (struct cv_span){begin, (size_t)(address.hosts.at - begin) - 1};
        }
    }
    address.path = rest;
    CV_ASSERT(address.user.bytes == 0 || address.has_hosts);
    const int status = check_options(&address, text, reterr);
    if (status == CV_OK) {
        *ret_address = address;
    }
    return status;
}

uint32_t cv__address_host_count(const struct cv_address *address)
{
    CV_ASSERT(address->hosts.bytes == 0 || address->has_hosts);
    uint32_t count = address->hosts.bytes > 0 ? 1 : 0;
    for (size_t i = 0; i < address->hosts.bytes; i++) {
        count += address->hosts.at[i] == ',';
    }
    return count;
}

static bool parse_port(struct cv_span digits, uint32_t *ret_port)
{
    uint32_t port = 0;
    for (size_t i = 0; i < digits.bytes; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9' || port > 65535) {
            return false;
        }
        port = port * 10 + (uint32_t)(digits.at[i] - '0');
    }
    CV_ASSERT(port < 10 * 65536 + 10); /* the loop stops before it could wrap around */
    *ret_port = port;
    return digits.bytes > 0 && port >= 1 && port <= 65535;
}

bool cv__address_host(const struct cv_address *address, uint32_t index, char *host,
                      size_t host_bytes, uint32_t *ret_port)
{
    CV_ASSERT(host_bytes > 0);
    struct cv_span rest = address->hosts;
    struct cv_span part = next_part(&rest, ',');
    for (uint32_t i = 0; i < index; i++) {
        part = next_part(&rest, ',');
    }
    struct cv_span name = part;
    size_t end = find(part, ':');
    if (part.bytes > 0 && part.at[0] == '[') {
        const size_t bracket = find(part, ']');
        if (bracket == part.bytes) {
            return false;
        }
        name = cut(part, 1, bracket);
        end = bracket + 1;
    } else {
        name = cut(part, 0, end);
    }
    uint32_t port = 0;
    if (end < part.bytes &&
        (part.at[end] != ':' || !parse_port(cut(part, end + 1, part.bytes), &port))) {
        return false;
    }
    *ret_port = port;
    return name.bytes > 0 && cv__address_decode(name, host, host_bytes);
}

bool cv__address_option(const struct cv_address *address, const char *name,
                        struct cv_span *ret_value)
{
    struct cv_span rest = address->options;
    while (rest.bytes > 0) {
        struct cv_span option = next_part(&rest, '&');
        if (equals(next_part(&option, '='), name)) {
            *ret_value = option;
            return true;
        }
    }
    return false;
}

static bool is_known(struct cv_span name, const char *const *known)
{
    for (; *known != NULL; known++) {
        if (equals(name, *known)) {
            return true;
        }
    }
    return false;
}

int cv__address_check_options(const struct cv_address *address, const char *const *known,
                              struct cv_errtext *reterr)
{
    CV_ASSERT(known != NULL);
    struct cv_span rest = address->options;
    while (rest.bytes > 0) {
        struct cv_span option = next_part(&rest, '&');
        const struct cv_span name = next_part(&option, '=');
        if (is_known(name, known)) {
            continue;
        }
        char decoded[64];
        (void)cv__address_decode(name, decoded, sizeof decoded); /* split() checked that it fits */
        return cv__text_fail_unknown(reterr, CV_E_INVALID, "address option", decoded, known);
    }
    return CV_OK;
}
