/* src/cli/cmd_keygen.c - `conclave keygen [FILE]`: a new key for the members of a group. */
#include "cli/cli.h"

#include "net/key.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The rotation of a key, step by step: every member accepts both keys until all use the new one. */
static void print_steps(const char *old, const char *new)
{
    cv__print(stdout,
              "made '%s'. Now change the cluster file of each member, one member at a time:\n",
              new);
    cv__print(stdout,
              "1. next-key = %s            then restart it; go on when all members have it\n", new);
    cv__print(stdout,
              "2. key = %s, next-key = %s  then restart it; go on when all members have it\n", new,
              old);
    cv__print(stdout, "3. remove next-key, then restart it\n");
}

static int rotate(const char *old)
{
    char path[PATH_MAX];
    struct cv_key key = {{0}};
    struct cv_errtext why;
    const int length = snprintf(path, sizeof path, "%s.next", old);
    if (length < 0 || (size_t)length >= sizeof path) {
        return cv__wrong_usage("the name of the key file is too long");
    }
    int code = cv__key_read(old, &key, &why); /* the key to replace must exist */
    if (code == CV_OK) {
        code = cv__key_generate(&key, &why);
    }
    if (code == CV_OK) {
        code = cv__key_write(&key, path, &why);
    }
    cv__key_forget(&key);
    if (code != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    print_steps(old, path);
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {{"rotate", required_argument, NULL, 'r'}, {0}};
    const char *old = NULL;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        if (option != 'r') {
            return EXIT_USAGE;
        }
        old = optarg;
    }
    const int count = argc - optind;
    if (count > (old == NULL ? 1 : 0)) {
        return cv__wrong_usage("keygen takes at most one file; '%s' is one too many",
                               argv[argc - 1]);
    }
    if (old != NULL) {
        return rotate(old);
    }
    struct cv_key key;
    struct cv_errtext why;
    if (cv__key_generate(&key, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    int status = EXIT_FINE;
    if (count == 0) {
        char line[CV_KEY_LINE_BYTES];
        cv__key_format(&key, line);
        (void)fputs(line, stdout); /* main() checks whether it was written */
    } else if (cv__key_write(&key, argv[optind], &why) != CV_OK) {
        status = cv__cannot("%s", why.text);
    }
    cv__key_forget(&key);
    return status;
}

const struct cv_verb cv__verb_keygen = {
    .name = "keygen",
    .summary = "make a key that the members of a group share",
    .help =
        "usage: conclave keygen [FILE]\n"
        "       conclave keygen --rotate FILE\n\n"
        "Writes a new key to FILE, readable by its owner only. An existing FILE is not changed.\n"
        "Without FILE, prints the key. Copy the file to all members over a secure channel. Then\n"
        "name it in the address ('conclave elect NAME --via multicast:GROUP:PORT?key=FILE&...')\n"
        "or in the file of the cluster.\n\n"
        "  --rotate FILE  make FILE.next, which is to replace the key FILE of a running cluster,\n"
        "                 and print the steps\n",
    .run = run,
};
