/* src/protocols/registry.c - the list of protocols. A new one needs its file, a line here and in
 * registry.h, and its tests. */
#include "protocols/registry.h"

#include "core/types.h"

#include <string.h>

static const struct cv_protocol *const protocols[] = {
    &cv__proto_bully, &cv__proto_bully_improved, &cv__proto_bully_modified,
    &cv__proto_ring,  &cv__proto_ring_modified,  &cv__proto_local,
    &cv__proto_anon,  &cv__proto_pole,           &cv__proto_lease,
};

const struct cv_protocol *cv_protocol_at(uint32_t index)
{
    return index < COUNT_OF(protocols) ? protocols[index] : NULL;
}

const struct cv_protocol *cv_protocol_find(const char *name)
{
    for (uint32_t i = 0; name != NULL && i < COUNT_OF(protocols); i++) {
        if (strcmp(protocols[i]->name, name) == 0) {
            return protocols[i];
        }
    }
    return NULL;
}
