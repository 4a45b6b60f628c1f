/* src/stores/registry.c - finds the kind of store for the scheme of an address.
 *
 * SQLite is linked in; the other kinds are modules that are loaded when an address names them. To
 * add a kind with a client library, write one file with its table, and add its name to the two
 * lists below and a module to meson.build. */
#include "core/address.h"
#include "core/errors.h"
#include "core/types.h"
#include "modules/module.h"
#include "stores/kinds.h"

#include <string.h>

/* The kinds that are loaded when an address names them. */
static const char *const modules[] = {"postgres", "etcd", "zookeeper"};

static bool has_scheme(const char *address, const char *scheme)
{
    const size_t length = strlen(scheme);
    return strncmp(address, scheme, length) == 0 && address[length] == ':';
}

/* libpq accepts two schemes, and so do we. */
static bool is_of(const char *address, uint32_t module)
{
    const bool is_postgresql = module == 0 && has_scheme(address, "postgresql");
    return is_postgresql || has_scheme(address, modules[module]);
}

/* Stands for a kind whose module cannot be loaded: opening it reports why. */
static int absent_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    (void)ret_store;
    for (uint32_t i = 0; i < COUNT_OF(modules); i++) {
        if (is_of(setting->address, i) && cv__module_table(modules[i], reterr) == NULL) {
            return CV_E_UNKNOWN;
        }
    }
    return cv__fail(reterr, CV_E_UNKNOWN, "'%s': try again", setting->address); /* installed now */
}

#define ABSENT(of)                                                                                 \
    {                                                                                              \
        .scheme = of, .summary = "not installed", .example = "", .clock = "", .notifications = "", \
        .open = absent_open, .lease_ns_step = 1, .grant_percent = 100,                             \
    }

static const struct cv_store_kind absent[COUNT_OF(modules)] = {ABSENT("postgres"), ABSENT("etcd"),
                                                               ABSENT("zookeeper")};

const struct cv_store_kind *cv__store_at(uint32_t index)
{
    if (index == 0) {
        return &cv__store_sqlite;
    }
    if (index > COUNT_OF(modules)) {
        return NULL;
    }
    const struct cv_store_kind *kind = cv__module_table(modules[index - 1], NULL);
    return kind != NULL ? kind : &absent[index - 1];
}

const char *cv__store_scheme_at(uint32_t index)
{
    if (index == 0) {
        return cv__store_sqlite.scheme;
    }
    return index <= COUNT_OF(modules) ? modules[index - 1] : NULL;
}

/* The index of the kind for an address; COUNT_OF(modules) + 1: there is none. */
static uint32_t index_of(const char *address)
{
    if (has_scheme(address, cv__store_sqlite.scheme)) {
        return 0;
    }
    uint32_t i = 0;
    while (i < COUNT_OF(modules) && !is_of(address, i)) {
        i++;
    }
    return i + 1;
}

const struct cv_store_kind *cv__store_find(const char *address)
{
    return cv__store_at(index_of(address));
}

bool cv__store_serves(const char *address)
{
    return index_of(address) <= COUNT_OF(modules);
}

int64_t cv__store_grant_ns(const struct cv_store_kind *kind, int64_t lease_ns)
{
    return lease_ns / 100 * kind->grant_percent;
}

/* The length of the UTF-8 sequence that begins here; 0: it is not valid, or a control character. */
static size_t character_bytes(const unsigned char *at)
{
    if (at[0] < 0x80) {
        return at[0] >= 0x20 && at[0] != 0x7f ? 1 : 0;
    }
    const size_t bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    static const uint32_t smallest[] = {0, 0, 0xa0, 0x800, 0x10000}; /* 0x80..0x9f are controls */
    if (at[0] < 0xc2 || at[0] > 0xf4) {
        return 0;
    }
    uint32_t character = at[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (at[i] & 0x3fu);
    }
    const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
    return character < smallest[bytes] || character > 0x10ffff || is_surrogate ? 0 : bytes;
}

bool cv__store_election_is_valid(const char *name)
{
    if (name[0] == '\0' || strlen(name) >= CV_ELECTION_BYTES) {
        return false;
    }
    for (const unsigned char *at = (const unsigned char *)name; *at != '\0';) {
        const size_t bytes = character_bytes(at);
        if (bytes == 0) {
            return false;
        }
        at += bytes;
    }
    return true;
}
