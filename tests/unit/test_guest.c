/* tests/unit/test_guest.c - a member's answer to a guest is decoded as it was sent, or refused. */
#include "runtime/guest.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static void answer_travels_whole_or_is_refused(void **unused)
{
    (void)unused;
    static struct cv_guest_status said = {.has_joined = true,
                                          .is_leading = true,
                                          .leader = 2,
                                          .token = UINT64_C(1) << 50,
                                          .left_ns = 123456789,
                                          .life = UINT64_MAX,
                                          .generation = 7,
                                          .version = "1.2.3"};
    static struct cv_guest_status heard;
    said.link[2] = (struct cv_guest_link){.is_heard = true,
                                          .differs = true,
                                          .ago_ns = 5,
                                          .delay_ns = INT64_MAX,
                                          .round_ns = 9,
                                          .received = 10,
                                          .lost = 11};
    uint8_t bytes[CV_GUEST_STATUS_BYTES_MAX];
    const size_t byte_count = cv__guest_encode(&said, 3, bytes);
    assert_true(cv__guest_decode(bytes, byte_count, 3, &heard));
    said.has_answered = true;
    assert_memory_equal(&said.link[2], &heard.link[2], sizeof heard.link[2]);
    assert_int_equal(heard.leader, 2);
    assert_int_equal(heard.token, said.token);
    assert_int_equal(heard.left_ns, said.left_ns);
    assert_int_equal(heard.life, said.life);
    assert_int_equal(heard.generation, 7);
    assert_string_equal(heard.version, "1.2.3");
    assert_true(heard.has_answered && heard.has_joined && heard.is_leading);
    assert_false(heard.has_majority);
    for (size_t length = 0; length < byte_count; length++) {
        assert_false(cv__guest_decode(bytes, length, 3, &heard));
    }
    assert_false(cv__guest_decode(bytes, byte_count, 4, &heard));
    bytes[2] = 9; /* a leader that is not a member */
    assert_false(cv__guest_decode(bytes, byte_count, 3, &heard));
    bytes[2] = 2;
    bytes[0]++; /* of another version */
    assert_false(cv__guest_decode(bytes, byte_count, 3, &heard));
}

static void leader_is_the_member_that_claims_to_lead_with_the_largest_token(void **unused)
{
    (void)unused;
    static struct cv_guest_status status[3];
    assert_int_equal(cv__guest_leader(status, 3), CV_ID_NONE);
    status[0] = (struct cv_guest_status){.has_answered = true, .leader = 3, .token = 99};
    /* Another member's word is not enough. */
    assert_int_equal(cv__guest_leader(status, 3), CV_ID_NONE);
    status[1] = (struct cv_guest_status){.has_answered = true, .is_leading = true, .token = 4};
    status[2] = (struct cv_guest_status){.has_answered = true, .is_leading = true, .token = 5};
    assert_int_equal(cv__guest_leader(status, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_travels_whole_or_is_refused),
        cmocka_unit_test(leader_is_the_member_that_claims_to_lead_with_the_largest_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
