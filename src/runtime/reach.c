/* src/runtime/reach.c - see reach.h. */
#include "runtime/reach.h"

#include "core/bytes.h"
#include "core/errors.h"
#include "core/options.h"
#include "os/clock.h"

#include <conclave/conclave.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_WORD_BYTES 97u /* of an election in the name of a file, with the final zero */

static uint32_t hash_add(uint32_t hash, const char *text)
{
    const uint64_t sum = cv__bytes_sum((const uint8_t *)text, strlen(text));
    return (hash ^ (uint32_t)sum ^ (uint32_t)(sum >> 32)) * UINT32_C(16777619);
}

struct cv_peers_same cv__reach_same(const struct cv_cluster *c)
{
    struct cv_peers_same same = {.generation = c->generation};
    char line[CV_TEXT_BYTES + 64];
    same.protocol = hash_add(1, c->protocol->name);
    for (uint32_t i = 0; c->protocol->options[i].name != NULL; i++) {
        struct cv_option_text text;
        (void)snprintf(line, sizeof line, "%s=%s", c->protocol->options[i].name,
                       cv__config_format(&c->config, &c->protocol->options[i], i, &text));
        same.options = hash_add(same.options, line);
    }
    (void)snprintf(line, sizeof line, "drift=%lld", (long long)c->config.drift_ppb);
    same.options = hash_add(same.options, line);
    for (uint32_t i = 0; i < c->member_count; i++) {
        (void)snprintf(line, sizeof line, "%u=%s", c->member[i].id, c->member[i].name);
        same.members = hash_add(same.members, line);
    }
    return same;
}

const char *cv__reach_difference(const char *member, const struct cv_peers_same *theirs,
                                 const char *our_name, const struct cv_peers_same *ours,
                                 char line[CV_ERRTEXT_BYTES])
{
    if (theirs->generation != ours->generation) {
        (void)snprintf(line, CV_ERRTEXT_BYTES, "member '%s' is of generation %u and %s of %u",
                       member, theirs->generation, our_name, ours->generation);
        return line;
    }
    /* Another protocol has other options, of course. */
    const char *what = theirs->protocol != ours->protocol ? "another protocol"
                       : theirs->options != ours->options ? "other options"
                                                          : "";
    const bool has_other_members = theirs->members != ours->members;
    (void)snprintf(line, CV_ERRTEXT_BYTES,
                   "member '%s' has %s%s%s than %s, in the same generation %u", member, what,
                   what[0] != '\0' && has_other_members ? " and " : "",
                   has_other_members ? "other members" : "", our_name, ours->generation);
    return line;
}

static int resolve(const struct cv_cluster *c, cv_id id, int family,
                   struct cv_udp_address *ret_address, struct cv_errtext *reterr)
{
    const struct cv_cluster_member *m = &c->member[id - 1];
    return cv__udp_resolve(m->host, (uint16_t)m->port, family, ret_address, reterr);
}

int cv__reach_self(const struct cv_cluster *c, const char *name, cv_id *ret_self,
                   struct cv_errtext *reterr)
{
    if (name != NULL) {
        const struct cv_cluster_member *m = cv__cluster_find(c, name);
        if (m == NULL) {
            return cv__cluster_fail_member(c, name, reterr);
        }
        *ret_self = m->id;
        return CV_OK;
    }
    *ret_self = CV_ID_NONE;
    for (cv_id id = 1; id <= c->member_count; id++) {
        struct cv_udp_address address;
        if (resolve(c, id, AF_UNSPEC, &address, NULL) != CV_OK || !cv__udp_is_local(&address)) {
            continue;
        }
        if (*ret_self != CV_ID_NONE) {
            return cv__fail(reterr, CV_E_INVALID,
                            "members '%s' and '%s' are both on this host; give --node NAME",
                            c->member[*ret_self - 1].name, c->member[id - 1].name);
        }
        *ret_self = id;
    }
    return *ret_self != CV_ID_NONE
               ? CV_OK
               : cv__fail(reterr, CV_E_INVALID,
                          "no member of '%s' has an address of this host; give --node NAME",
                          c->name);
}

int cv__reach_addresses(const struct cv_cluster *c, cv_id self, struct cv_udp_address ret_address[],
                        struct cv_errtext *reterr)
{
    int code = resolve(c, self, AF_UNSPEC, &ret_address[self - 1], reterr);
    const int family = code == CV_OK ? ret_address[self - 1].any.sa_family : AF_UNSPEC;
    for (cv_id id = 1; id <= c->member_count && code == CV_OK; id++) {
        if (id != self) {
            code = resolve(c, id, family, &ret_address[id - 1], reterr);
        }
    }
    for (cv_id id = 2; id <= c->member_count && code == CV_OK; id++) {
        for (cv_id other = 1; other < id && code == CV_OK; other++) {
            if (cv__udp_equal(&ret_address[id - 1], &ret_address[other - 1])) {
                code = cv__fail(reterr, CV_E_INVALID,
                                "members '%s' (%s) and '%s' (%s) have one address and port",
                                c->member[other - 1].name, c->member[other - 1].host,
                                c->member[id - 1].name, c->member[id - 1].host);
            }
        }
    }
    return code;
}

static int read_key(const char *path, struct cv_key *ret_key, struct cv_errtext *reterr)
{
    return path[0] != '\0' ? cv__key_read(path, ret_key, reterr) : CV_OK;
}

int cv__reach_frames(const struct cv_cluster *c, const char *election,
                     const struct cv_peers_setting *setting, struct cv_peers **ret_peers,
                     struct cv_errtext *reterr)
{
    struct cv_peers_setting full = *setting;
    struct cv_key key = {{0}}, next_key = {{0}};
    char channel[CV_CLUSTER_NAME_BYTES + CV_ELECTION_BYTES];
    (void)snprintf(channel, sizeof channel, "%s\n%s", c->name, election);
    int code = read_key(c->key, &key, reterr);
    if (code == CV_OK) {
        code = read_key(c->next_key, &next_key, reterr);
    }
    if (code == CV_OK) {
        full.channel = channel;
        full.key = &key;
        full.next_key = c->next_key[0] != '\0' ? &next_key : NULL;
        full.same = cv__reach_same(c);
        full.member_count = c->member_count;
        full.boot = cv__clock_boot();
        full.drift_ppb = c->config.drift_ppb;
        code = cv__peers_new(&full, ret_peers, reterr);
    }
    cv__key_forget(&key);
    cv__key_forget(&next_key);
    return code;
}

/* ---- Files ----------------------------------------------------------------------------------- */

int cv__reach_folder(const struct cv_cluster *c, struct cv_errtext *reterr)
{
    return access(c->state, W_OK | X_OK) == 0
               ? CV_OK
               : cv__fail(reterr, CV_E_STORE, "the state folder '%s' cannot be used: %s", c->state,
                          strerror(errno));
}

/* Two long names with the same hash would share a state file, which only one election can open. */
static void file_word(const char *election, char ret_word[FILE_WORD_BYTES])
{
    size_t length = 0;
    for (const unsigned char *at = (const unsigned char *)election; *at != '\0'; at++) {
        const bool is_plain = *at < 128 && (isalnum(*at) || strchr("-_.", *at) != NULL);
        if (length + 3 >= FILE_WORD_BYTES) {
            (void)snprintf(ret_word, FILE_WORD_BYTES, "+%016" PRIx64,
                           cv__bytes_sum((const uint8_t *)election, strlen(election)));
            return;
        }
        length += (size_t)snprintf(ret_word + length, FILE_WORD_BYTES - length,
                                   is_plain ? "%c" : "%%%02X", *at);
    }
}

static int file_check(int length, size_t spare, struct cv_errtext *reterr)
{
    return length > 0 && (size_t)length + spare < PATH_MAX
               ? CV_OK
               : cv__fail(reterr, CV_E_INVALID, "the name of the state folder is too long");
}

int cv__reach_file(const struct cv_cluster *c, const char *member, const char *election,
                   const char *suffix, size_t spare, char ret_path[PATH_MAX],
                   struct cv_errtext *reterr)
{
    char word[FILE_WORD_BYTES] = "";
    file_word(election, word);
    return file_check(
        snprintf(ret_path, PATH_MAX, "%s/%s.%s@%s.%s", c->state, c->name, member, word, suffix),
        spare, reterr);
}

int cv__reach_old_file(const struct cv_cluster *c, const char *member, const char *suffix,
                       size_t spare, char ret_path[PATH_MAX], struct cv_errtext *reterr)
{
    return file_check(
        snprintf(ret_path, PATH_MAX, "%s/%s.%s.%s", c->state, c->name, member, suffix), spare,
        reterr);
}
