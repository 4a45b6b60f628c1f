/* tests/unit/test_registry.c - what every entry of the list of protocols must be like. */
#include "support/support.h"

#include <string.h>

/* Walks all protocols; `p` is each in turn. */
#define FOR_EACH_PROTOCOL(p)     \
    const struct cv_protocol *p; \
    for (uint32_t at_##p = 0; (p = cv_protocol_at(at_##p)) != NULL; at_##p++)

static void has_the_five_classical_protocols(void **unused)
{
    (void)unused;
    const char *const names[] = {"bully", "bully-improved", "bully-modified", "ring",
                                 "ring-modified"};
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        const struct cv_protocol *protocol = cv_protocol_find(names[i]);
        assert_non_null(protocol);
        assert_string_equal(protocol->name, names[i]);
    }
}

static void finds_each_by_its_own_name_only(void **unused)
{
    (void)unused;
    FOR_EACH_PROTOCOL(p)
    {
        assert_ptr_equal(cv_protocol_find(p->name), p); /* so no two share a name */
    }
    assert_null(cv_protocol_find(""));
    assert_null(cv_protocol_find("bull"));
    assert_null(cv_protocol_find("Bully"));
    assert_null(cv_protocol_at(UINT32_MAX));
}

static void each_says_what_it_is_and_where_it_comes_from(void **unused)
{
    (void)unused;
    FOR_EACH_PROTOCOL(p)
    {
        assert_int_equal(strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(p->name));
        assert_true(strlen(p->summary) > 0);
        assert_true(strlen(p->leads) > 0);
        assert_true(strlen(p->cites) > 0);
        struct cv_config config;
        cv_config_init(&config, p, 1, 3);
        assert_int_equal(cv_core_configure(p, &config, NULL), CV_OK);
        uint32_t promises;
        uint32_t assumes;
        cv_core_contract(p, &config, &promises, &assumes);
        assert_true(promises != 0);
        assert_int_equal(promises >> CV_PROPERTY_COUNT, 0);
        assert_int_equal(assumes >> CV_ASSUME_COUNT, 0);
    }
}

static void each_option_fits_its_own_range(void **unused)
{
    (void)unused;
    FOR_EACH_PROTOCOL(p)
    {
        uint32_t count = 0;
        for (const struct cv_option *o = p->options; o->name != NULL; o++, count++) {
            assert_true(o->help != NULL && strlen(o->help) > 0);
            if (o->kind == CV_OPTION_CHOICE) {
                assert_non_null(o->choices);
            }
            if (o->kind == CV_OPTION_TIME || o->kind == CV_OPTION_COUNT) {
                assert_true(o->min >= 0);
                assert_true(o->min <= o->max);
                assert_true(o->initial == CV_OPTION_DERIVED ||
                            (o->initial >= o->min && o->initial <= o->max));
            }
            for (const struct cv_option *other = p->options; other != o; other++) {
                assert_string_not_equal(other->name, o->name);
            }
        }
        assert_true(count <= CV_OPTIONS_MAX);
    }
}

static void each_message_fits_into_the_decoded_form(void **unused)
{
    (void)unused;
    FOR_EACH_PROTOCOL(p)
    {
        assert_in_range(p->message_count, p->store_ns != NULL ? 0 : 1, 256); /* type: one byte */
        for (uint32_t type = 0; type < p->message_count; type++) {
            uint32_t scalars = 0;
            uint32_t lists = 0;
            assert_true(strlen(p->messages[type].name) > 0);
            for (const struct cv_field *f = p->messages[type].fields; f->kind != CV_FIELD_END;
                 f++) {
                const bool is_list = f->kind == CV_FIELD_SET || f->kind == CV_FIELD_VALUES;
                assert_true(strlen(f->name) > 0);
                *(is_list ? &lists : &scalars) += 1;
            }
            assert_true(scalars <= CV_FIELDS_MAX);
            assert_true(lists <= CV_LISTS_MAX);
            for (uint32_t other = 0; other < type; other++) {
                assert_string_not_equal(p->messages[other].name, p->messages[type].name);
            }
        }
    }
}

static void each_accepts_its_defaults_for_1_to_4096_members(void **unused)
{
    (void)unused;
    const uint32_t sizes[] = {1, 2, 3, 64, 65, CV_MEMBERS_MAX};
    FOR_EACH_PROTOCOL(p)
    {
        for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
            struct cv_config config;
            struct cv_errtext err = {""};
            cv_config_init(&config, p, sizes[i], sizes[i]);
            if (cv_core_configure(p, &config, &err) != CV_OK) {
                fail_msg("%s, %u members: %s", p->name, sizes[i], err.text);
            }
            for (uint32_t at = 0; p->options[at].name != NULL; at++) {
                assert_true(config.option[at] != CV_OPTION_DERIVED);
            }
            assert_true(cv_core_size(p, &config) > 0);
            assert_true(p->settle_ns(&config) > 0);
        }
    }
}

/* Needed by a member of a cluster that has lost its record, or that joins a new generation. */
static void each_that_knows_its_members_restores_a_record(void **unused)
{
    (void)unused;
    uint32_t count = 0;
    FOR_EACH_PROTOCOL(p)
    {
        assert_int_equal(p->floor != NULL, p->restore != NULL);
        assert_int_equal(p->floor != NULL, !p->is_anonymous && p->message_count > 0);
        if (p->floor == NULL) {
            continue;
        }
        uint64_t word[CV_PERSIST_WORDS_MAX], raised[CV_PERSIST_WORDS_MAX];
        const uint32_t word_count = p->restore(NULL, 0, 70, word);
        assert_true(word_count <= CV_PERSIST_WORDS_MAX);
        assert_int_equal(p->floor(word, word_count), 70);
        assert_int_equal(p->floor(NULL, 0), 0);
        assert_int_equal(p->restore(word, word_count, 90, raised), word_count);
        assert_int_equal(p->floor(raised, word_count), 90);
        assert_int_equal(p->restore(word, word_count, 50, raised), word_count);
        assert_int_equal(p->floor(raised, word_count), 70); /* the floor never falls */
        count++;
    }
    assert_int_equal(count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_five_classical_protocols),
        cmocka_unit_test(finds_each_by_its_own_name_only),
        cmocka_unit_test(each_says_what_it_is_and_where_it_comes_from),
        cmocka_unit_test(each_option_fits_its_own_range),
        cmocka_unit_test(each_message_fits_into_the_decoded_form),
        cmocka_unit_test(each_accepts_its_defaults_for_1_to_4096_members),
        cmocka_unit_test(each_that_knows_its_members_restores_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
