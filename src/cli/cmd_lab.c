/* src/cli/cmd_lab.c - `conclave lab EXPERIMENT`: repeats the experiments of the literature. */
#include "base/json.h"
#include "cli/cli.h"
#include "lab/lab.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} experiments[] = {
    {"anon", "election overhead by size of rounds (fig. 3), and Eq. 1, of [Wiesmann07]",
     cv__lab_anon},
    {"auto", "profile=auto of 'pole' against the fixed profiles in random networks", cv__lab_auto},
    {"classic", "messages and time of the five classical protocols; each with two leaders",
     cv__lab_classic},
    {"local", "election time, time to a new leader, answer trees and messages of 'local'",
     cv__lab_local},
    {"pole", "latency and recovery by oracle, as in [Becker11], and in random networks",
     cv__lab_pole},
};

static int list(bool is_json)
{
    struct cv_json json = {.out = stdout};
    if (is_json) {
        cv__json_open(&json, NULL, '[');
    }
    for (uint32_t i = 0; i < COUNT_OF(experiments); i++) {
        if (!is_json) {
            (void)printf("%-9s  %s\n", experiments[i].name, experiments[i].summary);
            continue;
        }
        cv__json_open(&json, NULL, '{');
        cv__json_text(&json, "name", experiments[i].name);
        cv__json_text(&json, "summary", experiments[i].summary);
        cv__json_close(&json, '}');
    }
    if (is_json) {
        cv__json_close(&json, ']');
        (void)printf("\n");
    }
    return EXIT_FINE;
}

static int run(int argc, char **argv)
{
    const bool is_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc < 2 || is_json) {
        return list(is_json);
    }
    const char *known[COUNT_OF(experiments) + 1] = {0};
    for (uint32_t i = 0; i < COUNT_OF(experiments); i++) {
        known[i] = experiments[i].name;
        if (strcmp(experiments[i].name, argv[1]) == 0) {
            return experiments[i].run(argc - 1, argv + 1);
        }
    }
    return cv__command_unknown("experiment", argv[1], known);
}

const struct cv_verb cv__verb_lab = {
    .name = "lab",
    .summary = "repeat a paper's experiment and print its figures beside the measured ones",
    .help =
        "usage: conclave lab [EXPERIMENT [OPTIONS]]\n\n"
        "Without an experiment, lists the experiments (--json: as a list of objects).\n\n"
        "  anon [--runs K] [--plots FOLDER] [--json] [--live SEQUENCER]\n"
        "             ten processes of [Wiesmann07] start at once, with rounds of R = 1 to 10\n"
        "             numbers and the paper's sequencer. Measures the time from a process's\n"
        "             proposal to its leader (fig. 3a and 3b), with 99 % confidence intervals\n"
        "             from K elections each (default 300), and, when all processes ask at once,\n"
        "             the longest election (Eq. 1). Exit status 1 if the overhead is not linear\n"
        "             in R or the longest election contradicts Eq. 1.\n"
        "             --live: ten real processes with that sequencer (snmp:HOST:PORT/COMMUNITY,\n"
        "             file:PATH) and multicast on the loopback interface; nothing is judged.\n"
        "  auto       profile=auto of pole against the fixed profiles in random networks, from\n"
        "             LANs to round trips of 150 ms, some lossy or busy. Measures the time from\n"
        "             a leader's crash to the next leader, and counts changes of leader without\n"
        "             a fault. Exit status 1 if a claim is contradicted (auto is as steady as\n"
        "             wan, faster than every stable fixed profile in all networks together ...).\n"
        "             Takes minutes.\n"
        "  classic [--json]\n"
        "             bully, bully-improved, bully-modified, ring and ring-modified: messages\n"
        "             and time of an election after the coordinator's crash, in the best and\n"
        "             the worst case for N = 4, 8, 16, 32, 64, beside the formulas. Then each\n"
        "             protocol with two leaders, under a partition and under a pause. Exit\n"
        "             status 1 if a figure does not agree with its formula.\n"
        "  local      the measurements of Fetzer and Cristian: election time for 1 to 256\n"
        "             processes, time to a new leader after a split, a crash and a hint,\n"
        "             direct answers against trees for up to 1024 processes, messages in the\n"
        "             stable state. Exit status 1 if a claim is contradicted. Takes minutes.\n"
        "  pole       the evaluation of Becker, Junqueira and Serafini: which server each\n"
        "             oracle elects in their deployments, the latency of requests at each site\n"
        "             and the recovery time, beside their figures. Exit status 1 if a figure\n"
        "             differs.\n\n"
        "Options of auto, local and pole:\n"
        "  --plots DIR  draw SVG plots into an existing folder (needs gnuplot)\n"
        "  --runs N     local: runs for each case of a lost leader (default 1000), and ten\n"
        "               times as many elections for each number of processes;\n"
        "               pole: runs of each case (default 5, at most 100);\n"
        "               auto: runs in each network (default 1, at most 100)\n"
        "  --random N   pole: instead of the figures, compare each oracle's leader with the\n"
        "               best possible leader in N random networks;\n"
        "               auto: number of networks (default 1000)\n"
        "  --seed N     auto: seed of the first network; the others have the next seeds\n"
        "               (default 1)\n"
        "  --live       pole: instead of the figures, five real processes on an emulated\n"
        "               wide-area network: which server each oracle elects. Needs root; takes\n"
        "               minutes\n"
        "  --json       print one object instead of tables\n"
        "  --tiny       few runs of small sizes, takes seconds\n",
    .run = run,
    .is_told = true,
};
