/* src/lab/local_tables.c - the empty tables of `conclave lab local`: the text above each, and its
 * columns. */
#include "lab/local.h"

const struct cv_lab_local cv__lab_local_empty = {
    .election = {.name = "election",
                 .about = "1. Election time in ms: from sending the ELECTION that succeeds to "
                          "leading. paper_ms: read from\nthe paper's figures. Delta grows with n "
                          "where the last answer would be slow otherwise.",
                 .column = {{"n", 4, 0, false},
                            {"paper_ms", 8, 1, false},
                            {"mean_ms", 8, 2, false},
                            {"p99_ms", 8, 2, false},
                            {"max_ms", 8, 2, false},
                            {"delta_ms", 8, 0, false},
                            {"elections", 9, 0, false}}},
    .histogram = {.name = "histogram",
                  .column = {{"ms", 0, 0, false},
                             {"n2", 0, 0, false},
                             {"n4", 0, 0, false},
                             {"n6", 0, 0, false},
                             {"n8", 0, 0, false}}},
    .new_leader =
        {.name = "new_leader",
         .about = "2. The leader of 8 is lost; ms from the fault. split: 1..4 | 5..8, and the "
                  "times are those of 5..8;\ncrash: 1 crashes; hint: it crashes, and 1 ms later "
                  "all are told; certain: told by its own host.\nexcluded: the first ELECTION "
                  "of an orphan; leader: one leads; follow: all follow it;\nold_gap: time without "
                  "a leader in 1..4, within a second.",
         .column = {{"fault", 7, 0, true},
                    {"lock", 5, 0, true},
                    {"order", 5, 0, true},
                    {"excluded", 8, 1, false},
                    {"leader", 7, 1, false},
                    {"p50", 6, 1, false},
                    {"p99", 6, 1, false},
                    {"max", 6, 1, false},
                    {"follow", 6, 1, false},
                    {"attempts", 8, 2, false},
                    {"old_gap", 7, 1, false},
                    {"runs", 6, 0, false}}},
    .waits = {.name = "waits", .column = {{"percent", 0, 0, false}}},
    .collation = {.name = "collation",
                  .about =
                      "3. Election time in ms with direct answers and with trees of k children; "
                      "the best k, its saving,\nand the messages that the leader handles in "
                      "a round (direct, best tree). Delta grows as in 1.",
                  .column = {{"n", 4, 0, false},
                             {"direct", 7, 2, false},
                             {"k2", 6, 2, false},
                             {"k3", 6, 2, false},
                             {"k4", 6, 2, false},
                             {"k8", 6, 2, false},
                             {"k16", 6, 2, false},
                             {"k32", 6, 2, false},
                             {"best_k", 6, 0, false},
                             {"saves_pct", 9, 1, false},
                             {"root_direct", 11, 0, false},
                             {"root_tree", 9, 0, false}}},
    .reach = {.name = "reach",
              .about = "The same with the paper's Delta of 15 ms: the largest number of processes "
                       "whose leader renews in\nevery round, and the longest election time there.",
              .column = {{"answers", 10, 0, true},
                         {"n", 4, 0, false},
                         {"max_ms", 7, 2, false},
                         {"note", 0, 0, true}}},
    .stable = {.name = "stable",
               .about = "4. Messages in a round of the stable state: the paper's and the counted.",
               .column = {{"n", 3, 0, false},
                          {"rounds", 6, 0, false},
                          {"said_broadcasts", 15, 0, false},
                          {"broadcasts", 10, 3, false},
                          {"said_unicasts", 13, 0, false},
                          {"unicasts", 8, 3, false},
                          {"others", 6, 3, false},
                          {"verdict", 0, 0, true}}},
};
