/* src/oracles/own.c - checks the oracles of an embedding program.
 *
 * A core asserts nothing about them: a wrong table is refused with a reason, and a score outside
 * its range counts as the nearest one inside (vector.c). */
#include "core/errors.h"
#include "oracles/oracle.h"

#include <string.h>

static bool is_name(const char *name)
{
    size_t length = 0;
    for (; name[length] != '\0'; length++) {
        const char c = name[length];
        const bool is_ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        if (!is_ok || length + 1 >= CV_ORACLE_NAME_BYTES) {
            return false;
        }
    }
    return length > 0;
}

static int check_one(const struct cv_config *config, uint32_t at, struct cv_errtext *reterr)
{
    const struct cv_oracle *oracle = config->oracles[at];
    if (oracle == NULL || oracle->name == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "own oracle %u has no %s", at,
                        oracle == NULL ? "table" : "name");
    }
    if (!is_name(oracle->name)) {
        return cv__fail(reterr, CV_E_INVALID,
                        "own oracle %u: a name has up to %d characters of a-z, 0-9 and '-'", at,
                        CV_ORACLE_NAME_BYTES - 1);
    }
    if (oracle->score == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "own oracle '%s' has no function", oracle->name);
    }
    if (oracle->order != CV_SCORE_HIGHER_WINS && oracle->order != CV_SCORE_LOWER_WINS) {
        return cv__fail(reterr, CV_E_INVALID,
                        "own oracle '%s': its order is neither higher wins nor lower wins",
                        oracle->name);
    }
    if (cv_oracle_find(oracle->name) != NULL) {
        return cv__fail(reterr, CV_E_INVALID, "own oracle '%s': a built-in oracle has this name",
                        oracle->name);
    }
    for (uint32_t i = 0; i < at; i++) {
        if (strcmp(config->oracles[i]->name, oracle->name) == 0) {
            return cv__fail(reterr, CV_E_INVALID, "own oracle '%s' is given twice", oracle->name);
        }
    }
    return CV_OK;
}

int cv__oracles_check(const struct cv_config *config, struct cv_errtext *reterr)
{
    if (config->oracle_count > CV_ORACLES_OWN_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "%u own oracles: at most %u are allowed",
                        config->oracle_count, CV_ORACLES_OWN_MAX);
    }
    if (config->oracle_count > 0 && config->oracles == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "%u own oracles, but no table of them",
                        config->oracle_count);
    }
    int error = CV_OK;
    for (uint32_t i = 0; i < config->oracle_count && error == CV_OK; i++) {
        error = check_one(config, i, reterr);
    }
    return error;
}
