/* src/explore/checkpoint.c - saves and restores a search; see checkpoint.h. */
#include "explore/checkpoint.h"

#include "core/errors.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define LINE_BYTES 1024

/* Everything that the worlds of a search depend on. */
static void name_search(const struct explore_model *model, char *ret_line)
{
    size_t length =
        (size_t)snprintf(ret_line, LINE_BYTES,
                         "conclave explore 4: %s n=%u judged=%x%s delay=%lld..%lld horizon=%lld "
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
                 fread(&state->is_beyond, sizeof state->is_beyond, 1, in) == 1;
    for (uint32_t i = 0; is_ok && i < EXPLORE_SHARDS; i++) {
        is_ok = read_shard(&state->visited, i, in, steps);
    }
    return is_ok && explore_queue_read(&state->level, in) && explore_queue_read(&state->next, in);
}

int explore_checkpoint_read(const struct explore_model *model, struct explore_state *state,
                            const char *path, struct cv_errtext *reterr)
{
    char wanted[LINE_BYTES];
    char line[LINE_BYTES] = "";
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
    name_search(model, wanted);
    const bool is_same = fread(line, sizeof line, 1, in) == 1 && memchr(line, 0, sizeof line) &&
                         strcmp(line, wanted) == 0;
    const bool is_read = is_same && read_state(state, in, steps);
    (void)fclose(in);
    (void)fclose(steps);
    if (!is_same) {
        return cv__fail(reterr, CV_E_MALFORMED, "'%s' belongs to another search", path);
    }
    return is_read ? CV_OK : cv__fail(reterr, CV_E_MALFORMED, "'%s' ends too early", path);
}

int explore_checkpoint_write(const struct explore_model *model, struct explore_state *state,
                             const char *path, struct cv_errtext *reterr)
{
    char line[LINE_BYTES] = "";
    char other[PATH_MAX];
    name_search(model, line);
    if (snprintf(other, sizeof other, "%s.new", path) >= (int)sizeof other) {
        return cv__fail(reterr, CV_E_STORE, "cannot write '%s': its name is too long", path);
    }
    FILE *out = fopen(other, "wb");
    bool is_ok = out != NULL && fwrite(line, sizeof line, 1, out) == 1 &&
                 fwrite(&state->depth, sizeof state->depth, 1, out) == 1 &&
                 fwrite(&state->transitions, sizeof state->transitions, 1, out) == 1 &&
                 fwrite(&state->earlier_s, sizeof state->earlier_s, 1, out) == 1 &&
                 fwrite(&state->is_beyond, sizeof state->is_beyond, 1, out) == 1 &&
                 write_visited(&state->visited, out) &&
                 explore_queue_write(&state->level, &state->spool, out) &&
                 explore_queue_write(&state->next, &state->spool, out);
    is_ok = (out == NULL || fclose(out) == 0) && is_ok;
    if (!is_ok || rename(other, path) != 0) {
        return cv__fail(reterr, CV_E_STORE, "cannot write '%s': %s", path, strerror(errno));
    }
    return CV_OK;
}
