/* src/stores/registry.c - every kind of store there is; a new one is one file and one line. */
#include "stores/kinds.h"

#include <string.h>

static const struct cv_store_kind *const kinds[] = {
    &cv__store_sqlite, &cv__store_postgres, &cv__store_etcd, &cv__store_zookeeper, NULL,
};

const struct cv_store_kind *cv__store_at(uint32_t index)
{
    return index < sizeof kinds / sizeof kinds[0] ? kinds[index] : NULL;
}

const struct cv_store_kind *cv__store_find(const char *address)
{
    for (uint32_t i = 0; cv__store_at(i) != NULL; i++) {
        const size_t length = strlen(kinds[i]->scheme);
        if (strncmp(address, kinds[i]->scheme, length) == 0 && address[length] == ':') {
            return kinds[i];
        }
    }
    return NULL;
}

/* The length of the UTF-8 sequence that begins here; 0: it is none, or a control character. */
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

bool cv__election_name_is_valid(const char *name)
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
