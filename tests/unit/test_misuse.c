/* tests/unit/test_misuse.c - mistakes of an embedding program: each public function is given NULL,
 * values out of range and noise. It must answer, never abort, and never read beyond what it was
 * given (the run under sanitizers sees that).
 *
 * Not tested is what no call can check, as the header says: a state that is not a core's, a clock
 * that was set back, a timer that is not armed, and a buffer smaller than it has to be. */
#include "support/support.h"

#include <arpa/inet.h>
#include <conclave/conclave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOISE_BYTES 80u

static char folder[TEST_FOLDER_BYTES];

static int in_a_folder(void **unused)
{
    (void)unused;
    /* A name in an address is a file's name. */
    return !test_folder_make(folder) || chdir(folder) != 0;
}

static int out_of_it(void **unused)
{
    (void)unused;
    return chdir("/") != 0 || test_folder_remove(folder);
}

/* Random bytes without a zero, then a zero. */
static const char *noise(uint64_t *seed, char text[NOISE_BYTES])
{
    const uint32_t length = test_random_below(seed, NOISE_BYTES - 1);
    for (uint32_t i = 0; i < length; i++) {
        const uint32_t byte = 1 + test_random_below(seed, 255);
        text[i] = (char)(test_random_below(seed, 4) == 0 ? byte : ' ' + byte % 95);
    }
    text[length] = '\0';
    return text;
}

static void names_of_unknown_values(void **unused)
{
    (void)unused;
    const int wrong[] = {-1, 1000, INT32_MAX, INT32_MIN};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_non_null(cv_role_name((enum cv_role)wrong[i]));
        assert_non_null(cv_reason_name((enum cv_reason)wrong[i]));
        assert_non_null(cv_property_name((enum cv_property)wrong[i]));
        assert_non_null(cv_assume_text((enum cv_assume)wrong[i]));
        assert_non_null(cv_strerror(wrong[i]));
    }
    assert_null(cv_protocol_at(UINT32_MAX));
    assert_null(cv_protocol_find(NULL));
    assert_null(cv_protocol_find(""));
    assert_null(cv_oracle_at(UINT32_MAX));
    assert_null(cv_oracle_find(NULL));
    assert_null(cv_oracle_find("\xff"));
    assert_non_null(cv_version());
}

static void calls_without_an_election(void **unused)
{
    (void)unused;
    struct cv_election_status status = CV_ELECTION_STATUS_INIT;
    uint64_t token;
    int64_t left_ns;
    assert_false(cv_is_leader(NULL));
    assert_false(cv_leads(NULL, &token, &left_ns));
    assert_int_equal(cv_status(NULL, &status), CV_E_INVALID);
    assert_int_equal(cv_wait(NULL, CV_UNTIL_LEADING, 1), CV_E_INVALID);
    assert_true(cv_fd(NULL) < 0);
    assert_int_equal(cv_watch(NULL, NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_campaign(NULL, true), CV_E_INVALID);
    assert_int_equal(cv_resign(NULL, "b"), CV_E_INVALID);
    assert_int_equal(cv_request_resign(NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_report(NULL, CV_INPUT_LOAD, 1), CV_E_INVALID);
    cv_progress(NULL);
    cv_close(NULL);
    cv_close_all(NULL, 0);
    cv_close_all(NULL, 2);
    cv_close_all((struct cv_election *const[]){NULL, NULL}, 2);
    (void)cv_engine_free(NULL);
    assert_int_equal(cv_engine_new(NULL, NULL), CV_E_INVALID);
}

static void noise_instead_of_options(void **unused)
{
    (void)unused;
    struct cv_election *e = NULL;
    const struct cv_election_options none = {0};
    struct {
        struct cv_election_options options;
        uint64_t more;
    } newer = {CV_ELECTION_OPTIONS_INIT, 1}; /* from a version that does not exist yet */
    newer.options.size = sizeof newer;
    assert_int_equal(cv_open(NULL, "x", "sqlite:db", NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_open(&e, NULL, NULL, NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_open(&e, "x", "sqlite:db", &none, NULL), CV_E_INVALID);
    assert_int_equal(cv_open(&e, "x", "sqlite:db", &newer.options, NULL), CV_E_INVALID);
    const int64_t times[] = {INT64_MIN, -1, 1, INT64_MAX};
    for (uint32_t i = 0; i < COUNT_OF(times); i++) {
        struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
        options.lease_ns = times[i];
        assert_true(cv_open(&e, "x", "sqlite:db", &options, NULL) != CV_OK);
        options.lease_ns = 0;
        options.progress_ns = times[i];
        /* Some options are times and may be valid. */
        if (cv_open(&e, "x", "sqlite:db", &options, NULL) == CV_OK) {
            cv_close(e);
        }
    }
}

/* A user may type anything as options of an address and as names of elections and nodes. */
static void noise_instead_of_an_address(void **unused)
{
    (void)unused;
    static const char *const begins[] = {"",
                                         ":",
                                         "sqlite:db",
                                         "sqlite:db?",
                                         "postgres://127.0.0.1:1/x?",
                                         "etcd://127.0.0.1:1/x?",
                                         "zookeeper://127.0.0.1:1/x?",
                                         "multicast:?",
                                         "peers:"};
    uint64_t seed = 10;
    for (uint32_t i = 0; i < test_scale(600); i++) {
        char text[NOISE_BYTES], name[NOISE_BYTES], node[NOISE_BYTES], address[2 * NOISE_BYTES];
        struct cv_errtext why = {""};
        struct cv_election *e = NULL;
        struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
        options.node = noise(&seed, node);
        (void)snprintf(address, sizeof address, "%s%s", begins[i % COUNT_OF(begins)],
                       noise(&seed, text));
        if (strchr(text, ':') != NULL && i % COUNT_OF(begins) < 2) {
            continue; /* it must not be the address of another host */
        }
        const int code = cv_open(&e, noise(&seed, name), address, &options, &why);
        if (code == CV_OK) {
            cv_close(e);
        } else {
            assert_null(e);
            assert_true(why.text[0] != '\0');
            assert_null(strchr(why.text, '\n'));
        }
    }
}

static void noise_to_an_election(void **unused)
{
    (void)unused;
    struct cv_election *e = NULL;
    struct cv_errtext why = {""};
    uint64_t seed = 20;
    assert_int_equal(cv_open(&e, "x", "sqlite:db", NULL, &why), CV_OK);
    assert_int_equal(cv_wait(e, CV_UNTIL_LEADING, 60 * NS_PER_S), CV_OK);
    struct cv_election_status empty = {.size = 0};
    struct cv_election_status huge = {.size = SIZE_MAX};
    assert_int_equal(cv_status(e, NULL), CV_E_INVALID);
    (void)cv_status(e, &empty);
    (void)cv_status(e, &huge); /* writes no more than the caller has room for */
    (void)cv_leads(e, NULL, NULL);
    const int wrong[] = {-1, 1000, INT32_MAX, INT32_MIN};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(cv_wait(e, (enum cv_until)wrong[i], 0), CV_E_INVALID);
        assert_int_equal(cv_report(e, (enum cv_input)wrong[i], wrong[i]), CV_E_INVALID);
    }
    assert_true(cv_wait(e, CV_UNTIL_NOT_LEADING, INT64_MIN) != CV_OK);
    for (uint32_t i = 0; i < 100; i++) {
        char text[NOISE_BYTES];
        (void)cv_request_resign(e, noise(&seed, text));
        (void)cv_report(e, CV_INPUT_LOAD, (int64_t)test_random(&seed));
        (void)cv_resign(e, noise(&seed, text));
        (void)cv_campaign(e, test_random_below(&seed, 2) == 0);
    }
    char long_name[2000];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(cv_resign(e, long_name), CV_E_INVALID);
    assert_int_equal(cv_request_resign(e, long_name), CV_E_INVALID);
    cv_close(e);
}

static void an_election_is_closed_once_however_often_it_is_listed(void **unused)
{
    (void)unused;
    struct cv_election *e[2];
    for (uint32_t i = 0; i < COUNT_OF(e); i++) {
        assert_int_equal(cv_open(&e[i], i == 0 ? "x" : "y", "sqlite:db", NULL, NULL), CV_OK);
    }
    cv_close_all((struct cv_election *const[]){e[0], e[1], NULL, e[0], e[1], e[1]}, 6);
}

static void noise_to_a_core_that_is_not_made_yet(void **unused)
{
    (void)unused;
    uint64_t seed = 30;
    struct cv_config config;
    cv_config_init(NULL, NULL, 0, 0);
    assert_int_equal(cv_core_configure(NULL, NULL, NULL), CV_E_INVALID);
    assert_int_equal(cv_config_set(NULL, NULL, NULL, NULL, NULL), CV_E_INVALID);
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        for (uint32_t i = 0; i < test_scale(2000); i++) {
            char name[NOISE_BYTES], value[NOISE_BYTES];
            struct cv_errtext why = {""};
            const bool is_near = i % 2 == 0;
            cv_config_init(&config, protocol, is_near ? 1 : (cv_id)test_random(&seed),
                           is_near ? 3 : (uint32_t)test_random(&seed));
            uint32_t count = 0;
            while (protocol->options[count].name != NULL) {
                count++;
            }
            const char *known = protocol->options[test_random_below(&seed, count)].name;
            const int set =
                cv_config_set(&config, protocol, noise(&seed, name), noise(&seed, value), &why);
            const int set_known =
                cv_config_set(&config, protocol, known, noise(&seed, value), &why);
            if (i % 3 == 0) {
                config.option[test_random_below(&seed, count)] = (int64_t)test_random(&seed);
            }
            const int configured = cv_core_configure(protocol, &config, &why);
            assert_true(set <= CV_OK && set_known <= CV_OK && configured <= CV_OK);
            assert_true(configured == CV_OK || why.text[0] != '\0');
        }
    }
}

/* A value that the table allows, small ones as often as large ones. */
static int64_t draw_value(uint64_t *seed, const struct cv_option *option)
{
    const int64_t span = option->max - option->min;
    const int64_t step = span > 0 ? (int64_t)(test_random(seed) >> 1) % span + 1 : 0;
    return option->min + (step >> test_random_below(seed, 40));
}

/* A host may check a configuration more than once, for example once for each member of a
 * cluster. */
static void a_configuration_that_passed_passes_again(void **unused)
{
    (void)unused;
    uint64_t seed = 50;
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        uint32_t passed = 0;
        for (uint32_t i = 0; i < test_scale(20000); i++) {
            struct cv_config config;
            struct cv_errtext why = {""};
            cv_config_init(&config, protocol, 1, 1 + test_random_below(&seed, 16));
            for (uint32_t at = 0; protocol->options[at].name != NULL; at++) {
                const struct cv_option *option = &protocol->options[at];
                if (option->kind != CV_OPTION_TEXT && test_random_below(&seed, 3) == 0) {
                    config.option[at] = draw_value(&seed, option);
                }
            }
            if (cv_core_configure(protocol, &config, &why) != CV_OK) {
                assert_true(why.text[0] != '\0');
                continue;
            }
            passed++;
            if (cv_core_configure(protocol, &config, &why) != CV_OK) {
                fail_msg("%s", why.text);
            }
        }
        assert_true(passed > 0);
    }
}

static void noise_from_a_peer(void **unused)
{
    (void)unused;
    uint64_t seed = 40;
    static uint64_t word[64];
    assert_true(cv_message_words_max(5) <= COUNT_OF(word));
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        for (uint32_t i = 0; i < test_scale(5000); i++) {
            uint8_t bytes[40];
            struct cv_message message;
            const uint32_t byte_count = test_random_below(&seed, sizeof bytes + 1);
            for (uint32_t k = 0; k < byte_count; k++) {
                bytes[k] = (uint8_t)test_random(&seed);
            }
            if (byte_count > 1 && i % 2 == 0) {
                bytes[0] = 1;
                bytes[1] %= 8; /* nearly valid */
            }
            const int decoded =
                cv_message_decode(cv_protocol_at(p), 5, bytes, byte_count, word, &message);
            assert_true(decoded == CV_OK || decoded == CV_E_MALFORMED);
        }
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Every number of descriptors below what an election needs gives CV_E_LIMIT: nothing is wrong with
 * the address or the files. */
static void opens_only_with_enough_descriptors(const char *address)
{
    struct rlimit usual, few;
    struct cv_election_options options = CV_ELECTION_OPTIONS_INIT;
    options.node = "a";
    options.accepts_two_leaders = true;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    uint32_t refused = 0;
    int code = CV_E_LIMIT;
    for (rlim_t limit = 3; limit < 100 && code != CV_OK; limit++) {
        struct cv_election *e = NULL;
        struct cv_errtext why = {""};
        few = usual;
        few.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        code = cv_open(&e, "x", address, &options, &why);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        if (code == CV_OK) {
            cv_close(e);
        } else if (code != CV_E_LIMIT) {
            fail_msg("%s with %u descriptors: %s: %s", address, (unsigned)limit, cv_strerror(code),
                     why.text);
        }
        refused += code != CV_OK;
    }
    assert_int_equal(code, CV_OK);
    assert_true(refused > 0);
}

/* A port that was free a moment ago. */
static uint16_t free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

static void no_descriptors_for_an_election(void **unused)
{
    (void)unused;
    char address[NOISE_BYTES * 2];
    opens_only_with_enough_descriptors("sqlite:limit");
    (void)snprintf(address, sizeof address,
                   "multicast:239.255.1.7:%u?interface=127.0.0.1&insecure&sequencer=file:numbers",
                   free_port());
    opens_only_with_enough_descriptors(address);

    FILE *key = fopen("key", "w");
    assert_non_null(key);
    assert_int_equal(fchmod(fileno(key), 0600), 0);
    (void)fprintf(key, "conclave-key-1 %064d\n", 7);
    assert_int_equal(fclose(key), 0);
    FILE *file = fopen("cluster.ini", "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "[cluster]\nname = one\ngeneration = 1\nkey = key\nstate = .\nwitness = no\n"
                  "realtime = no\n[member a]\nid = 1\naddress = 127.0.0.1:%u\n",
                  free_port());
    assert_int_equal(fclose(file), 0);
    opens_only_with_enough_descriptors("peers:cluster.ini");
}

/* Runs in a process of its own as an ordinary user: limits do not hold for the superuser. */
static int open_without_threads(void)
{
    const struct rlimit none = {0, 0};
    struct cv_election *e = NULL;
    struct cv_errtext why = {""};
    if ((geteuid() == 0 && setuid(65533) != 0) || setrlimit(RLIMIT_NPROC, &none) != 0) {
        return 100;
    }
    const int code = cv_open(&e, "x", "sqlite:threads", NULL, &why);
    return code == CV_E_LIMIT ? 0 : code == CV_OK ? 101 : code == CV_E_MEMORY ? 102 : 103;
}

static void no_thread_for_an_election(void **unused)
{
    (void)unused;
    int status;
    if (getenv("CV_TEST_VALGRIND") != NULL) {
        return; /* under valgrind: the child would report all that its parent has allocated */
    }
    assert_int_equal(chmod(folder, 0777), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(open_without_threads());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Cores ----------------------------------------------------------------------------------- */

#define MEMBERS 3u
#define SELF 2u

static union {
    uint64_t word[8192];
    max_align_t aligned;
} core, before;
static struct cv_effect effects[CV_EFFECTS_MAX];
static uint64_t effect_word[4 * MEMBERS + 64];

/* A core of member 2 of 3 that has started, and the storage for its effects. */
static struct cv_effects start(const struct cv_protocol *protocol)
{
    struct cv_config config;
    struct cv_effects out = {
        .item = effects, .word = effect_word, .word_capacity = COUNT_OF(effect_word)};
    cv_config_init(&config, protocol, SELF, MEMBERS);
    assert_int_equal(cv_core_configure(protocol, &config, NULL), CV_OK);
    assert_int_equal(cv_effects_words(&config), COUNT_OF(effect_word));
    const size_t bytes = cv_core_size(protocol, &config);
    assert_true(bytes > 0 && bytes <= sizeof core);
    assert_int_equal(cv_core_init(protocol, &core, &config), CV_OK);
    const struct cv_event event = {.kind = CV_EVENT_START, .now_ns = NS_PER_S, .nonce = 7};
    assert_int_equal(cv_core_step(protocol, &core, &event, &out), CV_OK);
    return out;
}

static void refuses_config(const struct cv_protocol *protocol, const struct cv_config *config)
{
    uint32_t promises, assumes;
    memset(&core, 0x5a, sizeof core);
    before = core;
    assert_int_equal(cv_core_size(protocol, config), 0);
    assert_int_equal(cv_core_contract(protocol, config, &promises, &assumes), CV_E_INVALID);
    assert_int_equal(cv_core_init(protocol, &core, config), CV_E_INVALID);
    assert_memory_equal(&core, &before, sizeof core);
}

/* The array of options is longer than the list of any protocol. */
static void entries_beyond_the_options_are_ignored_alike(void **unused)
{
    (void)unused;
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        struct cv_config config;
        uint32_t used = 0;
        while (protocol->options[used].name != NULL) {
            used++;
        }
        cv_config_init(&config, protocol, SELF, MEMBERS);
        for (uint32_t at = used; at < CV_OPTIONS_MAX; at++) {
            config.option[at] = INT64_MIN;
        }
        assert_int_equal(cv_core_configure(protocol, &config, NULL), CV_OK);
        void *state = calloc(1, cv_core_size(protocol, &config));
        assert_non_null(state);
        assert_int_equal(cv_core_init(protocol, state, &config), CV_OK);
        free(state);
    }
}

static void configurations_out_of_range(void **unused)
{
    (void)unused;
    uint64_t seed = 60;
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        struct cv_config right, config;
        uint32_t promises, assumes;
        memset(&config, 0, sizeof config);
        refuses_config(protocol, &config);
        refuses_config(protocol, NULL);
        refuses_config(NULL, &config);
        cv_config_init(&right, protocol, SELF, MEMBERS);
        assert_int_equal(cv_core_configure(protocol, &right, NULL), CV_OK);
        assert_int_equal(cv_core_contract(protocol, &right, NULL, &assumes), CV_E_INVALID);
        assert_int_equal(cv_core_contract(protocol, &right, &promises, NULL), CV_E_INVALID);
        assert_int_equal(cv_core_init(protocol, NULL, &right), CV_E_INVALID);
        for (uint32_t at = 0; protocol->options[at].name != NULL; at++) {
            config = right;
            config.option[at] = CV_OPTION_DERIVED;
            refuses_config(protocol, &config);
        }
        config = right;
        config.self = MEMBERS + 1;
        refuses_config(protocol, &config);
        config = right;
        config.member_count = CV_MEMBERS_MAX + 1;
        refuses_config(protocol, &config);
        for (uint32_t i = 0; i < test_scale(2000); i++) { /* bytes of any kind */
            uint8_t *byte = (uint8_t *)&config;
            for (size_t k = 0; k < offsetof(struct cv_config, text); k++) {
                byte[k] = (uint8_t)test_random(&seed);
            }
            refuses_config(protocol, &config);
        }
    }
    assert_int_equal(cv_effects_words(NULL), 0);
}

static void refuses(const struct cv_protocol *protocol, struct cv_event event)
{
    struct cv_effects out = start(protocol);
    before = core;
    event.now_ns = event.now_ns == 0 ? 2 * NS_PER_S : event.now_ns;
    if (cv_core_step(protocol, &core, &event, &out) != CV_E_INVALID) {
        fail_msg("%s takes an event of kind %d", protocol->name, (int)event.kind);
    }
    assert_int_equal(out.item_count, 0);
    assert_memory_equal(&core, &before, sizeof core);
}

static void a_step_without_its_arguments(void **unused)
{
    (void)unused;
    const struct cv_protocol *pole = cv_protocol_find("pole");
    const struct cv_event event = {.kind = CV_EVENT_RESIGN, .now_ns = 2 * NS_PER_S};
    const struct cv_effects right = start(pole);
    struct cv_effects out = right;
    assert_int_equal(cv_core_step(NULL, &core, &event, &out), CV_E_INVALID);
    assert_int_equal(cv_core_step(pole, NULL, &event, &out), CV_E_INVALID);
    assert_int_equal(cv_core_step(pole, &core, NULL, &out), CV_E_INVALID);
    assert_int_equal(cv_core_step(pole, &core, &event, NULL), CV_E_INVALID);
    out.item = NULL;
    assert_int_equal(cv_core_step(pole, &core, &event, &out), CV_E_INVALID);
    out = right;
    out.word = NULL;
    assert_int_equal(cv_core_step(pole, &core, &event, &out), CV_E_INVALID);
    out = right;
    out.word_capacity--;
    assert_int_equal(cv_core_step(pole, &core, &event, &out), CV_E_INVALID);
    out = right;
    assert_int_equal(cv_core_step(pole, &core, &event, &out), CV_OK);
}

static void events_out_of_range(void **unused)
{
    (void)unused;
    static const uint64_t saved[CV_PERSIST_WORDS_MAX + 1];
    const int wrong[] = {-1, 1000, INT32_MAX, INT32_MIN};
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
            const int w = wrong[i];
            refuses(protocol, (struct cv_event){.kind = (enum cv_event_kind)w});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = (uint32_t)w});
            refuses(protocol,
                    (struct cv_event){.kind = CV_EVENT_REPORT, .input = (enum cv_input)w});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_STORE,
                                                .request = 1,
                                                .verdict = (enum cv_store_verdict)w});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_STORE,
                                                .request = 1,
                                                .verdict = CV_STORE_FREE,
                                                .reason = (enum cv_reason)w});
        }
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_TIMER, .timer = CV_TIMERS_MAX});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_CAMPAIGN, .now_ns = -1});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_MESSAGE, .peer = 1});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_START, .persisted_count = 1});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_START,
                                            .persisted = saved,
                                            .persisted_count = COUNT_OF(saved)});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_STORE, .verdict = CV_STORE_GRANTED});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_STORE,
                                            .request = 1,
                                            .verdict = CV_STORE_GRANTED,
                                            .duration_ns = -1});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_SEQUENCE, .sequence = UINT64_MAX - 1});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = CV_ID_NONE});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = UINT32_MAX});
        refuses(protocol, (struct cv_event){.kind = CV_EVENT_RESIGN, .peer = UINT32_MAX});
        if (protocol->identity != NULL) {
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = MEMBERS + 1});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_PEER_DOWN, .peer = SELF});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_RESIGN, .peer = MEMBERS + 1});
        }
    }
}

/* A message with all fields in range: every number is 1, every set has member 1. */
static struct cv_message message_of(uint32_t type)
{
    static const uint64_t one[MEMBERS] = {1};
    struct cv_message message = {.type = type};
    for (uint32_t i = 0; i < CV_FIELDS_MAX; i++) {
        message.field[i] = 1;
    }
    for (uint32_t i = 0; i < CV_LISTS_MAX; i++) {
        message.list[i] = (struct cv_list){one, 1};
    }
    return message;
}

/* The codec and the core refuse it alike. */
static void refuses_message(const struct cv_protocol *protocol, const struct cv_message *message)
{
    uint8_t byte = 0x5a;
    assert_int_equal(cv_message_encode(protocol, MEMBERS, message, &byte), 0);
    assert_int_equal(byte, 0x5a);
    refuses(protocol, (struct cv_event){.kind = CV_EVENT_MESSAGE,
                                        .peer = protocol->is_anonymous ? CV_ID_NONE : 1,
                                        .message = message});
}

static void refuses_field(const struct cv_protocol *protocol, uint32_t type,
                          const struct cv_field *field, uint32_t *scalar, uint32_t *list)
{
    static const uint64_t strangers[] = {UINT64_C(1) << MEMBERS};
    struct cv_message message = message_of(type);
    if (field->kind == CV_FIELD_SET) {
        message.list[*list].word_count = 2;
        refuses_message(protocol, &message);
        message.list[*list] = (struct cv_list){NULL, 1};
        refuses_message(protocol, &message);
        message.list[(*list)++] = (struct cv_list){strangers, 1};
        refuses_message(protocol, &message);
    } else if (field->kind == CV_FIELD_VALUES) {
        message.list[*list].word_count = MEMBERS + 1;
        refuses_message(protocol, &message);
        message.list[(*list)++] = (struct cv_list){NULL, 1};
        refuses_message(protocol, &message);
    } else {
        message.field[(*scalar)++] = MEMBERS + 1;
        if (field->kind != CV_FIELD_U64) {
            refuses_message(protocol, &message);
        }
    }
}

static void messages_out_of_range(void **unused)
{
    (void)unused;
    static uint8_t bytes[2048];
    assert_true(cv_message_bytes_max(NULL, MEMBERS) <= sizeof bytes);
    for (uint32_t p = 0; cv_protocol_at(p) != NULL; p++) {
        const struct cv_protocol *protocol = cv_protocol_at(p);
        for (uint32_t type = 0; type < protocol->message_count; type++) {
            const struct cv_message right = message_of(type);
            assert_true(cv_message_encode(protocol, MEMBERS, &right, bytes) > 0);
            assert_int_equal(cv_message_encode(NULL, MEMBERS, &right, bytes), 0);
            assert_int_equal(cv_message_encode(protocol, MEMBERS, NULL, bytes), 0);
            assert_int_equal(cv_message_encode(protocol, MEMBERS, &right, NULL), 0);
            assert_int_equal(cv_message_encode(protocol, 0, &right, bytes), 0);
            assert_int_equal(cv_message_encode(protocol, UINT32_MAX, &right, bytes), 0);
            uint32_t scalar = 0;
            uint32_t list = 0;
            for (const struct cv_field *f = protocol->messages[type].fields; f->kind; f++) {
                refuses_field(protocol, type, f, &scalar, &list);
            }
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_MESSAGE,
                                                .peer = protocol->is_anonymous ? 1 : SELF,
                                                .message = &right});
            refuses(protocol, (struct cv_event){.kind = CV_EVENT_MESSAGE,
                                                .peer = MEMBERS + 1,
                                                .message = &right});
        }
        const struct cv_message unknown = message_of(protocol->message_count);
        refuses_message(protocol, &unknown);
    }
}

static void decoding_without_its_arguments(void **unused)
{
    (void)unused;
    const struct cv_protocol *pole = cv_protocol_find("pole");
    const uint8_t bytes[] = {1, 0};
    uint64_t word[64];
    struct cv_message message;
    assert_int_equal(cv_message_decode(NULL, 3, bytes, 2, word, &message), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, 0, bytes, 2, word, &message), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, UINT32_MAX, bytes, 2, word, &message), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, 3, NULL, 2, word, &message), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, 3, bytes, 2, NULL, &message), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, 3, bytes, 2, word, NULL), CV_E_INVALID);
    assert_int_equal(cv_message_decode(pole, 3, NULL, 0, word, &message), CV_E_MALFORMED);
    assert_int_equal(cv_message_words_max(UINT32_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_unknown_values),
        cmocka_unit_test(calls_without_an_election),
        cmocka_unit_test(noise_instead_of_options),
        cmocka_unit_test(noise_instead_of_an_address),
        cmocka_unit_test(noise_to_an_election),
        cmocka_unit_test(an_election_is_closed_once_however_often_it_is_listed),
        cmocka_unit_test(noise_to_a_core_that_is_not_made_yet),
        cmocka_unit_test(a_configuration_that_passed_passes_again),
        cmocka_unit_test(noise_from_a_peer),
        cmocka_unit_test(no_descriptors_for_an_election),
        cmocka_unit_test(no_thread_for_an_election),
        cmocka_unit_test(entries_beyond_the_options_are_ignored_alike),
        cmocka_unit_test(configurations_out_of_range),
        cmocka_unit_test(a_step_without_its_arguments),
        cmocka_unit_test(events_out_of_range),
        cmocka_unit_test(messages_out_of_range),
        cmocka_unit_test(decoding_without_its_arguments),
    };
    return cmocka_run_group_tests(tests, in_a_folder, out_of_it);
}
