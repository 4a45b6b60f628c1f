/* src/runtime/multicast_backend.c - elections of the public header in a multicast group.
 *
 * Processes do not know each other's names. Each is known by its random label, written as sixteen
 * hexadecimal digits. A leader cannot be asked to resign, because there is no record for the
 * request, and it cannot choose its successor. */
#include "core/errors.h"
#include "core/types.h"
#include "runtime/backend.h"
#include "runtime/multicast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOODBYES 3u     /* a resignation is sent this often before we go: datagrams are lost */
#define LABEL_BYTES 20u /* sixteen digits, and the final zero */

struct cv_backend {
    struct cv_backend_setting setting; /* its texts are not used after open() */
    struct cv_participant *participant;
    char self[LABEL_BYTES];
    bool is_leading;
    bool is_leaving;      /* it led and resigned; the others may not have heard of it */
    uint64_t sent_before; /* messages, when it began to leave */

    void (*closed)(void *user);
    void *closed_user;
};

/* ---- Reports to the application -------------------------------------------------------------- */

static void label_write(char ret_text[LABEL_BYTES], uint64_t label)
{
    (void)snprintf(ret_text, LABEL_BYTES, "%016" PRIx64, label);
}

static void on_leadership(void *self, const struct cv_leadership *leadership)
{
    struct cv_backend *b = self;
    char leader[LABEL_BYTES] = "";
    if (leadership->leader != CV_ID_NONE) {
        label_write(leader, leadership->label);
    }
    b->is_leading = leadership->is_self;
    b->is_leaving = b->is_leaving && !leadership->is_self;
    b->setting.told(b->setting.user, leadership, leader, /* is_free= */ false);
}

static void on_trouble(void *self, const char *line)
{
    const struct cv_backend *b = self;
    b->setting.log(b->setting.user, line);
}

/* One line at the end: what was dropped, and what the sequencer did wrong; nothing if all is
 * well. */
static void log_counts(const struct cv_backend *b)
{
    const struct cv_sequencer_counts none = {0};
    const struct cv_sequencer_counts *sequencer = cv__participant_sequencer(b->participant);
    sequencer = sequencer != NULL ? sequencer : &none;
    const uint64_t wrong = sequencer->refused + sequencer->strange;
    /* A request that is still open counts as silent: it has no answer. */
    const uint64_t silent = sequencer->asked - sequencer->answered - wrong;
    const uint64_t malformed = cv__host_counts(cv__participant_host(b->participant))->malformed;
    uint64_t dropped = 0;
    for (enum cv_frame_fate fate = CV_FRAME_FOREIGN; fate < CV_FRAME_FATE_COUNT; fate++) {
        dropped += cv__participant_frames(b->participant, fate);
    }
    if (dropped + malformed + wrong + silent == 0) {
        return;
    }
    char line[CV_ERRTEXT_BYTES];
    (void)snprintf(line, sizeof line,
                   "dropped %" PRIu64 " foreign, %" PRIu64 " of another version, %" PRIu64
                   " damaged, %" PRIu64 " replayed, %" PRIu64 " malformed; sequencer: %" PRIu64
                   " refused, %" PRIu64 " silent, %" PRIu64 " strange",
                   cv__participant_frames(b->participant, CV_FRAME_FOREIGN),
                   cv__participant_frames(b->participant, CV_FRAME_VERSION),
                   cv__participant_frames(b->participant, CV_FRAME_DAMAGED),
                   cv__participant_frames(b->participant, CV_FRAME_REPLAYED), malformed,
                   sequencer->refused, silent, sequencer->strange);
    b->setting.log(b->setting.user, line);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static const char scheme[] = "multicast";

static const char *group_scheme_at(uint32_t index)
{
    return index == 0 ? scheme : NULL;
}

static bool group_serves(const char *address)
{
    const size_t length = sizeof scheme - 1;
    return strncmp(address, scheme, length) == 0 && address[length] == ':';
}

static int group_contract(const char *address, struct cv_backend_contract *ret_contract,
                          struct cv_errtext *reterr)
{
    *ret_contract = (struct cv_backend_contract){
        .words = "in a multicast group there may be two leaders for a moment",
        .has_lease = false,
    };
    return cv__participant_contract(address, &ret_contract->promises, &ret_contract->assumes,
                                    reterr);
}

static int group_open(struct cv_backend **ret_backend, const struct cv_backend_setting *setting,
                      struct cv_errtext *reterr)
{
    struct cv_backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    b->setting = *setting;
    const struct cv_participant_told told = {.self = b,
                                             .leadership = on_leadership,
                                             .trouble = on_trouble,
                                             .recorder = setting->recorder};
    const int code = cv__participant_open(setting->loop, setting->timers, setting->election,
                                          setting->address, &told, &b->participant, reterr);
    if (code != CV_OK) {
        free(b);
        return code;
    }
    label_write(b->self, cv__host_nonce(cv__participant_host(b->participant)));
    if (!setting->is_candidate) {
        cv__host_campaign(cv__participant_host(b->participant), /* is_candidate= */ false);
    }
    *ret_backend = b;
    return CV_OK;
}

static void on_participant_closed(void *data)
{
    struct cv_backend *b = data;
    void (*closed)(void *user) = b->closed;
    void *user = b->closed_user;
    free(b);
    closed(user);
}

static void group_close(struct cv_backend *b, void (*closed)(void *user), void *user)
{
    log_counts(b);
    b->closed = closed;
    b->closed_user = user;
    cv__participant_close(b->participant, on_participant_closed, b);
}

static const char *group_self(const struct cv_backend *b)
{
    return b->self;
}

/* ---- Requests of the application ------------------------------------------------------------- */

static uint64_t sent(const struct cv_backend *b)
{
    return cv__host_counts(cv__participant_host(b->participant))->sent;
}

static void leave_begin(struct cv_backend *b)
{
    if (b->is_leading) {
        b->is_leaving = true;
        b->sent_before = sent(b);
    }
}

static void group_campaign(struct cv_backend *b, bool is_candidate)
{
    if (!is_candidate) {
        leave_begin(b);
    }
    cv__host_campaign(cv__participant_host(b->participant), is_candidate);
}

static void group_resign(struct cv_backend *b, const char *heir, enum cv_reason why)
{
    (void)why;  /* the others hear only that it is gone */
    (void)heir; /* nobody has a name here */
    leave_begin(b);
    cv__host_resign(cv__participant_host(b->participant), CV_ID_NONE);
}

static void group_request_resign(struct cv_backend *b, const char *heir)
{
    (void)heir;
    b->setting.log(b->setting.user, "the leader of a multicast group cannot be asked to resign");
}

static void group_report(struct cv_backend *b, enum cv_input input, int64_t value)
{
    cv__host_report(cv__participant_host(b->participant), input, value);
}

static bool group_is_released(const struct cv_backend *b)
{
    return !b->is_leaving || sent(b) - b->sent_before >= GOODBYES;
}

static int group_inherit(struct cv_backend *b)
{
    (void)b;
    return -1;
}

const struct cv_backend_kind cv__backend_multicast = {
    .scheme_at = group_scheme_at,
    .serves = group_serves,
    .contract = group_contract,
    .open = group_open,
    .self = group_self,
    .campaign = group_campaign,
    .resign = group_resign,
    .request_resign = group_request_resign,
    .report = group_report,
    .is_released = group_is_released,
    .inherit = group_inherit,
    .close = group_close,
};
