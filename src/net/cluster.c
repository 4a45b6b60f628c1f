/* src/net/cluster.c - reads the file of a cluster; see cluster.h.
 *
 * libinih splits lines into sections, names and values. It does not report the line number, and it
 * cuts long lines and names without an error. So the function that feeds it lines counts and checks
 * them. */
#include "net/cluster.h"

#include "core/errors.h"
#include "core/options.h"
#include "core/text.h"
#include "os/descriptor.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INI_WORD_MAX 49u /* libinih cuts longer sections and names */
#define VALUE_BYTES 200  /* its lines are not longer */
#define MEMBER_WORD "member "
#define DRIFT_PPM_MAX 10000

struct setting {
    char name[INI_WORD_MAX + 1];
    char value[VALUE_BYTES];
    uint32_t line;
};

/* The keys of [cluster] and of [member NAME], in the order of the two tables below. */
enum {
    KEY_NAME,
    KEY_GENERATION,
    KEY_KEY,
    KEY_NEXT_KEY,
    KEY_STATE,
    KEY_PROTOCOL,
    KEY_DRIFT,
    KEY_REALTIME,
    KEY_WITNESS,
};
enum { KEY_ID, KEY_ADDRESS, KEY_SITE, KEY_PREFERENCE };
#define KEY_NONE UINT32_MAX

static const char *const cluster_keys[] = {"name",    "generation", "key",   "next-key",
                                           "state",   "protocol",   "drift", "realtime",
                                           "witness", NULL};
static const char *const member_keys[] = {"id", "address", "site", "preference", NULL};

struct reading {
    struct cv_cluster *cluster;
    const char *folder;
    cv_cluster_say *say;
    void *user;
    uint32_t mistake_count;

    /* The text that is left, and the line that is handed out. */
    const char *text;
    size_t bytes_left;
    uint32_t line;

    uint32_t section_line; /* of the section that is being read; 0: none yet */
    bool section_is_used;  /* it has a key */
    char section[INI_WORD_MAX + 1];

    uint32_t cluster_seen; /* bits of the keys */
    uint32_t protocol_line;
    int64_t drift_ppb;
    uint32_t member_seen[CV_CLUSTER_MEMBERS_MAX];
    struct setting options[CV_OPTIONS_MAX];
    uint32_t option_count;
};

static void mistake(struct reading *r, uint32_t line, const char *format, ...) CV_PRINTF(3, 4);

static void mistake(struct reading *r, uint32_t line, const char *format, ...)
{
    char text[CV_ERRTEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->mistake_count++;
    r->say(r->user, line, text);
}

static void mistake_unknown(struct reading *r, uint32_t line, const char *what, const char *word,
                            const char *const *known)
{
    struct cv_errtext why;
    (void)cv__text_fail_unknown(&why, CV_E_INVALID, what, word, known);
    mistake(r, line, "%s", why.text);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Names are parts of file names, lines and commands: letters, digits, and - _ . inside. */
static bool is_name(const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        const bool is_inner = text[i] == '-' || text[i] == '_' || text[i] == '.';
        if (!isalnum((unsigned char)text[i]) && !(is_inner && i > 0)) {
            return false;
        }
    }
    return length > 0 && length < CV_CLUSTER_NAME_BYTES;
}

static bool set_name(struct reading *r, const char *what, const char *value, char *ret_name)
{
    if (!is_name(value)) {
        mistake(r, r->line, "%s '%s': a name is 1 to %d letters, digits, '-', '_' or '.'", what,
                value, CV_CLUSTER_NAME_BYTES - 1);
        return false;
    }
    (void)snprintf(ret_name, CV_CLUSTER_NAME_BYTES, "%s", value);
    return true;
}

static bool read_number(const char *text, uint32_t max, uint32_t *ret_value)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= max; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *ret_value = (uint32_t)value;
    return at > text && *at == '\0' && value <= max;
}

static void set_number(struct reading *r, const char *name, const char *value, uint32_t min,
                       uint32_t max, uint32_t *ret_value)
{
    uint32_t number;
    if (!read_number(value, max, &number) || number < min) {
        mistake(r, r->line, "%s = %s: a number from %u to %u is wanted", name, value, min, max);
        return;
    }
    *ret_value = number;
}

static void set_flag(struct reading *r, const char *name, const char *value, bool *ret_flag)
{
    *ret_flag = strcmp(value, "yes") == 0;
    if (!*ret_flag && strcmp(value, "no") != 0) {
        mistake(r, r->line, "%s = %s: yes or no is wanted", name, value);
    }
}

static void set_path(struct reading *r, const char *name, const char *value,
                     char ret_path[PATH_MAX])
{
    const bool is_absolute = value[0] == '/';
    const int length = snprintf(ret_path, PATH_MAX, "%s%s%s", is_absolute ? "" : r->folder,
                                is_absolute ? "" : "/", value);
    if (value[0] == '\0' || length >= PATH_MAX) {
        mistake(r, r->line, "%s = %s: the name of a file is wanted", name, value);
        ret_path[0] = '\0';
    }
}

/* 10.0.0.1:7100, [fd00::1]:7100, host.example:7100. */
static void set_address(struct reading *r, const char *value, struct cv_cluster_member *member)
{
    const char *colon = strrchr(value, ':');
    const bool has_brackets = value[0] == '[' && colon > value && colon[-1] == ']';
    const char *host = has_brackets ? value + 1 : value;
    const size_t host_bytes = colon == NULL ? 0 : (size_t)(colon - host) - (has_brackets ? 1u : 0u);
    uint32_t port = 0;
    if (colon == NULL || host_bytes == 0 || host_bytes >= sizeof member->host ||
        strcspn(host, " \t[]@/") < host_bytes ||
        (!has_brackets && memchr(host, ':', host_bytes) != NULL) ||
        !read_number(colon + 1, UINT16_MAX, &port) || port == 0) {
        mistake(r, r->line,
                "address = %s: HOST:PORT is wanted, as in 10.0.0.1:7100 or [fd00::1]:7100", value);
        return;
    }
    memcpy(member->host, host, host_bytes);
    member->host[host_bytes] = '\0';
    member->port = port;
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* The number of a key; KEY_NONE: it is unknown, or was there before, and that was said. */
static uint32_t find_key(struct reading *r, const char *name, const char *const *known,
                         uint32_t *seen)
{
    for (uint32_t i = 0; known[i] != NULL; i++) {
        if (strcmp(known[i], name) == 0) {
            if ((*seen & BIT(i)) != 0) {
                mistake(r, r->line, "'%s' is given twice in [%s]", name, r->section);
                return KEY_NONE;
            }
            *seen |= BIT(i);
            return i;
        }
    }
    char what[INI_WORD_MAX + 16];
    (void)snprintf(what, sizeof what, "key of [%s]", r->section);
    mistake_unknown(r, r->line, what, name, known);
    return KEY_NONE;
}

/* A protocol that sends messages among a fixed set of members. */
static bool is_usable(const struct cv_protocol *protocol)
{
    return !protocol->is_anonymous && protocol->message_count > 0;
}

static void set_protocol(struct reading *r, const char *name)
{
    const char *known[CV_WORDS_MAX + 1];
    uint32_t known_count = 0;
    const struct cv_protocol *protocol;
    r->cluster->protocol = NULL;
    for (uint32_t i = 0; (protocol = cv_protocol_at(i)) != NULL; i++) {
        if (!is_usable(protocol)) {
            continue;
        }
        CV_ASSERT(known_count < CV_WORDS_MAX);
        known[known_count++] = protocol->name;
        if (strcmp(protocol->name, name) == 0) {
            r->cluster->protocol = protocol;
        }
    }
    known[known_count] = NULL;
    if (r->cluster->protocol == NULL) {
        mistake_unknown(r, r->line, "protocol", name, known);
    }
}

static void on_cluster_key(struct reading *r, const char *name, const char *value)
{
    struct cv_cluster *c = r->cluster;
    uint32_t ppm = 0;
    switch (find_key(r, name, cluster_keys, &r->cluster_seen)) {
    case KEY_NAME:
        (void)set_name(r, "name", value, c->name);
        break;
    case KEY_GENERATION:
        set_number(r, name, value, 1, CV_CLUSTER_GENERATION_MAX, &c->generation);
        break;
    case KEY_KEY:
        set_path(r, name, value, c->key);
        break;
    case KEY_NEXT_KEY:
        set_path(r, name, value, c->next_key);
        break;
    case KEY_STATE:
        set_path(r, name, value, c->state);
        break;
    case KEY_PROTOCOL:
        r->protocol_line = r->line;
        set_protocol(r, value);
        break;
    case KEY_DRIFT:
        set_number(r, name, value, 1, DRIFT_PPM_MAX, &ppm);
        r->drift_ppb = INT64_C(1000) * ppm;
        break;
    case KEY_REALTIME:
        set_flag(r, name, value, &c->is_realtime);
        break;
    case KEY_WITNESS:
        set_flag(r, name, value, &c->has_witness);
        break;
    default:
        break; /* it was said */
    }
}

static void on_option(struct reading *r, const char *name, const char *value)
{
    for (uint32_t i = 0; i < r->option_count; i++) {
        if (strcmp(r->options[i].name, name) == 0) {
            mistake(r, r->line, "'%s' is given twice in [options]", name);
            return;
        }
    }
    if (r->option_count == CV_OPTIONS_MAX) {
        mistake(r, r->line, "no protocol has more than %u options", CV_OPTIONS_MAX);
        return;
    }
    struct setting *option = &r->options[r->option_count++];
    (void)snprintf(option->name, sizeof option->name, "%s", name);
    (void)snprintf(option->value, sizeof option->value, "%s", value);
    option->line = r->line;
}

static void on_member_key(struct reading *r, const char *name, const char *value)
{
    CV_ASSERT(r->cluster->member_count > 0);
    const uint32_t index = r->cluster->member_count - 1;
    struct cv_cluster_member *member = &r->cluster->member[index];
    switch (find_key(r, name, member_keys, &r->member_seen[index])) {
    case KEY_ID:
        set_number(r, name, value, 1, CV_CLUSTER_MEMBERS_MAX, &member->id);
        break;
    case KEY_ADDRESS:
        set_address(r, value, member);
        break;
    case KEY_SITE:
        (void)set_name(r, "site", value, member->site);
        break;
    case KEY_PREFERENCE:
        set_number(r, name, value, 1, 1000, &member->preference);
        break;
    default:
        break; /* it was said */
    }
}

static bool is_member_section(const char *section)
{
    return strncmp(section, MEMBER_WORD, sizeof MEMBER_WORD - 1) == 0;
}

static void begin_member(struct reading *r)
{
    struct cv_cluster *c = r->cluster;
    char name[CV_CLUSTER_NAME_BYTES];
    const char *given = r->section + sizeof MEMBER_WORD - 1;
    given += strspn(given, " \t");
    if (c->member_count == CV_CLUSTER_MEMBERS_MAX) {
        mistake(r, r->line, "more than %u members", CV_CLUSTER_MEMBERS_MAX);
    } else if (set_name(r, "member", given, name)) {
        if (cv__cluster_find(c, name) != NULL) {
            mistake(r, r->line, "there is a member '%s' already", name);
        }
        struct cv_cluster_member *member = &c->member[c->member_count++];
        memcpy(member->name, name, sizeof name);
        member->line = r->line;
        return;
    }
    r->section[0] = '\0'; /* the keys that follow belong to no member */
}

static void end_section(struct reading *r)
{
    if (r->section_line != 0 && r->section[0] != '\0' && !r->section_is_used &&
        strcmp(r->section, "options") != 0) {
        mistake(r, r->section_line, "[%s] is empty", r->section);
    }
}

/* The line "[section]". libinih reports a section only with its first key. */
static void begin_section(struct reading *r, const char *line, size_t length)
{
    static const char *const known[] = {"cluster", "options", "member NAME", NULL};
    const char *close = memchr(line, ']', length);
    end_section(r);
    r->section_line = r->line;
    r->section_is_used = false;
    r->section[0] = '\0';
    if (close == NULL) {
        mistake(r, r->line, "the ']' at the end of [SECTION] is missing");
        return;
    }
    if ((size_t)(close - line) - 1 > INI_WORD_MAX) {
        mistake(r, r->line, "a section's name has at most %u letters", INI_WORD_MAX);
        return;
    }
    (void)snprintf(r->section, sizeof r->section, "%.*s", (int)(close - line - 1), line + 1);
    if (is_member_section(r->section)) {
        begin_member(r);
    } else if (strcmp(r->section, "cluster") != 0 && strcmp(r->section, "options") != 0) {
        mistake_unknown(r, r->line, "section", r->section, known);
        r->section[0] = '\0';
    }
}

/* Called by libinih for each name and its value. */
static int on_key(void *user, const char *unused, const char *name, const char *value)
{
    struct reading *r = user;
    (void)unused; /* may be cut; begin_section() has read it */
    r->section_is_used = true;
    if (strlen(name) >= INI_WORD_MAX) {
        mistake(r, r->line, "the name of a key has at most %u letters", INI_WORD_MAX - 1);
    } else if (r->section_line == 0) {
        mistake(r, r->line, "'%s' comes before the first section", name);
    } else if (is_member_section(r->section)) {
        on_member_key(r, name, value);
    } else if (strcmp(r->section, "cluster") == 0) {
        on_cluster_key(r, name, value);
    } else if (strcmp(r->section, "options") == 0) {
        on_option(r, name, value);
    }
    return 1;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Called by libinih for the next line, like fgets(3). It gets an empty line instead of one that it
 * would misread. */
static char *next_line(char *buffer, int buffer_bytes, void *user)
{
    struct reading *r = user;
    if (r->bytes_left == 0) {
        return NULL;
    }
    const char *newline = memchr(r->text, '\n', r->bytes_left);
    const size_t length = newline != NULL ? (size_t)(newline - r->text) : r->bytes_left;
    const char *line = r->text;
    const size_t taken = length + (newline != NULL ? 1 : 0);
    r->text += taken;
    r->bytes_left -= taken;
    r->line++;
    buffer[0] = '\n';
    buffer[1] = '\0';
    size_t blanks = 0;
    while (blanks < length && (line[blanks] == ' ' || line[blanks] == '\t')) {
        blanks++;
    }
    if (length + 3 > (size_t)buffer_bytes) {
        mistake(r, r->line, "the line is longer than %d bytes", buffer_bytes - 3);
    } else if (memchr(line, '\0', length) != NULL) {
        mistake(r, r->line, "the line has a zero byte");
    } else if (blanks < length && line[blanks] == '[') {
        begin_section(r, line + blanks, length - blanks);
    } else if (blanks < length && line[blanks] != '#' && line[blanks] != ';' &&
               line[blanks] != '\r' && memchr(line, '=', length) == NULL) {
        mistake(r, r->line, "NAME = VALUE or [SECTION] is wanted");
    } else {
        /* Without blanks in front: libinih would take it for the rest of the line before. */
        memcpy(buffer, line + blanks, length - blanks);
        buffer[length - blanks] = '\n';
        buffer[length - blanks + 1] = '\0';
    }
    return buffer;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void require(struct reading *r, bool is_there, uint32_t line, const char *what)
{
    if (!is_there) {
        mistake(r, line, "%s is missing", what);
    }
}

static bool has(uint32_t seen, uint32_t key)
{
    return (seen & BIT(key)) != 0;
}

/* Of an address in digits: 4 or 6; 0: a name, which is looked up later. */
static uint32_t ip_version(const char *host)
{
    struct in_addr four;
    if (strchr(host, ':') != NULL) {
        return 6;
    }
    return inet_pton(AF_INET, host, &four) == 1 ? 4 : 0;
}

/* A member has one socket, which reaches only addresses of its own kind. */
static void check_ip_versions(struct reading *r)
{
    const struct cv_cluster_member *first = NULL;
    for (uint32_t i = 0; i < r->cluster->member_count; i++) {
        const struct cv_cluster_member *m = &r->cluster->member[i];
        const uint32_t version = ip_version(m->host);
        if (version != 0 && first == NULL) {
            first = m;
        } else if (version != 0 && version != ip_version(first->host)) {
            mistake(r, m->line,
                    "member '%s' has an IPv%u address and '%s' an IPv%u one: all must be of one "
                    "kind",
                    first->name, ip_version(first->host), m->name, version);
            return;
        }
    }
}

static void check_member(struct reading *r, uint32_t index)
{
    const struct cv_cluster *c = r->cluster;
    const struct cv_cluster_member *m = &c->member[index];
    char what[2 * CV_CLUSTER_NAME_BYTES];
    (void)snprintf(what, sizeof what, "the id of member '%s'", m->name);
    require(r, has(r->member_seen[index], KEY_ID), m->line, what);
    (void)snprintf(what, sizeof what, "the address of member '%s'", m->name);
    require(r, has(r->member_seen[index], KEY_ADDRESS), m->line, what);
    for (uint32_t i = 0; i < index; i++) {
        const struct cv_cluster_member *other = &c->member[i];
        if (m->id != CV_ID_NONE && other->id == m->id) {
            mistake(r, m->line, "members '%s' and '%s' both have id %u", other->name, m->name,
                    m->id);
        }
        if (m->port != 0 && other->port == m->port && strcasecmp(other->host, m->host) == 0) {
            mistake(r, m->line, "members '%s' and '%s' both have the address %s:%u", other->name,
                    m->name, m->host, m->port);
        }
    }
    if (m->id > c->member_count) {
        mistake(r, m->line, "member '%s' has id %u, but there are %u members: ids are 1 to %u",
                m->name, m->id, c->member_count, c->member_count);
    }
}

static int by_id(const void *a, const void *b)
{
    const struct cv_cluster_member *one = a, *two = b;
    return one->id < two->id ? -1 : one->id > two->id;
}

static int by_preference(const void *a, const void *b)
{
    const struct cv_cluster_member *const *one = a, *const *two = b;
    if ((*one)->preference != (*two)->preference) {
        return (*one)->preference > (*two)->preference ? -1 : 1;
    }
    return by_id(*one, *two);
}

/* preference = of the members becomes the option of that name: ids, the most wanted first. */
static void set_preference(struct reading *r)
{
    struct cv_cluster *c = r->cluster;
    const struct cv_cluster_member *wanted[CV_CLUSTER_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->member_count; i++) {
        if (c->member[i].preference > 0) {
            wanted[count++] = &c->member[i];
        }
    }
    if (count == 0) {
        return;
    }
    qsort(wanted, count, sizeof wanted[0], by_preference);
    char text[4 * CV_CLUSTER_MEMBERS_MAX] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u", i > 0 ? "," : "",
                                   wanted[i]->id);
    }
    struct cv_errtext why;
    if (cv_config_set(&c->config, c->protocol, "preference", text, &why) != CV_OK) {
        mistake(r, wanted[0]->line, "preference of the members: %s", why.text);
    }
}

/* Nobody should have to choose times: a protocol that can measure them does, unless the file says a
 * profile or a time of its own. */
static void choose_profile(struct reading *r)
{
    static const char *const fixed[] = {"profile", "delta", "sigma", "heartbeat",
                                        "timeout", "lease", "round", "retry-max"};
    struct cv_cluster *c = r->cluster;
    for (uint32_t i = 0; i < r->option_count; i++) {
        for (uint32_t j = 0; j < COUNT_OF(fixed); j++) {
            if (strcmp(r->options[i].name, fixed[j]) == 0) {
                return;
            }
        }
    }
    struct cv_errtext why; /* most protocols have no such profile */
    const int code = cv_config_set(&c->config, c->protocol, "profile", "auto", &why);
    CV_ASSERT(code == CV_OK || code == CV_E_UNKNOWN || code == CV_E_INVALID);
}

static void configure(struct reading *r)
{
    struct cv_cluster *c = r->cluster;
    struct cv_errtext why;
    cv_config_init(&c->config, c->protocol, /* self= */ 1, c->member_count);
    c->config.drift_ppb = r->drift_ppb != 0 ? r->drift_ppb : c->config.drift_ppb;
    const uint32_t before = r->mistake_count;
    /* A protocol that can reserve epochs or tokens, or be quieter while all is well, does, unless
     * the file says otherwise. No leader ends before the instant that an application was told. */
    static const char *const usual[][2] = {
        {"epochs", "64"}, {"tokens", "64"}, {"calm", "3"}, {"yields", "no"}};
    for (uint32_t i = 0; i < COUNT_OF(usual); i++) {
        const int code = cv_config_set(&c->config, c->protocol, usual[i][0], usual[i][1], &why);
        CV_ASSERT(code == CV_OK || code == CV_E_UNKNOWN); /* it has no such option */
    }
    choose_profile(r);
    set_preference(r);
    for (uint32_t i = 0; i < r->option_count; i++) {
        const struct setting *o = &r->options[i];
        if (strcmp(o->name, "yields") == 0) {
            mistake(r, o->line,
                    "yields is not for members of a cluster: a leader that ends at once "
                    "does so before its work has stopped");
        } else if (cv_config_set(&c->config, c->protocol, o->name, o->value, &why) != CV_OK) {
            mistake(r, o->line, "%s", why.text);
        }
    }
    if (r->mistake_count == before && cv_core_configure(c->protocol, &c->config, &why) != CV_OK) {
        mistake(r, r->option_count > 0 ? r->options[0].line : r->protocol_line, "%s", why.text);
    }
}

static void check_whole(struct reading *r)
{
    struct cv_cluster *c = r->cluster;
    require(r, has(r->cluster_seen, KEY_NAME), 0, "name of [cluster]");
    require(r, has(r->cluster_seen, KEY_GENERATION), 0, "generation of [cluster]");
    require(r, has(r->cluster_seen, KEY_KEY), 0, "key of [cluster]");
    require(r, has(r->cluster_seen, KEY_STATE), 0, "state of [cluster]");
    require(r, c->member_count > 0, 0, "[member NAME]");
    for (uint32_t i = 0; i < c->member_count; i++) {
        check_member(r, i);
    }
    check_ip_versions(r);
    qsort(c->member, c->member_count, sizeof c->member[0], by_id);
    if (!has(r->cluster_seen, KEY_PROTOCOL)) {
        set_protocol(r, "pole");
    }
    if (!has(r->cluster_seen, KEY_WITNESS)) {
        c->has_witness = true;
    }
    if (!has(r->cluster_seen, KEY_REALTIME)) {
        c->is_realtime = true;
    }
    if (r->mistake_count == 0) {
        configure(r);
    }
}

uint32_t cv__cluster_parse(const char *text, size_t byte_count, const char *folder,
                           struct cv_cluster *ret_cluster, cv_cluster_say *say, void *user)
{
    struct reading r = {.cluster = ret_cluster,
                        .folder = folder,
                        .say = say,
                        .user = user,
                        .text = text,
                        .bytes_left = byte_count};
    memset(ret_cluster, 0, sizeof *ret_cluster);
    const int failed_line = ini_parse_stream(next_line, &r, on_key, &r);
    if (failed_line != 0 && r.mistake_count == 0) {
        mistake(&r, failed_line > 0 ? (uint32_t)failed_line : 0, "cannot be understood");
    }
    end_section(&r);
    check_whole(&r);
    return r.mistake_count;
}

static uint32_t say_once(cv_cluster_say *say, void *user, const char *why)
{
    say(user, 0, why);
    return 1;
}

static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* of a FIFO: at once */
}

/* Closes the file. If fd is -1, errno says why. */
static uint32_t check_file(int fd, const char *path, struct cv_cluster *ret_cluster,
                           cv_cluster_say *say, void *user)
{
    struct stat status;
    char *text = NULL;
    uint32_t mistake_count;
    if (fd < 0 || fstat(fd, &status) != 0) {
        mistake_count = say_once(say, user, strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        mistake_count = say_once(say, user, "not a regular file");
    } else if ((text = malloc(CV_CLUSTER_FILE_BYTES_MAX + 1)) == NULL) {
        mistake_count = say_once(say, user, "out of memory");
    } else {
        const ssize_t got = read(fd, text, CV_CLUSTER_FILE_BYTES_MAX + 1);
        char copy[PATH_MAX]; /* dirname() writes into its argument */
        (void)snprintf(copy, sizeof copy, "%s", path);
        if (got < 0) {
            mistake_count = say_once(say, user, strerror(errno));
        } else if (got > CV_CLUSTER_FILE_BYTES_MAX) {
            mistake_count = say_once(say, user, "longer than 64 KiB");
        } else {
            mistake_count =
                cv__cluster_parse(text, (size_t)got, dirname(copy), ret_cluster, say, user);
        }
    }
    free(text);
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    return mistake_count;
}

uint32_t cv__cluster_check(const char *path, struct cv_cluster *ret_cluster, cv_cluster_say *say,
                           void *user)
{
    return check_file(open_file(path), path, ret_cluster, say, user);
}

struct first {
    const char *path;
    struct cv_errtext *reterr;
    bool is_said;
};

static void say_first(void *user, uint32_t line, const char *text)
{
    struct first *first = user;
    if (first->is_said) {
        return;
    }
    first->is_said = true;
    if (line > 0) {
        (void)cv__fail(first->reterr, CV_E_INVALID, "%s:%u: %s", first->path, line, text);
    } else {
        (void)cv__fail(first->reterr, CV_E_INVALID, "%s: %s", first->path, text);
    }
}

int cv__cluster_read(const char *path, struct cv_cluster *ret_cluster, struct cv_errtext *reterr)
{
    struct first first = {.path = path, .reterr = reterr};
    const int fd = open_file(path);
    if (fd < 0 && cv__descriptor_code(errno, CV_OK) != CV_OK) {
        return cv__fail(reterr, CV_E_LIMIT, "cannot read '%s': %s", path, strerror(errno));
    }
    return check_file(fd, path, ret_cluster, say_first, &first) == 0 ? CV_OK : CV_E_INVALID;
}

const struct cv_cluster_member *cv__cluster_find(const struct cv_cluster *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->member_count; i++) {
        if (strcmp(cluster->member[i].name, name) == 0) {
            return &cluster->member[i];
        }
    }
    return NULL;
}

int cv__cluster_fail_member(const struct cv_cluster *cluster, const char *name,
                            struct cv_errtext *reterr)
{
    const char *known[CV_CLUSTER_MEMBERS_MAX + 1];
    for (uint32_t i = 0; i < cluster->member_count; i++) {
        known[i] = cluster->member[i].name;
    }
    known[cluster->member_count] = NULL;
    return cv__text_fail_unknown(reterr, CV_E_INVALID, "member", name, known);
}
