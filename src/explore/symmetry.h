/* src/explore/symmetry.h - one hash for worlds in which nodes that are alike have changed places.
 *
 * The contenders of `lease` and `anon` are alike: an id only tells one from another. If two worlds
 * differ only in which node is in which place, the same happens next in both, with the names
 * exchanged. The search keeps each world as it was reached, so that a trace never changes a name,
 * but it looks worlds up by a hash that is the same for all arrangements of their nodes. So of up
 * to n! worlds it visits one.
 *
 * The hash is that of the packed bytes (pack.h) of one arrangement: nodes are sorted by a key that
 * does not depend on names; among nodes with equal keys every order is tried, and the least hash
 * counts.
 *
 * In one instant nodes take turns; all orders lead to the same worlds, but two events at different
 * nodes are judged in the order of their turns. In other protocols it is the order of ids, which
 * are not told apart here. So nodes that lead are last: a node that begins to lead in the instant
 * in which another one ends is judged against it. The hash does not name the node whose turn it is,
 * but those that still have something to do; a node that has nothing to do in this instant is like
 * one whose turn is over.
 *
 * Clocks with different rates are not alike. Neither are processes of `anon` if the sequencer may
 * repeat a number: then the larger label wins. Nor if at-most-one-leader is judged, which `anon`
 * does not promise: a process may begin and end to lead within one turn, and another one that
 * begins in this instant would overlap with it only in its turn before. And if token-monotonic is
 * judged without at-most-one-leader, the order of two nodes that begin in one instant would matter.
 *
 * tests/property/prop_symmetry.c shows for small searches that worlds with one hash lead to worlds
 * with one hash, and that no hash of a search without this is missed. */
#ifndef CV_EXPLORE_SYMMETRY_H
#define CV_EXPLORE_SYMMETRY_H

#include "explore/world.h"

/* Scratch; each thread has its own. */
struct explore_symmetry {
    struct explore_world *at, *to;
    uint8_t *packed;
};

void explore_symmetry_init(struct explore_symmetry *symmetry, const struct explore_model *model);
void explore_symmetry_fini(struct explore_symmetry *symmetry);

/* The hash of a world that has settled. `first`: the first world of the search. */
uint64_t explore_symmetry_hash(struct explore_symmetry *symmetry, struct explore_model *model,
                               const struct explore_world *first,
                               const struct explore_world *world);

#endif
