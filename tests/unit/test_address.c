/* tests/unit/test_address.c - the parts of an election address. */
#include "core/address.h"
#include "support/support.h"

#include <string.h>

static struct cv_address split(const char *text)
{
    struct cv_address address;
    struct cv_errtext err;
    if (cv__address_split(text, &address, &err) != CV_OK) {
        fail_msg("'%s' was refused: %s", text, err.text);
    }
    return address;
}

static void assert_part(struct cv_span part, const char *expected)
{
    char text[128];
    assert_true(cv__address_decode(part, text, sizeof text));
    assert_string_equal(text, expected);
}

static void assert_refused(const char *text, const char *because)
{
    struct cv_address address;
    struct cv_errtext err;
    assert_int_equal(cv__address_split(text, &address, &err), CV_E_INVALID);
    if (strstr(err.text, because) == NULL) {
        fail_msg("'%s' was refused with: %s", text, err.text);
    }
    assert_int_equal(cv__address_split(text, &address, NULL), CV_E_INVALID);
}

static void splits_scheme_and_path(void **unused)
{
    (void)unused;
    const struct cv_address address = split("sqlite:/var/lib/x.db");
    assert_part(address.scheme, "sqlite");
    assert_part(address.path, "/var/lib/x.db");
    assert_part(address.hosts, "");
    assert_false(address.has_hosts);
    assert_part(split("sqlite:x.db").path, "x.db");
    assert_part(split("agent:").path, "");
}

static void splits_user_hosts_path_and_options(void **unused)
{
    (void)unused;
    const struct cv_address address =
        split("etcd://root@10.0.0.1:2379,db.example/a/b?cacert=/etc/ca.pem&tls");
    assert_part(address.user, "root");
    assert_part(address.hosts, "10.0.0.1:2379,db.example");
    assert_part(address.path, "/a/b");
    assert_part(address.options, "cacert=/etc/ca.pem&tls");
    assert_true(address.has_hosts);
    assert_part(split("x://a@b@host").user, "a@b"); /* a user may be a mail address */
    assert_part(split("x://a@b@host").hosts, "host");
    assert_part(split("x://host?a=1").hosts, "host");
    assert_part(split("x:///p").path, "/p");
}

static void lists_hosts_with_ports(void **unused)
{
    (void)unused;
    const struct cv_address address = split("x://one:1,[fd00::2]:65535,three");
    char host[32];
    uint32_t port;
    assert_int_equal(cv__address_host_count(&address), 3);
    assert_true(cv__address_host(&address, 0, host, sizeof host, &port));
    assert_string_equal(host, "one");
    assert_int_equal(port, 1);
    assert_true(cv__address_host(&address, 1, host, sizeof host, &port));
    assert_string_equal(host, "fd00::2");
    assert_int_equal(port, 65535);
    assert_true(cv__address_host(&address, 2, host, sizeof host, &port));
    assert_string_equal(host, "three");
    assert_int_equal(port, 0);
    assert_false(cv__address_host(&address, 3, host, sizeof host, &port));
    const struct cv_address nobody = split("x:/p");
    assert_int_equal(cv__address_host_count(&nobody), 0);
    assert_false(cv__address_host(&nobody, 0, host, sizeof host, &port));
}

static void refuses_malformed_hosts(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {"x://a:0",       "x://a:65536", "x://a:b",
                                        "x://a:",        "x://:1",      "x://[::1",
                                        "x://[::1]2379", "x://,b",      "x://a:99999999999"};
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++) {
        const struct cv_address address = split(wrong[i]);
        char host[32];
        uint32_t port;
        if (cv__address_host(&address, 0, host, sizeof host, &port)) {
            fail_msg("'%s' was read as host '%s' port %u", wrong[i], host, (unsigned)port);
        }
    }
    const struct cv_address address = split("x://long.example");
    char host[4];
    uint32_t port;
    assert_false(cv__address_host(&address, 0, host, sizeof host, &port));
}

static void decodes_percent_signs(void **unused)
{
    (void)unused;
    assert_part(split("x:/a%3Fb%25c%2f").path, "/a?b%c/");
    assert_part(split("x://u%40v@h/").user, "u@v");
    struct cv_span value;
    const struct cv_address address = split("x:p?a%62c=1%262&d=");
    assert_true(cv__address_option(&address, "abc", &value));
    assert_part(value, "1&2");
    assert_true(cv__address_option(&address, "d", &value));
    assert_part(value, "");
    assert_false(cv__address_option(&address, "ab", &value));
    assert_false(cv__address_option(&address, "abcd", &value));
    char small[3];
    assert_true(cv__address_decode((struct cv_span){"%41%42", 6}, small, sizeof small));
    assert_string_equal(small, "AB");
    assert_false(cv__address_decode((struct cv_span){"ABC", 3}, small, sizeof small));
    assert_string_equal(small, "");
}

static void refuses_malformed_addresses(void **unused)
{
    (void)unused;
    assert_refused("", "has to begin with a scheme");
    assert_refused("/var/lib/x.db", "has to begin with a scheme");
    assert_refused(":x", "has to begin with a scheme");
    assert_refused("1x:y", "has to begin with a scheme");
    assert_refused("x:a%", "two hexadecimal digits");
    assert_refused("x:a%1", "two hexadecimal digits");
    assert_refused("x:a%1g", "two hexadecimal digits");
    assert_refused("x:a%00", "%00");
    assert_refused("x:a\nb", "control character");
    assert_refused("x:a?b=1&b=2", "option 'b' is given twice");
    assert_refused("x:a?b=1&c=3&%62=2", "option 'b' is given twice");
    assert_refused("x:a?=1", "?name=value");
    assert_refused("x:a?b=1&&c=2", "?name=value");
}

static void names_the_first_unknown_option(void **unused)
{
    (void)unused;
    static const char *const known[] = {"cacert", "cert", NULL};
    static const char *const none[] = {NULL};
    struct cv_errtext err;
    const struct cv_address fine = split("x:p?cert=1&cacert=2");
    assert_int_equal(cv__address_check_options(&fine, known, &err), CV_OK);
    const struct cv_address wrong = split("x:p?cert=1&cracert=2&y=1");
    assert_int_equal(cv__address_check_options(&wrong, known, &err), CV_E_INVALID);
    assert_string_equal(err.text, "unknown address option 'cracert'; did you mean 'cacert'?");
    assert_int_equal(cv__address_check_options(&wrong, none, &err), CV_E_INVALID);
    assert_string_equal(err.text, "unknown address option 'cert'; known: none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_scheme_and_path),
        cmocka_unit_test(splits_user_hosts_path_and_options),
        cmocka_unit_test(lists_hosts_with_ports),
        cmocka_unit_test(refuses_malformed_hosts),
        cmocka_unit_test(decodes_percent_signs),
        cmocka_unit_test(refuses_malformed_addresses),
        cmocka_unit_test(names_the_first_unknown_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
