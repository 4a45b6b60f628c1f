/* src/scenario/scenario.c - reads scenarios: the settings, and the file as a whole. */
#include "scenario/scenario.h"

#include "base/memory.h"
#include "core/core.h"
#include "core/duration.h"
#include "core/errors.h"
#include "core/nodeset.h"
#include "scenario/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (16u << 20)

int sim_parse_node(struct sim_parser *p, bool allow_leader, cv_id *ret_node)
{
    const char *text = sim_words_peek(&p->words);
    if (allow_leader && text != NULL && strcmp(text, "leader") == 0) {
        (void)sim_words_next(&p->words);
        *ret_node = SIM_NODE_LEADER;
        return CV_OK;
    }
    uint64_t number;
    const int error = sim_words_count(&p->words, "node", UINT32_MAX, &number);
    if (error != CV_OK) {
        return error;
    }
    if (number < 1 || number > p->scenario->node_count) {
        return sim_words_fail(&p->words, "there is no node %llu; nodes are 1..%u",
                              (unsigned long long)number, p->scenario->node_count);
    }
    *ret_node = (cv_id)number;
    return CV_OK;
}

/* "5..7" or "5" or "5,6,9..11" */
static int parse_ranges(struct sim_parser *p, const char *text, uint64_t *set)
{
    const uint32_t node_count = p->scenario->node_count;
    for (const char *at = text;;) {
        char *end;
        const unsigned long first = strtoul(at, &end, 10);
        unsigned long last = first;
        bool is_number = *at >= '0' && *at <= '9';
        if (is_number && strncmp(end, "..", 2) == 0) {
            at = end + 2;
            is_number = *at >= '0' && *at <= '9';
            last = strtoul(at, &end, 10);
        }
        if (!is_number || (*end != '\0' && *end != ',')) {
            return sim_words_fail(&p->words, "'%s' is not a node; write 3 or 1..6 or *", text);
        }
        if (first < 1 || last > node_count || first > last) {
            return sim_words_fail(&p->words, "'%s' is not within the nodes 1..%u", text,
                                  node_count);
        }
        for (cv_id id = (cv_id)first; id <= last; id++) {
            cv__set_add(set, id);
        }
        if (*end == '\0') {
            return CV_OK;
        }
        at = end + 1;
    }
}

/* Is `word` in `list`, whose words are separated by blanks? */
static bool is_among(const char *word, const char *list)
{
    const size_t length = strlen(word);
    for (const char *at = list; *at != '\0';) {
        const size_t one = strcspn(at, " ");
        if (one == length && memcmp(at, word, length) == 0) {
            return true;
        }
        at += one + (at[one] == ' ');
    }
    return false;
}

int sim_parse_nodes(struct sim_parser *p, const char *stop, uint64_t *set)
{
    uint32_t found = 0;
    for (;; found++) {
        const char *text = sim_words_peek(&p->words);
        if (text == NULL || is_among(text, stop)) {
            break;
        }
        (void)sim_words_next(&p->words);
        if (strcmp(text, "*") == 0) {
            for (cv_id id = 1; id <= p->scenario->node_count; id++) {
                cv__set_add(set, id);
            }
            continue;
        }
        const int error = parse_ranges(p, text, set);
        if (error != CV_OK) {
            return error;
        }
    }
    if (found == 0) {
        (void)sim_words_next(&p->words);
        return sim_words_fail(&p->words, "a node is missing");
    }
    return CV_OK;
}

const char *sim_parse_key(struct sim_parser *p, char buffer[SIM_WORD_BYTES])
{
    const char *text = sim_words_next(&p->words);
    if (text == NULL) {
        return NULL;
    }
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return text;
    }
    const size_t length = (size_t)(equals - text);
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    struct sim_word *word = &p->words.word[--p->words.next];
    memmove(word->text, equals + 1, strlen(equals + 1) + 1);
    word->column += (uint32_t)length + 1;
    return buffer;
}

static int parse_protocol(struct sim_parser *p)
{
    struct sim_scenario *s = p->scenario;
    const char *name = sim_words_next(&p->words);
    if (s->protocol != NULL) {
        return sim_words_fail(&p->words, "the protocol was given already");
    }
    s->protocol = name != NULL ? cv_protocol_find(name) : NULL;
    if (s->protocol == NULL) {
        char known[512] = "";
        const struct cv_protocol *one;
        for (uint32_t i = 0; (one = cv_protocol_at(i)) != NULL; i++) {
            strncat(known, i > 0 ? " " : "", sizeof known - strlen(known) - 1);
            strncat(known, one->name, sizeof known - strlen(known) - 1);
        }
        return sim_words_unknown(&p->words, "protocol", name, known);
    }
    cv_config_init(&s->config, s->protocol, 1, 1);
    const char *word;
    while ((word = sim_words_next(&p->words)) != NULL) {
        const char *equals = strchr(word, '=');
        if (equals == NULL) {
            return sim_words_fail(&p->words, "'%s': options are written key=value", word);
        }
        char key[SIM_WORD_BYTES];
        memcpy(key, word, (size_t)(equals - word));
        key[equals - word] = '\0';
        struct cv_errtext why;
        const int error = cv_config_set(&s->config, s->protocol, key, equals + 1, &why);
        if (error == CV_E_UNKNOWN) {
            char known[512] = "";
            for (const struct cv_option *o = s->protocol->options; o->name != NULL; o++) {
                strncat(known, o == s->protocol->options ? "" : " ",
                        sizeof known - strlen(known) - 1);
                strncat(known, o->name, sizeof known - strlen(known) - 1);
            }
            return sim_words_unknown(&p->words, "option", key, known);
        }
        if (error != CV_OK) {
            return sim_words_fail(&p->words, "%.200s", why.text);
        }
    }
    return CV_OK;
}

static int parse_nodes_count(struct sim_parser *p)
{
    uint64_t count;
    if (p->scenario->node_count != 0) {
        return sim_words_fail(&p->words, "the number of nodes was given already");
    }
    const int error = sim_words_count(&p->words, "number of nodes", CV_MEMBERS_MAX, &count);
    if (error != CV_OK) {
        return error;
    }
    if (count == 0) {
        return sim_words_fail(&p->words, "a scenario needs at least one node");
    }
    p->scenario->node_count = (uint32_t)count;
    p->scenario->site_of = cv__allocate(count, sizeof *p->scenario->site_of);
    p->scenario->is_down = cv__allocate(count, sizeof *p->scenario->is_down);
    return sim_words_end(&p->words);
}

static int parse_run(struct sim_parser *p)
{
    if (p->has_run) {
        return sim_words_fail(&p->words, "the run time was given already");
    }
    p->has_run = true;
    const int error = sim_words_time(&p->words, "run time", &p->scenario->run_ns);
    if (error != CV_OK) {
        return error;
    }
    return sim_words_end(&p->words);
}

static uint32_t site_find(const struct sim_scenario *s, const char *name)
{
    for (uint32_t i = 1; i <= s->site_count; i++) {
        if (strcmp(s->site[i].name, name) == 0) {
            return i;
        }
    }
    return 0;
}

static int parse_site(struct sim_parser *p)
{
    struct sim_scenario *s = p->scenario;
    const char *name = sim_words_next(&p->words);
    if (name == NULL) {
        return sim_words_fail(&p->words, "a site needs a name and its nodes");
    }
    if (site_find(s, name) != 0) {
        return sim_words_fail(&p->words, "there is a site '%s' already", name);
    }
    if (s->site_count + 1 == SIM_SITES_MAX) {
        return sim_words_fail(&p->words, "more than %u sites", SIM_SITES_MAX - 1);
    }
    s->site[++s->site_count].name = cv__copy_text(name, strlen(name));
    uint64_t set[CV_MEMBERS_MAX / 64] = {0};
    const int error = sim_parse_nodes(p, "", set);
    if (error != CV_OK) {
        return error;
    }
    for (cv_id id = 1; (id = cv__set_next(set, id, s->node_count)) != CV_ID_NONE; id++) {
        if (s->site_of[id - 1] != 0) {
            return sim_words_fail(&p->words, "node %u is at site '%s' already", id,
                                  s->site[s->site_of[id - 1]].name);
        }
        s->site_of[id - 1] = (uint8_t)s->site_count;
    }
    return CV_OK;
}

static int parse_site_name(struct sim_parser *p, uint32_t *ret_site)
{
    const char *name = sim_words_next(&p->words);
    *ret_site = name != NULL ? site_find(p->scenario, name) : 0;
    if (*ret_site == 0) {
        return sim_words_fail(&p->words, "there is no site '%s' above this line",
                              name != NULL ? name : "");
    }
    return CV_OK;
}

static int parse_rtt(struct sim_parser *p)
{
    struct sim_scenario *s = p->scenario;
    struct sim_rtt rtt;
    int error = parse_site_name(p, &rtt.a);
    if (error == CV_OK) {
        error = parse_site_name(p, &rtt.b);
    }
    if (error == CV_OK && rtt.a == rtt.b) {
        return sim_words_fail(
            &p->words, "rtt is for two different sites; within a site set the delay of links");
    }
    if (error == CV_OK) {
        error = sim_words_time(&p->words, "round trip time", &rtt.rtt_ns);
    }
    if (error != CV_OK) {
        return error;
    }
    s->rtt = cv__grow(s->rtt, &s->rtt_capacity, s->rtt_count, sizeof *s->rtt);
    s->rtt[s->rtt_count++] = rtt;
    return sim_words_end(&p->words);
}

static int parse_seed(struct sim_parser *p)
{
    const int error = sim_words_count(&p->words, "seed", UINT64_MAX, &p->scenario->seed);
    return error != CV_OK ? error : sim_words_end(&p->words);
}

static int parse_start(struct sim_parser *p)
{
    int error = sim_words_keyword(&p->words, "within");
    if (error == CV_OK) {
        error = sim_words_time(&p->words, "time", &p->scenario->start_within_ns);
    }
    return error != CV_OK ? error : sim_words_end(&p->words);
}

static int parse_manual(struct sim_parser *p)
{
    if (p->scenario->random_count > 0) {
        return sim_words_fail(&p->words, "random faults cannot be used with 'manual'");
    }
    p->scenario->is_manual = true;
    return sim_words_end(&p->words);
}

static int parse_down(struct sim_parser *p)
{
    uint64_t set[CV_MEMBERS_MAX / 64] = {0};
    const int error = sim_parse_nodes(p, "", set);
    for (cv_id id = 1; error == CV_OK && id <= p->scenario->node_count; id++) {
        p->scenario->is_down[id - 1] = p->scenario->is_down[id - 1] || cv__set_has(set, id);
    }
    return error;
}

static int parse_fast(struct sim_parser *p)
{
    int error = sim_words_time(&p->words, "bound of a fast message", &p->scenario->fast_ns);
    if (error == CV_OK && sim_words_take(&p->words, "min")) {
        error = sim_words_time(&p->words, "least delay", &p->scenario->delay_min_ns);
    }
    if (error == CV_OK && p->scenario->delay_min_ns > p->scenario->fast_ns) {
        return sim_words_fail(&p->words,
                              "the least delay is larger than the bound of a fast message");
    }
    return error != CV_OK ? error : sim_words_end(&p->words);
}

static int parse_drift_bound(struct sim_parser *p)
{
    const char *text = sim_words_next(&p->words);
    int64_t number;
    const char *end = text != NULL ? cv__decimal_parse(text, &number) : NULL;
    if (end == NULL || strcmp(end, "ppm") != 0 || number > 100000 * SIM_PPB_ONE) {
        return sim_words_fail(&p->words, "a drift bound is written like 100ppm");
    }
    p->scenario->config.drift_ppb = number / 1000000;
    return sim_words_end(&p->words);
}

static int parse_at(struct sim_parser *p)
{
    int64_t at_ns;
    const int error = sim_words_time(&p->words, "time", &at_ns);
    return error != CV_OK ? error : sim_parse_action(p, at_ns);
}

static int parse_fault_kinds(struct sim_parser *p, uint32_t *ret_kinds)
{
    static const char *const names[] = {
#define SIM_FAULT_TEXT(name, text) text,
        SIM_FAULT_MAP(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
    };
    const char *text = sim_words_next(&p->words);
    if (text == NULL) {
        return sim_words_fail(&p->words,
                              "kinds of faults are missing; write them like crash,pause");
    }
    *ret_kinds = 0;
    for (const char *at = text; at != NULL;) {
        const size_t length = strcspn(at, ",");
        char one[SIM_WORD_BYTES];
        memcpy(one, at, length);
        one[length] = '\0';
        uint32_t kind = 0;
        while (kind < SIM_FAULT_COUNT && strcmp(names[kind], one) != 0) {
            kind++;
        }
        if (kind == SIM_FAULT_COUNT) {
            return sim_words_unknown(
                &p->words, "kind of fault", one,
                "crash reboot pause partition link oneway loss slow duplicate reorder resign join "
                "sequencer store");
        }
        if (kind == SIM_FAULT_STORE && p->scenario->protocol->store_ns == NULL) {
            return sim_words_fail(&p->words, "protocol '%s' does not use a store",
                                  p->scenario->protocol->name);
        }
        *ret_kinds |= BIT(kind);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return CV_OK;
}

static int parse_rate(struct sim_parser *p, int64_t *ret_rate_ppb)
{
    const char *text = sim_words_next(&p->words);
    const char *end = text != NULL ? cv__decimal_parse(text, ret_rate_ppb) : NULL;
    if (end == NULL || strcmp(end, "/s") != 0 || *ret_rate_ppb > 100000 * SIM_PPB_ONE) {
        return sim_words_fail(&p->words, "a rate is written like 0.5/s");
    }
    return CV_OK;
}

static int parse_lasting(struct sim_parser *p, struct sim_random_faults *faults)
{
    const char *text = sim_words_next(&p->words);
    const char *dots = text != NULL ? strstr(text, "..") : NULL;
    char first[SIM_WORD_BYTES] = "";
    if (dots != NULL) {
        memcpy(first, text, (size_t)(dots - text));
        first[dots - text] = '\0';
    }
    if (dots == NULL || !cv__duration_parse(first, &faults->lasting_min_ns) ||
        !cv__duration_parse(dots + 2, &faults->lasting_max_ns) ||
        faults->lasting_min_ns > faults->lasting_max_ns || faults->lasting_min_ns == 0 ||
        faults->lasting_max_ns > SIM_TIME_MAX_NS) {
        return sim_words_fail(&p->words, "write how long faults last like 50ms..2s");
    }
    return CV_OK;
}

static int parse_random(struct sim_parser *p)
{
    struct sim_scenario *s = p->scenario;
    struct sim_random_faults faults = {
        .line = p->words.line,
        .until_ns = -1,
        .lasting_min_ns = 50 * NS_PER_MS,
        .lasting_max_ns = 2 * NS_PER_S,
    };
    int error = sim_words_keyword(&p->words, "faults");
    char buffer[SIM_WORD_BYTES];
    while (error == CV_OK && sim_words_peek(&p->words) != NULL) {
        const char *key = sim_parse_key(p, buffer);
        if (strcmp(key, "rate") == 0) {
            error = parse_rate(p, &faults.rate_ppb);
        } else if (strcmp(key, "kinds") == 0) {
            error = parse_fault_kinds(p, &faults.kinds);
        } else if (strcmp(key, "from") == 0) {
            error = sim_words_time(&p->words, "time", &faults.from_ns);
        } else if (strcmp(key, "until") == 0) {
            error = sim_words_time(&p->words, "time", &faults.until_ns);
        } else if (strcmp(key, "lasting") == 0) {
            error = parse_lasting(p, &faults);
        } else {
            error = sim_words_unknown(&p->words, "word", key, "rate kinds from until lasting");
        }
    }
    if (error != CV_OK) {
        return error;
    }
    if (s->is_manual) {
        return sim_words_fail(&p->words, "random faults cannot be used with 'manual'");
    }
    if (faults.rate_ppb == 0 || faults.kinds == 0) {
        return sim_words_fail(&p->words, "random faults need a rate above 0 and kinds");
    }
    if (faults.until_ns >= 0 && faults.until_ns <= faults.from_ns) {
        return sim_words_fail(&p->words, "random faults end before they begin");
    }
    s->random = cv__grow(s->random, &s->random_capacity, s->random_count, sizeof *s->random);
    s->random[s->random_count++] = faults;
    return CV_OK;
}

static const char statement_words[] =
    "protocol nodes link clock site rtt at random run expect seed start fast drift-bound disk "
    "timers down cost sequencer store manual";

static bool is_statement(const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *at = strstr(statement_words, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == statement_words || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

static int parse_line(struct sim_parser *p, const char *line, size_t length)
{
    static const struct {
        const char *word;
        int (*parse)(struct sim_parser *p);
    } statements[] = {
        {"protocol", parse_protocol},
        {"nodes", parse_nodes_count},
        {"seed", parse_seed},
        {"run", parse_run},
        {"site", parse_site},
        {"rtt", parse_rtt},
        {"start", parse_start},
        {"down", parse_down},
        {"manual", parse_manual},
        {"fast", parse_fast},
        {"drift-bound", parse_drift_bound},
        {"at", parse_at},
        {"random", parse_random},
    };
    const int error = sim_words_split(&p->words, line, length);
    const char *word = sim_words_peek(&p->words);
    if (error != CV_OK || word == NULL) {
        return error;
    }
    if (!is_statement(word)) { /* before its place is judged: it may be a slip of the finger */
        (void)sim_words_next(&p->words);
        return sim_words_unknown(&p->words, "word", word, statement_words);
    }
    const struct sim_scenario *s = p->scenario;
    if (strcmp(word, "protocol") != 0 && s->protocol == NULL) {
        (void)sim_words_next(&p->words);
        return sim_words_fail(&p->words, "a scenario begins with 'protocol NAME'");
    }
    if (strcmp(word, "protocol") != 0 && strcmp(word, "nodes") != 0 && s->node_count == 0) {
        (void)sim_words_next(&p->words);
        return sim_words_fail(&p->words, "'nodes N' must come before this line");
    }
    for (uint32_t i = 0; i < COUNT_OF(statements); i++) {
        if (sim_words_take(&p->words, statements[i].word)) {
            return statements[i].parse(p);
        }
    }
    if (sim_words_take(&p->words, "expect")) {
        return sim_parse_expect(p, line, length);
    }
    return sim_parse_action(p, SIM_SETUP); /* link, clock, disk, ... */
}

/* Checks that need the whole scenario. */
static int finish(struct sim_parser *p, struct cv_errtext *reterr)
{
    struct sim_scenario *s = p->scenario;
    if (s->protocol == NULL || s->node_count == 0 || !p->has_run) {
        return cv__fail(reterr, CV_E_MALFORMED, "%.200s:%u:1: the scenario has no '%s' line",
                        p->words.name, p->words.line > 0 ? p->words.line : 1,
                        s->protocol == NULL  ? "protocol"
                        : s->node_count == 0 ? "nodes"
                                             : "run");
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (s->action[i].at_ns > s->run_ns) {
            return cv__fail(reterr, CV_E_MALFORMED,
                            "%.200s:%u:1: this happens after the end of the run", p->words.name,
                            s->action[i].line);
        }
    }
    for (uint32_t i = 0; i < s->expect_count; i++) {
        if (s->expect[i].at_ns > s->run_ns) {
            return cv__fail(reterr, CV_E_MALFORMED,
                            "%.200s:%u:1: this is expected after the end of the run", p->words.name,
                            s->expect[i].line);
        }
        if (s->expect[i].at_ns < 0) {
            s->expect[i].at_ns = s->run_ns;
        }
    }
    for (uint32_t i = 0; i < s->random_count; i++) {
        if (s->random[i].until_ns < 0 || s->random[i].until_ns > s->run_ns) {
            s->random[i].until_ns = s->run_ns;
        }
    }
    s->config.member_count = s->node_count;
    struct cv_errtext why;
    const int error = cv_core_configure(s->protocol, &s->config, &why);
    if (error != CV_OK) {
        return cv__fail(reterr, CV_E_MALFORMED, "%.200s:1:1: %.180s", p->words.name, why.text);
    }
    cv__core_contract(s->protocol, &s->config, &s->promises, &s->assumes);
    s->promises |= CV_PROP(ASSERTIONS);
    return CV_OK;
}

int sim_scenario_parse(const char *name, const char *text, size_t length,
                       struct sim_scenario **ret_scenario, struct cv_errtext *reterr)
{
    struct sim_parser p = {.words = {.name = name, .reterr = reterr}};
    p.words.word = cv__allocate(SIM_WORDS_MAX, sizeof *p.words.word);
    struct sim_scenario *s = cv__allocate(1, sizeof *s);
    p.scenario = s;
    s->name = cv__copy_text(name, strlen(name));
    s->seed = 1;
    s->fast_ns = 10 * NS_PER_MS;

    int error = CV_OK;
    size_t at = 0;
    while (error == CV_OK && at < length) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t line_length = end != NULL ? (size_t)(end - (text + at)) : length - at;
        p.words.line++;
        error = parse_line(&p, text + at, line_length);
        at += line_length + 1;
    }
    if (error == CV_OK) {
        error = finish(&p, reterr);
    }
    free(p.words.word);
    if (error != CV_OK) {
        sim_scenario_free(s);
        return error;
    }
    *ret_scenario = s;
    return CV_OK;
}

int sim_scenario_read(const char *path, char **ret_text, size_t *ret_length,
                      struct cv_errtext *reterr)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return cv__fail(reterr, CV_E_IO, "cannot read '%.200s': %s", path, strerror(errno));
    }
    size_t capacity = 1 << 16;
    size_t length = 0;
    char *text = cv__allocate(capacity, 1);
    int error = CV_OK;
    for (;;) {
        const size_t got = fread(text + length, 1, capacity - length, file);
        length += got;
        if (got == 0) {
            break;
        }
        if (length == capacity) {
            char *larger = cv__allocate(capacity * 2, 1);
            memcpy(larger, text, length);
            free(text);
            text = larger;
            capacity *= 2;
        }
        if (length > TEXT_BYTES_MAX) {
            error = cv__fail(reterr, CV_E_IO, "'%.200s' is larger than 16 MiB", path);
            break;
        }
    }
    if (error == CV_OK && ferror(file)) {
        error = cv__fail(reterr, CV_E_IO, "cannot read '%.200s': %s", path, strerror(errno));
    }
    (void)fclose(file); /* only read, so closing loses nothing */
    if (error == CV_OK && memchr(text, '\0', length) != NULL) {
        error = cv__fail(reterr, CV_E_MALFORMED,
                         "%.200s:1:1: this is a binary file; a scenario is plain text", path);
    }
    if (error != CV_OK) {
        free(text);
        return error;
    }
    *ret_text = text;
    *ret_length = length;
    return CV_OK;
}

int sim_scenario_load(const char *path, struct sim_scenario **ret_scenario,
                      struct cv_errtext *reterr)
{
    char *text;
    size_t length;
    int error = sim_scenario_read(path, &text, &length, reterr);
    if (error == CV_OK) {
        error = sim_scenario_parse(path, text, length, ret_scenario, reterr);
        free(text);
    }
    return error;
}

void sim_scenario_free(struct sim_scenario *s)
{
    if (s == NULL) {
        return;
    }
    for (uint32_t i = 0; i < s->action_count; i++) {
        if (s->action[i].kind == SIM_ACTION_PARTITION) {
            free(s->action[i].group);
        }
    }
    for (uint32_t i = 0; i < s->expect_count; i++) {
        free(s->expect[i].nodes);
        free(s->expect[i].text);
    }
    for (uint32_t i = 1; i <= s->site_count; i++) {
        free(s->site[i].name);
    }
    free(s->action);
    free(s->random);
    free(s->expect);
    free(s->rtt);
    free(s->site_of);
    free(s->is_down);
    free(s->name);
    free(s);
}
