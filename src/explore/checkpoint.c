/* src/explore/checkpoint.c - saves and restores a search; see checkpoint.h. */
#include "explore/checkpoint.h"

#include "base/memory.h"
#include "core/errors.h"
#include "explore/pack.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define BEGINNING "conclave explore 6: "
#define LINE_BYTES 1024
#define HASHED_BYTES (1u << 16) /* at a time */

/* Everything that the worlds of a search depend on. */
static void name_search(const struct explore_model *model, char *ret_line)
{
    size_t length =
        (size_t)snprintf(ret_line, LINE_BYTES,
                         BEGINNING "%s n=%u judged=%x%s delay=%lld..%lld horizon=%lld "
                                   "bytes=%zu+%zu core=%zu",
                         model->protocol->name, model->node_count, model->judged,
                         model->judges_liveness ? " settle" : "", (long long)model->delay_min_ns,
                         (long long)model->delay_max_ns, (long long)model->horizon_ns,
                         model->fixed_bytes, model->message_bytes, model->core_bytes);
    for (uint32_t i = 0; i < EXPLORE_BUDGET_COUNT; i++) {
        length += (size_t)snprintf(ret_line + length, LINE_BYTES - length, " %u", model->budget[i]);
    }
    for (uint32_t i = 0; i < EXPLORE_CLOCKS; i++) {
        length += (size_t)snprintf(ret_line + length, LINE_BYTES - length, " %lld",
                                   (long long)model->period_ns[i]);
    }
    for (uint32_t i = 0; model->protocol->options[i].name != NULL; i++) {
        length += (size_t)snprintf(ret_line + length, LINE_BYTES - length, " %lld",
                                   (long long)model->config[0].option[i]);
    }
    CV_ASSERT(length < LINE_BYTES - 1);
}

/* The hash of the next `count` bytes; false: there are fewer. */
static bool hash_bytes(FILE *in, uint64_t count, uint64_t *ret_hash)
{
    uint8_t *bytes = cv__allocate(1, HASHED_BYTES);
    uint64_t hash = 0;
    uint64_t left = count;
    while (left > 0) {
        const size_t wanted = left < HASHED_BYTES ? (size_t)left : HASHED_BYTES;
        if (fread(bytes, 1, wanted, in) != wanted) {
            break;
        }
        hash = explore_hash_word(explore_hash(bytes, wanted) ^ hash, left);
        left -= wanted;
    }
    free(bytes);
    *ret_hash = hash;
    return left == 0;
}

/* The hash of all but the last word, which is where it is kept. */
static bool hash_file(FILE *file, uint64_t *ret_hash)
{
    const long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    return end >= (long)sizeof *ret_hash && fseek(file, 0, SEEK_SET) == 0 &&
           hash_bytes(file, (uint64_t)end - sizeof *ret_hash, ret_hash);
}

/* A search of another version of the cores must not continue this one. 0: not known. */
static uint64_t program_hash(void)
{
    uint64_t hash = 0;
    FILE *program = fopen("/proc/self/exe", "rb");
    if (program != NULL) {
        const long end = fseek(program, 0, SEEK_END) == 0 ? ftell(program) : -1;
        if (end < 0 || fseek(program, 0, SEEK_SET) != 0 ||
            !hash_bytes(program, (uint64_t)end, &hash)) {
            hash = 0;
        }
        (void)fclose(program);
    }
    return hash;
}

static bool write_visited(const struct explore_visited *v, FILE *out)
{
    bool is_ok = true;
    for (uint32_t i = 0; is_ok && i < EXPLORE_SHARDS; i++) {
        const struct explore_shard *s = &v->shard[i];
        is_ok = fwrite(&s->count, sizeof s->count, 1, out) == 1 &&
                fwrite(s->hash, sizeof *s->hash, s->count, out) == s->count &&
                fwrite(s->step, sizeof *s->step, s->count, out) == s->count;
    }
    return is_ok;
}

static bool read_shard(struct explore_visited *v, uint32_t shard, FILE *in, FILE *steps)
{
    uint32_t count;
    if (fread(&count, sizeof count, 1, in) != 1) {
        return false;
    }
    const long at = ftell(in);
    bool is_ok = at >= 0 && fseek(steps, at + (long)(count * sizeof(uint64_t)), SEEK_SET) == 0;
    for (uint32_t i = 0; is_ok && i < count; i++) {
        uint64_t hash;
        struct explore_step step;
        is_ok = fread(&hash, sizeof hash, 1, in) == 1 && fread(&step, sizeof step, 1, steps) == 1;
        if (is_ok) {
            explore_visited_restore(v, shard, hash, &step);
        }
    }
    return is_ok && fseek(in, ftell(steps), SEEK_SET) == 0;
}

/* Both are open on the same file, because hashes and steps are read in parallel. */
static bool read_state(struct explore_state *state, FILE *in, FILE *steps)
{
    bool is_ok = fread(&state->depth, sizeof state->depth, 1, in) == 1 &&
                 fread(&state->transitions, sizeof state->transitions, 1, in) == 1 &&
                 fread(&state->earlier_s, sizeof state->earlier_s, 1, in) == 1 &&
                 fread(&state->is_beyond, sizeof state->is_beyond, 1, in) == 1 &&
                 fread(&state->spent, sizeof state->spent, 1, in) == 1 &&
                 fread(&state->end, sizeof state->end, 1, in) == 1;
    for (uint32_t i = 0; is_ok && i < EXPLORE_SHARDS; i++) {
        is_ok = read_shard(&state->visited, i, in, steps);
    }
    return is_ok && explore_queue_read(&state->level, in) && explore_queue_read(&state->next, in);
}

/* What is wrong with the beginning of a file; NULL: nothing. */
static const char *wrong_beginning(const struct explore_model *model, FILE *in)
{
    char wanted[LINE_BYTES];
    char line[LINE_BYTES] = "";
    uint64_t program;
    name_search(model, wanted);
    if (fread(line, sizeof line, 1, in) != 1 || fread(&program, sizeof program, 1, in) != 1 ||
        memchr(line, 0, sizeof line) == NULL || strncmp(line, BEGINNING, strlen(BEGINNING)) != 0) {
        return "is not a search saved by this version of conclave explore";
    }
    if (strcmp(line, wanted) != 0) {
        return "belongs to another search";
    }
    return program == program_hash()
               ? NULL
               : "was saved by another build of this program, and cannot be continued by this one";
}

static bool is_whole(FILE *in)
{
    const long at = ftell(in);
    uint64_t hash;
    uint64_t kept;
    return at >= 0 && hash_file(in, &hash) && fread(&kept, sizeof kept, 1, in) == 1 &&
           kept == hash && fseek(in, at, SEEK_SET) == 0;
}

int explore_checkpoint_read(const struct explore_model *model, struct explore_state *state,
                            const char *path, struct cv_errtext *reterr)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL && errno == ENOENT) {
        return CV_OK;
    }
    FILE *steps = in != NULL ? fopen(path, "rb") : NULL;
    if (steps == NULL) {
        if (in != NULL) {
            (void)fclose(in);
        }
        return cv__fail(reterr, CV_E_STORE, "cannot read '%s': %s", path, strerror(errno));
    }
    const char *wrong = wrong_beginning(model, in);
    if (wrong == NULL && !(is_whole(in) && read_state(state, in, steps))) {
        wrong = "is damaged and cannot be continued";
    }
    (void)fclose(in);
    (void)fclose(steps);
    return wrong == NULL
               ? CV_OK
               : cv__fail(reterr, CV_E_MALFORMED, "'%s' %s; delete it to begin again", path, wrong);
}

static bool write_all(const struct explore_model *model, struct explore_state *state, FILE *out)
{
    char line[LINE_BYTES] = "";
    const uint64_t program = program_hash();
    uint64_t hash = 0;
    name_search(model, line);
    return fwrite(line, sizeof line, 1, out) == 1 &&
           fwrite(&program, sizeof program, 1, out) == 1 &&
           fwrite(&state->depth, sizeof state->depth, 1, out) == 1 &&
           fwrite(&state->transitions, sizeof state->transitions, 1, out) == 1 &&
           fwrite(&state->earlier_s, sizeof state->earlier_s, 1, out) == 1 &&
           fwrite(&state->is_beyond, sizeof state->is_beyond, 1, out) == 1 &&
           fwrite(&state->spent, sizeof state->spent, 1, out) == 1 &&
           fwrite(&state->end, sizeof state->end, 1, out) == 1 &&
           write_visited(&state->visited, out) &&
           explore_queue_write(&state->level, &state->spool, out) &&
           explore_queue_write(&state->next, &state->spool, out) &&
           fwrite(&hash, sizeof hash, 1, out) == 1 && hash_file(out, &hash) &&
           fseek(out, -(long)sizeof hash, SEEK_END) == 0 && fwrite(&hash, sizeof hash, 1, out) == 1;
}

int explore_checkpoint_write(const struct explore_model *model, struct explore_state *state,
                             const char *path, struct cv_errtext *reterr)
{
    char other[PATH_MAX];
    if (snprintf(other, sizeof other, "%s.new", path) >= (int)sizeof other) {
        return cv__fail(reterr, CV_E_STORE, "cannot write '%s': its name is too long", path);
    }
    FILE *out = fopen(other, "w+b");
    bool is_ok = out != NULL && write_all(model, state, out);
    is_ok = (out == NULL || fclose(out) == 0) && is_ok;
    if (!is_ok || rename(other, path) != 0) {
        const int why = errno;
        (void)remove(other); /* if it was created: it is not complete */
        return cv__fail(reterr, CV_E_STORE, "cannot write '%s': %s", path, strerror(why));
    }
    return CV_OK;
}
