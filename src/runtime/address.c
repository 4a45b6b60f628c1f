/* src/runtime/address.c - where an election is held; see address.h. */
#include "runtime/address.h"

#include "core/errors.h"
#include "core/types.h"

#include <string.h>

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Copies up to `end`, decoded and terminated, to *at, which moves behind it. NULL: a wrong escape,
 * or a character that has no business in a line. */
static const char *decode(const char *begin, const char *end, char **at)
{
    const char *result = *at;
    for (const char *c = begin; c < end; c++) {
        int byte = (unsigned char)*c;
        if (*c == '%') {
            const int high = c + 1 < end ? digit_of(c[1]) : -1;
            const int low = c + 2 < end ? digit_of(c[2]) : -1;
            if (high < 0 || low < 0) {
                return NULL;
            }
            byte = 16 * high + low;
            c += 2;
        }
        if (byte < ' ' || byte == 127) {
            return NULL;
        }
        *(*at)++ = (char)byte;
    }
    *(*at)++ = '\0';
    return result;
}

static bool parse_option(struct cv_address *a, const char *begin, const char *end, char **at)
{
    const char *equals = memchr(begin, '=', (size_t)(end - begin));
    struct cv_address_option option = {0};
    option.name = decode(begin, equals != NULL ? equals : end, at);
    option.value = equals != NULL ? decode(equals + 1, end, at) : NULL;
    if (option.name == NULL || (equals != NULL && option.value == NULL) ||
        a->option_count == CV_ADDRESS_OPTIONS_MAX) {
        return false;
    }
    a->option[a->option_count++] = option;
    return true;
}

/* An option that stands there twice would have two values. */
static const char *repeated_name(const struct cv_address *a)
{
    for (uint32_t i = 0; i < a->option_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(a->option[i].name, a->option[k].name) == 0) {
                return a->option[i].name;
            }
        }
    }
    return NULL;
}

int cv__address_parse(const char *text, struct cv_address *a, struct cv_errtext *reterr)
{
    memset(a, 0, sizeof *a);
    const char *colon = strchr(text, ':');
    if (strlen(text) >= CV_ADDRESS_BYTES_MAX || colon == NULL || colon == text) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%.100s' is not an address like multicast:GROUP:PORT?...", text);
    }
    const char *end = text + strlen(text);
    const char *question = strchr(text, '?');
    const char *where_end = question != NULL ? question : end;
    char *at = a->text;
    a->scheme = decode(text, colon, &at);
    a->where = colon < where_end ? decode(colon + 1, where_end, &at) : NULL;
    bool is_fine = a->scheme != NULL && a->where != NULL;
    for (const char *begin = where_end; is_fine && begin < end;) {
        begin++; /* past '?' or '&' */
        const char *next = strchr(begin, '&');
        const char *option_end = next != NULL ? next : end;
        is_fine = parse_option(a, begin, option_end, &at);
        begin = option_end;
    }
    if (!is_fine) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%.200s': a wrong %%-escape, a control character or too many options",
                        text);
    }
    const char *repeated = repeated_name(a);
    if (repeated != NULL) {
        return cv__fail(reterr, CV_E_INVALID, "'%.200s' says '%.50s' twice", text, repeated);
    }
    return CV_OK;
}

struct cv_address_option *cv__address_take(struct cv_address *a, const char *name)
{
    for (uint32_t i = 0; i < a->option_count; i++) {
        if (strcmp(a->option[i].name, name) == 0) {
            a->option[i].is_taken = true;
            return &a->option[i];
        }
    }
    return NULL;
}

const char *cv__address_value(struct cv_address *a, const char *name, const char *otherwise)
{
    const struct cv_address_option *option = cv__address_take(a, name);
    return option == NULL ? otherwise : option->value != NULL ? option->value : "";
}

const struct cv_address_option *cv__address_left(const struct cv_address *a)
{
    for (uint32_t i = 0; i < a->option_count; i++) {
        if (!a->option[i].is_taken) {
            return &a->option[i];
        }
    }
    return NULL;
}
