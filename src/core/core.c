/* src/core/core.c - the public entry to any core: checks the arguments of an embedding program,
 * then calls the function in the protocol's table. */
#include "core/core.h"

#include "core/errors.h"
#include "core/nodeset.h"
#include "core/types.h"

#include <conclave/conclave.h>
#include <string.h>

const char *cv_version(void)
{
    return CV_VERSION;
}

static uint32_t effects_words(uint32_t member_count)
{
    CV_ASSERT(member_count <= CV_MEMBERS_MAX);
    return 4 * member_count + 64; /* a few lists with a value per member; sets are tiny */
}

/* A derived value may lie outside the range that a user may give. It is checked again when the
 * configuration is completed for another member, so derived options have a wider range. */
#define DERIVED_FACTOR 64

/* The first option that is out of range; NULL: there is none. */
static const struct cv_option *impossible_option(const struct cv_protocol *protocol,
                                                 const struct cv_config *config)
{
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        CV_ASSERT(at < CV_OPTIONS_MAX);
        const int64_t value = config->option[at];
        const bool is_derived = o->initial == CV_OPTION_DERIVED;
        if (o->kind == CV_OPTION_TEXT || value == o->initial) {
            continue;
        }
        const int64_t min = is_derived ? cv__min64(o->min, 1) : o->min;
        const int64_t max = is_derived ? DERIVED_FACTOR * o->max : o->max;
        if (value < min || value > max) {
            return o;
        }
    }
    return NULL;
}

int cv_core_configure(const struct cv_protocol *protocol, struct cv_config *config,
                      struct cv_errtext *reterr)
{
    if (protocol == NULL || config == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "a core needs a protocol and a configuration");
    }
    if (config->member_count < 1 || config->member_count > CV_MEMBERS_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "%u members: the number must be 1 to %u",
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
    const struct cv_option *impossible = impossible_option(protocol, config);
    if (impossible != NULL) {
        return cv__fail(reterr, CV_E_INVALID, "protocol '%s': option '%s' is out of range",
                        protocol->name, impossible->name);
    }
    return protocol->configure(config, reterr);
}

/* Has cv_core_configure() completed this configuration? If so, it passes again unchanged. */
static bool is_configured(const struct cv_protocol *protocol, const struct cv_config *config)
{
    if (protocol == NULL || config == NULL) {
        return false;
    }
    struct cv_config again = *config;
    if (cv_core_configure(protocol, &again, NULL) != CV_OK) {
        return false;
    }
    uint32_t at = 0;
    for (const struct cv_option *o = protocol->options; o->name != NULL; o++, at++) {
        if (config->option[at] == CV_OPTION_DERIVED) {
            return false;
        }
    }
    return true; /* the entries beyond belong to no option */
}

void cv__core_contract(const struct cv_protocol *protocol, const struct cv_config *config,
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

int cv_core_contract(const struct cv_protocol *protocol, const struct cv_config *config,
                     uint32_t *ret_promises, uint32_t *ret_assumes)
{
    if (ret_promises == NULL || ret_assumes == NULL || !is_configured(protocol, config)) {
        return CV_E_INVALID;
    }
    cv__core_contract(protocol, config, ret_promises, ret_assumes);
    return CV_OK;
}

size_t cv__core_size(const struct cv_protocol *protocol, const struct cv_config *config)
{
    CV_ASSERT(config->self >= 1); /* cv_core_configure() checked it */
    CV_ASSERT(config->self <= config->member_count);
    const size_t bytes = protocol->size(config);
    CV_ASSERT(bytes > 0);
    return bytes;
}

size_t cv_core_size(const struct cv_protocol *protocol, const struct cv_config *config)
{
    return is_configured(protocol, config) ? cv__core_size(protocol, config) : 0;
}

void cv__core_init(const struct cv_protocol *protocol, void *state, const struct cv_config *config)
{
    memset(state, 0,
           cv__core_size(protocol, config)); /* padding too: equal states have equal bytes */
    protocol->init(state, config);
}

int cv_core_init(const struct cv_protocol *protocol, void *state, const struct cv_config *config)
{
    if (state == NULL || !is_configured(protocol, config)) {
        return CV_E_INVALID;
    }
    cv__core_init(protocol, state, config);
    return CV_OK;
}

void cv__core_step(const struct cv_protocol *protocol, void *state, const struct cv_event *event,
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
    CV_ASSERT(out->note_count <= CV_NOTES_MAX);
    protocol->check(state);
}

/* Which member a core is, and of how many. A core that is anonymous or sends no messages has no
 * peers: `self` is CV_ID_NONE, and every id is in range. */
struct identity {
    cv_id self;
    uint32_t member_count;
};

static bool is_peer(struct identity core, cv_id peer)
{
    CV_ASSERT(core.member_count <= CV_MEMBERS_MAX);
    return peer >= 1 && peer <= core.member_count && peer != core.self;
}

static bool is_message_event(const struct cv_protocol *protocol, struct identity core,
                             const struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_MESSAGE);
    const bool is_sender =
        protocol->is_anonymous ? event->peer == CV_ID_NONE : is_peer(core, event->peer);
    return is_sender && event->delay_ns_max >= 0 &&
           cv__message_is_valid(protocol, core.member_count, event->message);
}

static bool is_store_event(const struct cv_event *event)
{
    CV_ASSERT(event->kind == CV_EVENT_STORE);
    return (uint32_t)event->verdict <= CV_STORE_CHANGED && event->duration_ns >= 0 &&
           (uint32_t)event->reason < CV_REASON_COUNT &&
           (event->request == 0) == (event->verdict == CV_STORE_CHANGED);
}

static bool is_event(const struct cv_protocol *protocol, struct identity core,
                     const struct cv_event *event)
{
    switch (event->kind) {
    case CV_EVENT_START:
        return event->persisted_count == 0 ||
               (event->persisted_count <= CV_PERSIST_WORDS_MAX && event->persisted != NULL);
    case CV_EVENT_MESSAGE:
        return is_message_event(protocol, core, event);
    case CV_EVENT_TIMER:
        return event->timer < CV_TIMERS_MAX;
    case CV_EVENT_PEER_DOWN:
        return is_peer(core, event->peer);
    case CV_EVENT_REPORT:
        return (uint32_t)event->input < CV_INPUT_COUNT;
    case CV_EVENT_RESIGN:
        return event->peer <= core.member_count;
    case CV_EVENT_CAMPAIGN:
    case CV_EVENT_PERSIST_FAILED:
        return true;
    case CV_EVENT_SEQUENCE:
        return event->sequence <= INT64_MAX || event->sequence == CV_SEQUENCE_NONE;
    case CV_EVENT_STORE:
        return is_store_event(event);
    }
    return false;
}

int cv_core_step(const struct cv_protocol *protocol, void *state, const struct cv_event *event,
                 struct cv_effects *out)
{
    if (out == NULL) {
        return CV_E_INVALID;
    }
    out->item_count = 0; /* so a host that ignores the returned code has no effects */
    out->word_count = 0;
    out->note_count = 0;
    if (protocol == NULL || state == NULL || event == NULL || out->item == NULL ||
        out->word == NULL || event->now_ns <= 0) {
        return CV_E_INVALID;
    }
    struct identity core = {CV_ID_NONE, CV_MEMBERS_MAX};
    if (protocol->identity != NULL) {
        protocol->identity(state, &core.self, &core.member_count);
        if (out->word_capacity < effects_words(core.member_count)) {
            return CV_E_INVALID;
        }
    }
    if (!is_event(protocol, core, event)) {
        return CV_E_INVALID;
    }
    cv__core_step(protocol, state, event, out);
    return CV_OK;
}

uint32_t cv_effects_words(const struct cv_config *config)
{
    return config != NULL && config->member_count <= CV_MEMBERS_MAX
               ? effects_words(config->member_count)
               : 0;
}
