/* conclave/conclave.h - leader election: the one header an embedding program includes.
 *
 * All public names begin with cv_ or CV_. The library never prints, never exits, and keeps no
 * global state that two users could share by accident. A function that can fail returns 0 or a
 * negative CV_E_* code. */
#ifndef CONCLAVE_CONCLAVE_H
#define CONCLAVE_CONCLAVE_H

#include <conclave/core.h>
#include <conclave/election.h>
#include <conclave/errors.h>
#include <conclave/oracle.h>

#define CV_VERSION_MAJOR 0
#define CV_VERSION_MINOR 1
#define CV_VERSION_PATCH 0
#define CV_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the linked library, which may differ from CV_VERSION of this header. */
const char *cv_version(void);

#ifdef __cplusplus
}
#endif
#endif
