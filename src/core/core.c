/* src/core/core.c - the public entry to any core: checks of what an embedder passes, then the
 * table. */
#include "core/errors.h"
#include "core/nodeset.h"
#include "core/types.h"

#include <conclave/conclave.h>
#include <string.h>

const char *cv_version(void)
{
    return CV_VERSION;
}

int cv_core_configure(const struct cv_protocol *protocol, struct cv_config *config,
                      struct cv_errtext *reterr)
{
    if (protocol == NULL || config == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "a core needs a protocol and a configuration");
    }
    if (config->member_count < 1 || config->member_count > CV_MEMBERS_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "%u members: there may be 1 to %u",
                        config->member_count, CV_MEMBERS_MAX);
    }
    if (config->self < 1 || config->self > config->member_count) {
        return cv__fail(reterr, CV_E_INVALID, "member %u is not one of 1 to %u", config->self,
                        config->member_count);
    }
    if (config->drift_ppb < 0 || config->drift_ppb >= 100000000) {
        return cv__fail(reterr, CV_E_INVALID, "drift bound %lld ppb is not within 0 to 10 %%",
                        (long long)config->drift_ppb);
    }
    return protocol->configure(config, reterr);
}

void cv_core_contract(const struct cv_protocol *protocol, const struct cv_config *config,
                      uint32_t *ret_promises, uint32_t *ret_assumes)
{
    *ret_promises = protocol->promises;
    *ret_assumes = protocol->assumes;
    if (protocol->contract != NULL) {
        protocol->contract(config, ret_promises, ret_assumes);
    }
    CV_ASSERT(*ret_promises < BIT(CV_PROPERTY_COUNT));
    CV_ASSERT(*ret_assumes < BIT(CV_ASSUME_COUNT));
}

size_t cv_core_size(const struct cv_protocol *protocol, const struct cv_config *config)
{
    return protocol->size(config);
}

void cv_core_init(const struct cv_protocol *protocol, void *state, const struct cv_config *config)
{
    memset(state, 0, protocol->size(config)); /* padding too: equal states have equal bytes */
    protocol->init(state, config);
}

void cv_core_step(const struct cv_protocol *protocol, void *state, const struct cv_event *event,
                  struct cv_effects *out)
{
    CV_ASSERT(event->now_ns > 0);
    CV_ASSERT(event->kind != CV_EVENT_MESSAGE || event->message != NULL);
    out->item_count = 0;
    out->word_count = 0;
    out->note_count = 0;
    protocol->step(state, event, out);
    CV_ASSERT(out->item_count <= CV_EFFECTS_MAX);
    CV_ASSERT(out->word_count <= out->word_capacity);
    protocol->check(state);
}

uint32_t cv_effects_words(const struct cv_config *config)
{
    return 4 * config->member_count + 64; /* sets are tiny; a few vectors of a value per member */
}
