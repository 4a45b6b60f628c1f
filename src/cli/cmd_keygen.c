/* src/cli/cmd_keygen.c - `conclave keygen [FILE]`: a new key for the members of a group. */
#include "cli/cli.h"

#include "net/key.h"

#include <stdio.h>

static int run(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        return cv__wrong_usage("keygen takes the name of a file, or nothing: '%s'",
                               argv[argc > 2 ? 2 : 1]);
    }
    struct cv_key key;
    struct cv_errtext why;
    if (cv__key_generate(&key, &why) != CV_OK) {
        return cv__cannot("%s", why.text);
    }
    int status = EXIT_FINE;
    if (argc < 2) {
        char line[CV_KEY_LINE_BYTES];
        cv__key_format(&key, line);
        (void)fputs(line, stdout); /* main() checks whether it was written */
    } else if (cv__key_write(&key, argv[1], &why) != CV_OK) {
        status = cv__cannot("%s", why.text);
    }
    cv__key_forget(&key);
    return status;
}

const struct cv_verb cv__verb_keygen = {
    .name = "keygen",
    .summary = "makes a key that the members of a group share",
    .help = "usage: conclave keygen [FILE]\n\n"
            "Makes FILE, readable by its owner only, with a new key; an existing file is not\n"
            "changed. Without FILE the key is printed. Copy the file to all members over a secure\n"
            "channel, and name it in the address: 'conclave elect NAME --via\n"
            "multicast:GROUP:PORT?key=FILE&...'.\n",
    .run = run,
};
