/* src/cli/tracing.c - see tracing.h. */
#include "cli/tracing.h"

#include "core/errors.h"
#include "os/clock.h"

#include <errno.h>
#include <string.h>

static void on_began(void *self, const struct cv_protocol *protocol, const struct cv_config *config,
                     uint64_t label)
{
    struct cv_tracing *t = self;
    t->trace.protocol = protocol;
    const struct cv_trace_header header = {
        .scenario = t->election,
        .config = config,
        .node_count = config->member_count,
        .self = config->self,
        .label = label,
        .began_ns = t->began_ns,
    };
    cv__trace_header(&t->trace, &header);
}

/* An event from outside, in the form of a line of a scenario. */
static void write_action(struct cv_tracing *t, const struct cv_record *r)
{
    char detail[96];
    const double at_s = (double)r->at_ns / 1e9;
    switch ((enum cv_event_kind)r->what) {
    case CV_EVENT_RESIGN:
        (void)snprintf(detail, sizeof detail, "at %.6fs resign %u", at_s, r->node);
        break;
    case CV_EVENT_CAMPAIGN:
        (void)snprintf(detail, sizeof detail, "at %.6fs campaign %u %s", at_s, r->node,
                       r->number != 0 ? "on" : "off");
        break;
    case CV_EVENT_PEER_DOWN:
        (void)snprintf(detail, sizeof detail, "at %.6fs told %u that %u is down", at_s, r->node,
                       r->peer);
        break;
    default:
        (void)snprintf(detail, sizeof detail, "at %.6fs report %u", at_s, r->node);
        break;
    }
    cv__trace_add(&t->trace, r, detail);
}

/* Times of a trace begin at 0. */
static void on_record(void *self, const struct cv_record *record)
{
    struct cv_tracing *t = self;
    struct cv_record r = *record;
    const bool has_instant =
        r.kind == CV_RECORD_BELIEF || r.kind == CV_RECORD_RENEW || r.kind == CV_RECORD_NOTE;
    r.at_ns -= t->began_ns;
    r.bound_ns -= has_instant && r.bound_ns != 0 ? t->began_ns : 0;
    if (r.kind == CV_RECORD_ACTION) {
        write_action(t, &r);
    } else {
        cv__trace_add(&t->trace, &r, NULL);
    }
}

int cv__tracing_open(struct cv_tracing *t, const char *path, const char *election,
                     struct cv_errtext *reterr)
{
    *t = (struct cv_tracing){
        .recorder = {.self = t, .began = on_began, .observe = on_record},
        .path = path,
        .election = election,
        .began_ns = cv__clock_now_ns(),
    };
    t->trace.file = fopen(path, "we");
    if (t->trace.file == NULL) {
        return cv__fail(reterr, CV_E_IO, "cannot write '%s': %s", path, strerror(errno));
    }
    /* A process that is killed leaves whole lines. */
    (void)setvbuf(t->trace.file, NULL, _IOLBF, BUFSIZ);
    return CV_OK;
}

int cv__tracing_close(struct cv_tracing *t, struct cv_errtext *reterr)
{
    const bool has_failed = ferror(t->trace.file) != 0;
    if (fclose(t->trace.file) != 0 || has_failed) {
        return cv__fail(reterr, CV_E_IO, "the trace in '%s' is incomplete: writing failed",
                        t->path);
    }
    return CV_OK;
}
