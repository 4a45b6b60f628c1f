/* src/protocols/registry.h - the table that each protocol file exports. */
#ifndef CV_PROTOCOLS_REGISTRY_H
#define CV_PROTOCOLS_REGISTRY_H

#include <conclave/core.h>

extern const struct cv_protocol cv__proto_anon;
extern const struct cv_protocol cv__proto_bully;
extern const struct cv_protocol cv__proto_bully_improved;
extern const struct cv_protocol cv__proto_bully_modified;
extern const struct cv_protocol cv__proto_lease;
extern const struct cv_protocol cv__proto_local;
extern const struct cv_protocol cv__proto_pole;
extern const struct cv_protocol cv__proto_ring;
extern const struct cv_protocol cv__proto_ring_modified;

#endif
