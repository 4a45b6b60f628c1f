/* tests/unit/test_words.c - a scenario's line split into words, and errors that point at one of
 * them. */
#include "scenario/words.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct sim_word *word;
    struct cv_errtext err;
    struct sim_words words;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->word = calloc(SIM_WORDS_MAX, sizeof *f->word);
    assert_non_null(f->word);
    f->words = (struct sim_words){.name = "a.scn", .line = 3, .word = f->word, .reterr = &f->err};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    free(f->word);
    free(f);
    return 0;
}

/* The line without its terminating NUL, in a block of its own: the sanitizer sees a read past its
 * end. */
static int split(struct fixture *f, const char *line)
{
    const size_t length = strlen(line);
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, line, length);
    const int result = sim_words_split(&f->words, copy, length);
    free(copy);
    return result;
}

static void splits_at_blanks_and_stops_at_a_comment(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "  at 1s\tcrash   6# the leader"), CV_OK);
    const char *const expected[] = {"at", "1s", "crash", "6"};
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        assert_string_equal(sim_words_next(&f->words), expected[i]);
    }
    assert_null(sim_words_next(&f->words));
}

static void finds_nothing_in_blank_lines_and_comments(void **state)
{
    struct fixture *f = *state;
    const char *const lines[] = {"", "   ", "\t", "# at 1s crash 6", "\r"};
    for (uint32_t i = 0; i < COUNT_OF(lines); i++) {
        assert_int_equal(split(f, lines[i]), CV_OK);
        assert_null(sim_words_next(&f->words));
    }
}

static void takes_a_word_only_if_it_matches(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "run 30s"), CV_OK);
    assert_false(sim_words_take(&f->words, "ru"));
    assert_string_equal(sim_words_peek(&f->words), "run");
    assert_true(sim_words_take(&f->words, "run"));
    assert_string_equal(sim_words_next(&f->words), "30s");
    assert_false(sim_words_take(&f->words, "run"));
}

static void refuses_binary_files_and_endless_words(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "\177ELF\002\001"), CV_E_MALFORMED);
    assert_int_equal(split(f, "node\001"), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "0x01"));

    char word[SIM_WORD_BYTES + 1];
    memset(word, 'x', sizeof word);
    word[SIM_WORD_BYTES - 1] = '\0';
    assert_int_equal(split(f, word), CV_OK);
    word[SIM_WORD_BYTES - 1] = 'x';
    word[SIM_WORD_BYTES] = '\0';
    assert_int_equal(split(f, word), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "a.scn:3:1:"));
}

static void refuses_more_words_than_there_is_room_for(void **state)
{
    struct fixture *f = *state;
    char *line = malloc(2 * SIM_WORDS_MAX + 3);
    assert_non_null(line);
    for (uint32_t i = 0; i <= SIM_WORDS_MAX; i++) {
        memcpy(line + 2 * i, "x ", 3);
    }
    assert_int_equal(split(f, line), CV_E_MALFORMED);
    line[2 * SIM_WORDS_MAX] = '\0'; /* one less */
    assert_int_equal(split(f, line), CV_OK);
    assert_int_equal(f->words.count, SIM_WORDS_MAX);
    free(line);
}

static void points_at_the_word_it_took_last_or_behind_the_end(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "at  1s   crash"), CV_OK);
    (void)sim_words_next(&f->words);
    (void)sim_words_next(&f->words);
    assert_int_equal(sim_words_fail(&f->words, "no %s", "good"), CV_E_MALFORMED);
    assert_string_equal(f->err.text, "a.scn:3:5: no good");
    (void)sim_words_next(&f->words);
    (void)sim_words_next(&f->words); /* nothing left */
    assert_int_equal(sim_words_fail(&f->words, "missing"), CV_E_MALFORMED);
    assert_string_equal(f->err.text, "a.scn:3:15: missing");
}

static void suggests_the_nearest_word(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "crsh"), CV_OK);
    const char *word = sim_words_next(&f->words);
    assert_int_equal(sim_words_unknown(&f->words, "action", word, "crash pause heal"),
                     CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "did you mean 'crash'?"));
}

static void lists_the_words_when_none_is_near(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "explode"), CV_OK);
    const char *word = sim_words_next(&f->words);
    assert_int_equal(sim_words_unknown(&f->words, "action", word, "crash pause heal"),
                     CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "crash pause heal"));
    assert_null(strstr(f->err.text, "did you mean"));
}

static void asks_for_the_unit_of_a_time(void **state)
{
    struct fixture *f = *state;
    int64_t ns = 0;
    assert_int_equal(split(f, "250ms 5 soon"), CV_OK);
    assert_int_equal(sim_words_time(&f->words, "delay", &ns), CV_OK);
    assert_int_equal(ns, 250 * NS_PER_MS);
    assert_int_equal(sim_words_time(&f->words, "delay", &ns), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "no unit; write 5ms or 5s"));
    assert_int_equal(sim_words_time(&f->words, "delay", &ns), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "a.scn:3:9:"));
    assert_int_equal(sim_words_time(&f->words, "delay", &ns), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "delay is missing"));
}

static void takes_counts_up_to_their_bound(void **state)
{
    struct fixture *f = *state;
    uint64_t count = 0;
    assert_int_equal(split(f, "0 4096 4097 -1 +1 1.5 7x 99999999999999999999"), CV_OK);
    assert_int_equal(sim_words_count(&f->words, "nodes", 4096, &count), CV_OK);
    assert_int_equal(count, 0);
    assert_int_equal(sim_words_count(&f->words, "nodes", 4096, &count), CV_OK);
    assert_int_equal(count, 4096);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(sim_words_count(&f->words, "nodes", 4096, &count), CV_E_MALFORMED);
        assert_int_equal(count, 4096);
    }
}

/* strtoull() returns its largest number then, which must not be taken for what was written. */
static void refuses_counts_of_more_than_64_bits(void **state)
{
    struct fixture *f = *state;
    uint64_t count = 0;
    assert_int_equal(split(f, "18446744073709551615 18446744073709551616"), CV_OK);
    assert_int_equal(sim_words_count(&f->words, "seed", UINT64_MAX, &count), CV_OK);
    assert_int_equal(count, UINT64_MAX);
    assert_int_equal(sim_words_count(&f->words, "seed", UINT64_MAX, &count), CV_E_MALFORMED);
}

static void takes_percentages_up_to_a_hundred(void **state)
{
    struct fixture *f = *state;
    int64_t ppb = 0;
    assert_int_equal(split(f, "0.1% 100% 100.1% 5 5%% %"), CV_OK);
    assert_int_equal(sim_words_percent(&f->words, "loss", &ppb), CV_OK);
    assert_int_equal(ppb, 1000000);
    assert_int_equal(sim_words_percent(&f->words, "loss", &ppb), CV_OK);
    assert_int_equal(ppb, 1000000000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(sim_words_percent(&f->words, "loss", &ppb), CV_E_MALFORMED);
    }
}

static void insists_on_keywords_and_on_the_end_of_the_line(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(split(f, "rate 5 extra"), CV_OK);
    assert_int_equal(sim_words_keyword(&f->words, "rate"), CV_OK);
    assert_int_equal(sim_words_keyword(&f->words, "kinds"), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "expected 'kinds', not '5'"));
    assert_int_equal(sim_words_end(&f->words), CV_E_MALFORMED);
    assert_non_null(strstr(f->err.text, "'extra'"));
    assert_int_equal(sim_words_end(&f->words), CV_OK);
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(splits_at_blanks_and_stops_at_a_comment),
        test(finds_nothing_in_blank_lines_and_comments),
        test(takes_a_word_only_if_it_matches),
        test(refuses_binary_files_and_endless_words),
        test(refuses_more_words_than_there_is_room_for),
        test(points_at_the_word_it_took_last_or_behind_the_end),
        test(suggests_the_nearest_word),
        test(lists_the_words_when_none_is_near),
        test(asks_for_the_unit_of_a_time),
        test(takes_counts_up_to_their_bound),
        test(refuses_counts_of_more_than_64_bits),
        test(takes_percentages_up_to_a_hundred),
        test(insists_on_keywords_and_on_the_end_of_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
