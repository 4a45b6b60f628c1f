/* src/runtime/slots.c - a file with two slots; see slots.h.
 *
 * A slot: "CVS1", the number of words (32 bits), its sequence number (64 bits), generation, id and
 * number of members (32 bits each), the lease (64 bits), the cluster's and the protocol's names (48
 * bytes each, padded with zeros), the words (64 bits), a check sum of all that (64 bits, FNV-1a);
 * little endian. The slots begin at 0 and at 4096: no disk writes both at once. */
#include "runtime/slots.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "os/descriptor.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "CVS1"
#define SLOT_COUNT 2u
#define SLOT_BYTES 512u
#define SLOT_STEP 4096u
#define NAME_BYTES 48u
#define HEAD_BYTES (4u + 4u + 8u + 3u * 4u + 8u + 2u * NAME_BYTES)
#define CLUSTER_AT 36u
#define PROTOCOL_AT (CLUSTER_AT + NAME_BYTES)
#define SUM_BYTES 8u
_Static_assert(HEAD_BYTES + 8u * CV_PERSIST_WORDS_MAX + SUM_BYTES <= SLOT_BYTES, "one sector");

struct cv_slots {
    char path[PATH_MAX];
    char cluster[NAME_BYTES], protocol[NAME_BYTES];
    cv_id self;
    uint32_t member_count, generation;
    int64_t lease_ns;
    int lock_fd, fd; /* fd -1: there is no file */

    uint64_t sequence; /* of the record below; 0: none */
    uint32_t saved_generation;
    int64_t saved_lease_ns;
    bool is_of_protocol;
    uint32_t word_count;
    uint64_t word[CV_PERSIST_WORDS_MAX];
};

/* ---- The bytes of a slot --------------------------------------------------------------------- */

static void encode(const struct cv_slots *s, uint64_t sequence, const uint64_t *word,
                   uint32_t word_count, uint8_t at[SLOT_BYTES])
{
    memset(at, 0, SLOT_BYTES);
    memcpy(at, MAGIC, 4);
    cv__bytes_put(at + 4, word_count, 4);
    cv__bytes_put(at + 8, sequence, 8);
    cv__bytes_put(at + 16, s->generation, 4);
    cv__bytes_put(at + 20, s->self, 4);
    cv__bytes_put(at + 24, s->member_count, 4);
    cv__bytes_put(at + 28, (uint64_t)s->lease_ns, 8);
    memcpy(at + CLUSTER_AT, s->cluster, NAME_BYTES);
    memcpy(at + PROTOCOL_AT, s->protocol, NAME_BYTES);
    for (uint32_t i = 0; i < word_count; i++) {
        cv__bytes_put(at + HEAD_BYTES + 8 * i, word[i], 8);
    }
    cv__bytes_put(at + SLOT_BYTES - SUM_BYTES, cv__bytes_sum(at, SLOT_BYTES - SUM_BYTES),
                  SUM_BYTES);
}

static bool is_empty(const uint8_t at[SLOT_BYTES])
{
    for (uint32_t i = 0; i < SLOT_BYTES; i++) {
        if (at[i] != 0) {
            return false;
        }
    }
    return true;
}

static int fail_damaged(const struct cv_slots *s, const char *how, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_MALFORMED,
                    "the state '%s' is damaged: %s; remove it only if no other member has lost its "
                    "state, then this one joins anew",
                    s->path, how);
}

static int fail_foreign(const struct cv_slots *s, const uint8_t *at, struct cv_errtext *reterr)
{
    return cv__fail(reterr, CV_E_MALFORMED,
                    "'%s' is the state of member %u of %u of cluster '%.47s', protocol '%.47s', "
                    "generation %u: not of member %u of %u of '%s', '%s', generation %u",
                    s->path, (unsigned)cv__bytes_get(at + 20, 4),
                    (unsigned)cv__bytes_get(at + 24, 4), (const char *)at + CLUSTER_AT,
                    (const char *)at + PROTOCOL_AT, (unsigned)cv__bytes_get(at + 16, 4), s->self,
                    s->member_count, s->cluster, s->protocol, s->generation);
}

/* A record of an earlier generation may have other members and another protocol: it is over. */
static bool is_ours(const struct cv_slots *s, const uint8_t *at)
{
    const uint32_t generation = (uint32_t)cv__bytes_get(at + 16, 4);
    const bool is_same_setting = cv__bytes_get(at + 24, 4) == s->member_count &&
                                 memcmp(at + PROTOCOL_AT, s->protocol, NAME_BYTES) == 0;
    return cv__bytes_get(at + 20, 4) == s->self &&
           memcmp(at + CLUSTER_AT, s->cluster, NAME_BYTES) == 0 &&
           (generation == s->generation ? is_same_setting : generation < s->generation);
}

/* Reads one slot; a newer record replaces what was read before. */
static int decode(struct cv_slots *s, const uint8_t at[SLOT_BYTES], struct cv_errtext *reterr)
{
    const uint64_t count = cv__bytes_get(at + 4, 4);
    const uint64_t sequence = cv__bytes_get(at + 8, 8);
    if (memcmp(at, MAGIC, 4) != 0 || count > CV_PERSIST_WORDS_MAX || sequence == 0 ||
        cv__bytes_get(at + SLOT_BYTES - SUM_BYTES, SUM_BYTES) !=
            cv__bytes_sum(at, SLOT_BYTES - SUM_BYTES)) {
        return fail_damaged(s, "its check sum is wrong", reterr);
    }
    if (!is_ours(s, at)) {
        return fail_foreign(s, at, reterr);
    }
    if (sequence <= s->sequence) {
        return CV_OK;
    }
    s->sequence = sequence;
    s->saved_generation = (uint32_t)cv__bytes_get(at + 16, 4);
    s->saved_lease_ns = (int64_t)cv__bytes_get(at + 28, 8);
    s->is_of_protocol = memcmp(at + PROTOCOL_AT, s->protocol, NAME_BYTES) == 0;
    s->word_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        s->word[i] = cv__bytes_get(at + HEAD_BYTES + 8 * i, 8);
    }
    return CV_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Reads both slots. Their sequence numbers must be consecutive. */
static int load(struct cv_slots *s, struct cv_errtext *reterr)
{
    uint64_t sequence[SLOT_COUNT] = {0};
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        uint8_t at[SLOT_BYTES];
        const ssize_t got = pread(s->fd, at, sizeof at, (off_t)i * SLOT_STEP);
        if (got < 0) {
            return cv__fail(reterr, CV_E_STORE, "cannot read '%s': %s", s->path, strerror(errno));
        }
        if (got != (ssize_t)sizeof at) {
            return fail_damaged(s, "it is too short", reterr);
        }
        if (is_empty(at)) {
            continue;
        }
        const int code = decode(s, at, reterr);
        if (code != CV_OK) {
            return code;
        }
        sequence[i] = cv__bytes_get(at + 8, 8);
    }
    const uint64_t newer = sequence[0] > sequence[1] ? sequence[0] : sequence[1];
    if (newer == 0 || newer - 1 != (newer == sequence[0] ? sequence[1] : sequence[0])) {
        return fail_damaged(s, "a record is missing", reterr);
    }
    return CV_OK;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0 || errno != ENOENT;
}

int cv__slots_adopt(const char *old_path, const char *path, struct cv_errtext *reterr)
{
    int lock_fd;
    if (is_there(path) || !is_there(old_path)) {
        return CV_OK;
    }
    int code = cv__file_lock(old_path, &lock_fd, reterr); /* fails if a process of that version uses
                                                           * it */
    if (code != CV_OK) {
        return code;
    }
    if (rename(old_path, path) != 0 || !cv__file_sync_name(path)) {
        code = cv__fail(reterr, CV_E_STORE, "cannot rename '%s' to '%s': %s", old_path, path,
                        strerror(errno));
    }
    (void)close(lock_fd); /* nothing was written to it */
    return code;
}

int cv__slots_open(const char *path, const struct cv_slots_owner *owner,
                   struct cv_slots **ret_slots, struct cv_errtext *reterr)
{
    CV_ASSERT(strlen(owner->cluster) < NAME_BYTES);
    CV_ASSERT(strlen(owner->protocol) < NAME_BYTES);
    struct cv_slots *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "no memory to open '%s'", path);
    }
    s->lock_fd = -1;
    s->fd = -1;
    (void)snprintf(s->path, sizeof s->path, "%s", path);
    (void)snprintf(s->cluster, sizeof s->cluster, "%s", owner->cluster);
    (void)snprintf(s->protocol, sizeof s->protocol, "%s", owner->protocol);
    s->self = owner->self;
    s->member_count = owner->member_count;
    s->generation = owner->generation;
    s->lease_ns = owner->lease_ns;
    int code = cv__file_lock(path, &s->lock_fd, reterr);
    if (code == CV_OK) {
        s->fd = open(path, O_RDWR | O_DSYNC | O_CLOEXEC);
        if (s->fd >= 0) {
            code = load(s, reterr);
        } else if (errno != ENOENT) {
            const int why = errno;
            code = cv__fail(reterr, cv__descriptor_code(why, CV_E_STORE), "cannot open '%s': %s",
                            path, strerror(why));
        }
    }
    if (code != CV_OK) {
        cv__slots_close(s);
        return code;
    }
    *ret_slots = s;
    return CV_OK;
}

void cv__slots_close(struct cv_slots *s)
{
    if (s == NULL) {
        return;
    }
    if (s->fd >= 0) {
        (void)close(s->fd); /* what was written is on the disk */
    }
    if (s->lock_fd >= 0) {
        (void)close(s->lock_fd); /* nothing was written to it */
    }
    free(s);
}

bool cv__slots_latest(const struct cv_slots *s, struct cv_slots_record *ret_record)
{
    *ret_record = (struct cv_slots_record){.word = s->word,
                                           .word_count = s->word_count,
                                           .generation = s->saved_generation,
                                           .is_of_protocol = s->is_of_protocol,
                                           .lease_ns = s->saved_lease_ns};
    return s->sequence > 0;
}

static void remember(struct cv_slots *s, const uint64_t *word, uint32_t word_count)
{
    s->sequence++;
    s->saved_generation = s->generation;
    s->saved_lease_ns = s->lease_ns;
    s->is_of_protocol = true;
    s->word_count = word_count;
    memmove(s->word, word, word_count * sizeof *word); /* `word` may be s->word */
}

int cv__slots_create(struct cv_slots *s, const uint64_t *word, uint32_t word_count,
                     struct cv_errtext *reterr)
{
    CV_ASSERT(s->fd < 0);
    CV_ASSERT(s->sequence == 0);
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    uint8_t bytes[SLOT_STEP + SLOT_BYTES] = {0};
    encode(s, /* sequence= */ 1, word, word_count, bytes);
    int code = cv__file_replace(s->path, bytes, sizeof bytes, reterr);
    if (code == CV_OK) {
        s->fd = open(s->path, O_RDWR | O_DSYNC | O_CLOEXEC);
        if (s->fd < 0) {
            code = cv__fail(reterr, CV_E_STORE, "cannot open '%s': %s", s->path, strerror(errno));
        }
    }
    if (code == CV_OK) {
        remember(s, word, word_count);
    }
    return code;
}

int cv__slots_save(struct cv_slots *s, const uint64_t *word, uint32_t word_count,
                   struct cv_errtext *reterr)
{
    CV_ASSERT(s->fd >= 0);
    CV_ASSERT(s->sequence > 0);
    CV_ASSERT(word_count <= CV_PERSIST_WORDS_MAX);
    uint8_t bytes[SLOT_BYTES];
    const uint64_t sequence = s->sequence + 1;
    encode(s, sequence, word, word_count, bytes);
    /* Sequence 1 is in slot 0. */
    const off_t at = (off_t)((sequence - 1) % SLOT_COUNT) * SLOT_STEP;
    const ssize_t wrote = pwrite(s->fd, bytes, sizeof bytes, at);
    if (wrote != (ssize_t)sizeof bytes) {
        return cv__fail(reterr, CV_E_STORE, "cannot save to '%s': %s", s->path,
                        strerror(wrote < 0 ? errno : ENOSPC));
    }
    remember(s, word, word_count);
    return CV_OK;
}
