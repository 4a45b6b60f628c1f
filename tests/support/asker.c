/* tests/support/asker.c - see asker.h. */
#include "support/asker.h"

#include <stdio.h>
#include <string.h>

static void on_number(void *self, uint64_t request, uint64_t number)
{
    struct asker *a = self;
    a->request = request;
    a->number = number;
    a->answers++;
}

static void on_trouble(void *self, const char *line)
{
    struct asker *a = self;
    (void)snprintf(a->trouble, sizeof a->trouble, "%s", line);
    a->troubles++;
}

static void on_closed(void *data)
{
    ((struct asker *)data)->is_closed = true;
}

void asker_open(struct asker *a, const char *address)
{
    memset(a, 0, sizeof *a);
    const struct cv_sequencer_events events = {a, on_number, on_trouble};
    struct cv_errtext why = {""};
    assert_int_equal(uv_loop_init(&a->loop), 0);
    const int result = cv__sequencer_open(&a->loop, address, &events, &a->sequencer, &why);
    assert_string_equal(why.text, "");
    assert_int_equal(result, CV_OK);
}

void asker_close(struct asker *a)
{
    a->sequencer.kind->close(a->sequencer.self, on_closed, a);
    (void)uv_run(&a->loop, UV_RUN_DEFAULT);
    assert_true(a->is_closed);
    assert_int_equal(uv_loop_close(&a->loop), 0);
}

void asker_refused(const char *address, int code, const char *words)
{
    uv_loop_t loop;
    struct cv_counter sequencer;
    struct cv_errtext why = {""};
    const struct cv_sequencer_events events = {NULL, on_number, NULL};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(cv__sequencer_open(&loop, address, &events, &sequencer, &why), code);
    assert_string_not_equal(why.text, "");
    assert_non_null(strstr(why.text, words));
    assert_int_equal(uv_loop_close(&loop), 0);
}

void asker_turn_until_answered(struct asker *a, uint32_t answers)
{
    while (a->answers < answers) {
        (void)uv_run(&a->loop, UV_RUN_ONCE);
    }
}
