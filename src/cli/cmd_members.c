/* src/cli/cmd_members.c - `conclave members FILE`: checks the file of a cluster, lists its members,
 * and asks them. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/peers.h"
#include "net/cluster.h"

#include <getopt.h>
#include <string.h>

static void say(void *user, uint32_t line, const char *text)
{
    const char *path = user;
    if (line > 0) {
        cv__complain("%s:%u: %s", path, line, text);
    } else {
        cv__complain("%s: %s", path, text);
    }
}

static void complain(void *user, uint32_t line, const char *text)
{
    (void)user;
    (void)line; /* the mistake is not in the file */
    cv__complain("%s", text);
}

static void print_text(const struct cv_cluster *c)
{
    char text[CV_ERRTEXT_BYTES];
    cv__print(stdout, "%s\n", cv__cli_peers_describe(c, text));
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct cv_cluster_member *m = &c->member[i];
        const bool is_ipv6 = strchr(m->host, ':') != NULL;
        cv__print(stdout, "  %2u  %-16s %s%s%s:%u%s%s\n", m->id, m->name, is_ipv6 ? "[" : "",
                  m->host, is_ipv6 ? "]" : "", m->port, m->site[0] != '\0' ? "  " : "", m->site);
    }
}

static void print_json(const struct cv_cluster *c)
{
    struct cv_json json = {.out = stdout};
    cv__json_open(&json, NULL, '{');
    cv__json_text(&json, "cluster", c->name);
    cv__json_uint(&json, "generation", c->generation);
    cv__json_text(&json, "protocol", c->protocol->name);
    cv__json_open(&json, "members", '[');
    for (uint32_t i = 0; i < c->member_count; i++) {
        const struct cv_cluster_member *m = &c->member[i];
        cv__json_open(&json, NULL, '{');
        cv__json_uint(&json, "id", m->id);
        cv__json_text(&json, "name", m->name);
        cv__json_text(&json, "host", m->host);
        cv__json_uint(&json, "port", m->port);
        if (m->site[0] != '\0') {
            cv__json_text(&json, "site", m->site);
        } else {
            cv__json_null(&json, "site");
        }
        cv__json_close(&json, '}');
    }
    cv__json_close(&json, ']');
    cv__json_close(&json, '}');
    (void)printf("\n");
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        {"check", no_argument, NULL, 'c'}, {"json", no_argument, NULL, 'j'}, {0}};
    bool is_json = false, is_check = false;
    int option;
    while ((option = cv__command_option(argc, argv, "", longs)) != -1) {
        switch (option) {
        case 'c':
            is_check = true;
            break;
        case 'j':
            is_json = true;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 && argc - optind != 2) {
        return cv__wrong_usage("members takes one cluster file, and at most one election");
    }
    static struct cv_cluster cluster; /* some kilobytes */
    if (cv__cluster_check(argv[optind], &cluster, say, argv[optind]) > 0) {
        return EXIT_CANNOT;
    }
    if (is_check && cv__cli_peers_check_host(&cluster, complain, NULL) > 0) {
        return EXIT_CANNOT;
    }
    if (argc - optind == 2) {
        return cv__cli_peers_table(argv[optind], argv[optind + 1], is_json);
    }
    if (is_json) {
        print_json(&cluster);
    } else {
        print_text(&cluster);
    }
    return EXIT_FINE;
}

const struct cv_verb cv__verb_members = {
    .name = "members",
    .summary = "check the file of a cluster, and ask its members",
    .help = "usage: conclave members FILE [ELECTION] [--check] [--json]\n\n"
            "Checks the file of a cluster (conclave-cluster(5)). Prints one line for each mistake, "
            "or,\n"
            "if there is none, the members. With an ELECTION, asks the members who leads, which\n"
            "members they hear, how long messages take, and how many are lost.\n\n"
            "  --check  also check the key files, the state folder and the addresses, as a member\n"
            "           would\n"
            "  --json   print objects\n\n"
            "Exit status: 0 fine, 1 a member does not answer or has another file, 2 there is a "
            "mistake.\n",
    .run = run,
    .is_told = true,
};
