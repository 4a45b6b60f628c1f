/* src/oracles/vector.c - several scores in their order of importance [Becker11, sec. 5].
 *
 * "latency/10ms,history": truncates latencies to classes of 10 ms; among the processes of the
 * lowest class, the one with the longest history leads: the fattest of the fastest. */
#include "core/duration.h"
#include "core/errors.h"
#include "oracles/oracle.h"

#include <string.h>

/* Reads the range after the '/', up to the end of the part. */
static int parse_range(const struct cv_oracle *oracle, const char *text, size_t length,
                       int64_t *ret_range, struct cv_errtext *reterr)
{
    char word[CV_DURATION_TEXT_BYTES];
    int64_t value = 0;
    bool is_ok = length > 0 && length < sizeof word;
    if (is_ok) {
        memcpy(word, text, length);
        word[length] = '\0';
        if (oracle->is_time) {
            is_ok = cv__duration_parse(word, &value);
        }
        for (size_t i = 0; i < length && is_ok && !oracle->is_time; i++) {
            is_ok = word[i] >= '0' && word[i] <= '9' && value < CV_SCORE_MAX / 10;
            value = is_ok ? value * 10 + (word[i] - '0') : 0;
        }
    }
    if (!is_ok || value < 1) {
        return cv__fail(reterr, CV_E_INVALID, "the range of '%s' is not %s", oracle->name,
                        oracle->is_time ? "a time like 10ms" : "a whole number above 0");
    }
    CV_ASSERT(value >= 1);
    *ret_range = value;
    return CV_OK;
}

static const struct cv_oracle *part_of(const struct cv_scoring *scoring, uint32_t part)
{
    CV_ASSERT(part < scoring->part_count);
    const uint32_t index = scoring->oracle[part];
    CV_ASSERT(index < cv__oracle_count() || scoring->own != NULL);
    return index < cv__oracle_count() ? cv_oracle_at(index)
                                      : scoring->own[index - cv__oracle_count()];
}

static const struct cv_oracle *own_named(const struct cv_config *config, const char *name,
                                         size_t length, uint32_t *ret_index)
{
    for (uint32_t i = 0; config != NULL && i < config->oracle_count; i++) {
        const struct cv_oracle *oracle = config->oracles[i];
        if (strlen(oracle->name) == length && memcmp(oracle->name, name, length) == 0) {
            *ret_index = cv__oracle_count() + i;
            return oracle;
        }
    }
    return NULL;
}

int cv__scoring_parse(const char *text, const struct cv_config *config,
                      struct cv_scoring *ret_scoring, struct cv_errtext *reterr)
{
    memset(ret_scoring, 0, sizeof *ret_scoring);
    for (const char *at = text;;) {
        const char *comma = strchr(at, ',');
        const size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        const char *slash = strchr(at, '/');
        /* it belongs to a later part */
        slash = slash != NULL && slash < at + length ? slash : NULL;
        const size_t name_length = slash != NULL ? (size_t)(slash - at) : length;
        if (ret_scoring->part_count == CV_SCORE_PARTS_MAX) {
            return cv__fail(reterr, CV_E_INVALID, "'%s' has more than %u scores", text,
                            CV_SCORE_PARTS_MAX);
        }
        const uint32_t part = ret_scoring->part_count++;
        const struct cv_oracle *oracle =
            cv__oracle_named(at, name_length, &ret_scoring->oracle[part]);
        if (oracle == NULL) {
            oracle = own_named(config, at, name_length, &ret_scoring->oracle[part]);
            ret_scoring->own = oracle != NULL ? config->oracles : ret_scoring->own;
        }
        if (oracle == NULL) {
            return cv__fail(reterr, CV_E_UNKNOWN,
                            "no oracle '%.*s' in '%s'; write it like latency/10ms,history",
                            (int)name_length, at, text);
        }
        ret_scoring->range[part] = 1;
        if (slash != NULL) {
            const int error = parse_range(oracle, slash + 1, length - name_length - 1,
                                          &ret_scoring->range[part], reterr);
            if (error != CV_OK) {
                return error;
            }
        }
        if (comma == NULL) {
            return CV_OK;
        }
        at = comma + 1;
    }
}

bool cv__scoring_needs_peers(const struct cv_scoring *scoring)
{
    CV_ASSERT(scoring->part_count >= 1);
    bool needs = false;
    for (uint32_t i = 0; i < scoring->part_count; i++) {
        needs = needs || part_of(scoring, i)->needs_peers;
    }
    return needs;
}

void cv__scoring_score(const struct cv_scoring *scoring, const struct cv_oracle_view *view,
                       struct cv_score *ret_score)
{
    CV_ASSERT(scoring->part_count >= 1 && scoring->part_count <= CV_SCORE_PARTS_MAX);
    memset(ret_score, 0, sizeof *ret_score);
    for (uint32_t i = 0; i < scoring->part_count; i++) {
        int64_t score = part_of(scoring, i)->score(view);
        /* an embedder's function may return any number */
        if (scoring->oracle[i] >= cv__oracle_count()) {
            score = cv__min64(cv__max64(score, CV_SCORE_UNKNOWN), CV_SCORE_MAX);
        }
        CV_ASSERT(score >= CV_SCORE_UNKNOWN && score <= CV_SCORE_MAX);
        CV_ASSERT(scoring->range[i] >= 1);
        ret_score->part[i] = score < 0 ? score : score / scoring->range[i];
    }
}

static int compare_part(const struct cv_scoring *scoring, uint32_t part, int64_t a, int64_t b)
{
    CV_ASSERT(a >= CV_SCORE_UNKNOWN);
    CV_ASSERT(b >= CV_SCORE_UNKNOWN);
    if (a == b) {
        return 0;
    }
    if (a < 0 || b < 0) {
        return a < 0 ? -1 : 1; /* an unknown score is worse than any known one */
    }
    const bool higher_wins = part_of(scoring, part)->order == CV_SCORE_HIGHER_WINS;
    return (a > b) == higher_wins ? 1 : -1;
}

int cv__scoring_compare(const struct cv_scoring *scoring, const struct cv_score *a,
                        const struct cv_score *b)
{
    CV_ASSERT(scoring->part_count >= 1);
    CV_ASSERT(scoring->part_count <= CV_SCORE_PARTS_MAX);
    for (uint32_t i = 0; i < scoring->part_count; i++) {
        const int order = compare_part(scoring, i, a->part[i], b->part[i]);
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

bool cv__scoring_is_better_by(const struct cv_scoring *scoring, const struct cv_score *other,
                              const struct cv_score *own, int64_t percent)
{
    CV_ASSERT(percent >= 0);
    CV_ASSERT(scoring->part_count >= 1);
    const int64_t a = other->part[0];
    const int64_t b = own->part[0];
    if (compare_part(scoring, 0, a, b) <= 0) {
        return false;
    }
    if (b < 0) {
        return true;
    }
    const __int128 margin = (__int128)b * percent;
    return part_of(scoring, 0)->order == CV_SCORE_HIGHER_WINS
               ? (__int128)a * 100 >= (__int128)b * 100 + margin
               : (__int128)a * 100 <= (__int128)b * 100 - margin;
}
