/* src/sequencers/registry.c - the kinds of sequencers, and how one is opened by its address. */
#include "sequencers/sequencer.h"

#include "core/errors.h"
#include "core/text.h"
#include "core/types.h"
#include "modules/module.h"

#include <stdio.h>
#include <string.h>

static bool is_of(const char *address, const char *name)
{
    const size_t length = strcspn(address, ":");
    return strlen(name) == length && strncmp(name, address, length) == 0;
}

int cv__sequencer_open(uv_loop_t *loop, const char *address,
                       const struct cv_sequencer_events *events, struct cv_counter *ret_sequencer,
                       struct cv_errtext *reterr)
{
    const struct cv_sequencer_kind *kind = NULL;
    if (is_of(address, cv__sequencer_file.name)) {
        kind = &cv__sequencer_file;
    } else if (is_of(address, "snmp")) {
        kind = cv__module_table("snmp", reterr);
        if (kind == NULL) {
            return CV_E_UNKNOWN;
        }
    } else {
        static const char *const known[] = {"snmp", "file", NULL};
        char name[32];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(address, ":"), address);
        return cv__text_fail_unknown(reterr, CV_E_UNKNOWN, "sequencer", name, known);
    }
    const char *where = strchr(address, ':');
    if (where == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "sequencer '%s' is not of the form %s", address,
                        kind->form);
    }
    ret_sequencer->kind = kind;
    return kind->open(loop, where + 1, events, &ret_sequencer->self, reterr);
}
