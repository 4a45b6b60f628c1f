/* fuzz/fuzz.h - shared by the fuzz targets: an input of lines, a clock of their own, and a store
 * that gets the requests of the input and whose answers are checked.
 *
 * Inputs of targets that run step by step are text, one step in each line: a person can read a
 * finding, and the fuzzer's dictionaries fit. Between fuzz_clock_start() and fuzz_clock_stop()
 * every clock of the process, except the wall clock, shows the target's own time, so that an hour
 * passes in no time and a run can be repeated. */
#ifndef CV_FUZZ_FUZZ_H
#define CV_FUZZ_FUZZ_H

#include "stores/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the target if there is no memory. */
void *fuzz_must(void *memory);
/* Reports a finding and ends the target. */
_Noreturn void fuzz_found(const char *what);

struct fuzz_input {
    const uint8_t *at;
    size_t bytes;
};
uint8_t fuzz_byte(struct fuzz_input *in);                         /* 0: nothing is left */
uint64_t fuzz_number(struct fuzz_input *in, uint32_t byte_count); /* little endian */
char *fuzz_line(struct fuzz_input *in);                           /* NULL: nothing is left */
char *fuzz_rest(struct fuzz_input *in);                           /* as a string */

void fuzz_clock_start(void);
void fuzz_clock_pass_ms(int64_t ms);
void fuzz_clock_stop(void);

/* A file with that content; the path is the same each time. */
const char *fuzz_file(const char *name, const void *bytes, size_t byte_count);

/* ---- A store ------------------------------------------------------------------------------- */

/* The table of the module that the target is linked with. */
const void *cv_module_table(void);

/* Two elections of one loop. Steps, by the first letter of a line:
 *   a acquire   n the same with a new attempt   r renew   f [HEIR] release   g read
 *   q [HEIR] ask to resign   u read runs   w [TEXT] write runs
 *   s switch to the other election   c close this one   t MS let time pass
 * All others are for the target. After each step the loop turns. */
struct fuzz_story {
    const struct cv_store_kind *kind;
    const char *address;
    void (*step)(const char *line); /* of the target; it may keep the text until the next step */
    int64_t turn_ms;                /* that pass with each run of the loop */
};
/* For a store's history and names: checks that each text ends and is not empty. */
void fuzz_on_past(void *user, const struct cv_store_past *past);
void fuzz_on_name(void *user, const char *name);
void fuzz_story_tell(const struct fuzz_story *story, const uint8_t *data, size_t size);
uv_loop_t *fuzz_loop(void);

#endif
