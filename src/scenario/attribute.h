/* src/scenario/attribute.h - attributes of links, the sequencer, the store and messages.
 *
 * An attribute is one row of a table: its word, how its value is read and written, and where it is
 * stored. Reading, writing and the hints of errors all use the same row. */
#ifndef CV_SCENARIO_ATTRIBUTE_H
#define CV_SCENARIO_ATTRIBUTE_H

#include "scenario/parse.h"

struct sim_attribute_table;
extern const struct sim_attribute_table sim_link_attributes;      /* of a sim_link_change */
extern const struct sim_attribute_table sim_sequencer_attributes; /* of a sim_sequencer_change */
extern const struct sim_attribute_table sim_store_attributes;     /* of a sim_store_change */
extern const struct sim_attribute_table sim_pick_attributes;      /* of a sim_pick */

/* Reads attributes up to `for` or the end of the line into `change`, and adds their bits to *mask.
 * The first that the table does not have is an error whose hint also lists the table's verbs. */
CV_NODISCARD int sim_attributes_parse(struct sim_parser *p, const struct sim_attribute_table *table,
                                      void *change, uint32_t *mask);
/* Writes the attributes whose bits are set. */
void sim_attributes_print(const struct sim_attribute_table *table, const void *change,
                          uint32_t mask, FILE *out);

/* Takes the next word if it is a verb of the table; returns its number; 0: it is not one. */
uint32_t sim_verb_take(struct sim_parser *p, const struct sim_attribute_table *table);
const char *sim_verb_name(const struct sim_attribute_table *table, uint32_t verb);

/* Values that actions use too: [random] 80ppm or 1/11; a time; a share. Writing begins with a
 * blank. */
CV_NODISCARD int sim_parse_drift(struct sim_parser *p, struct sim_drift *ret_drift);
void sim_print_drift(const struct sim_drift *drift, FILE *out);
void sim_print_time(int64_t ns, FILE *out);
void sim_print_share(int64_t ppb, FILE *out);

#endif
