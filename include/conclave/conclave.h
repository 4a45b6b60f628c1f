/* conclave/conclave.h - leader election: the one header an embedding program includes.
 *
 * Everything public begins with cv_ or CV_. Nothing in the library prints, exits or keeps a global
 * that two users could fight over; what can fail returns 0 or a negative CV_E_* code. */
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

/* The version of the library that is linked, which may differ from the header's CV_VERSION. */
const char *cv_version(void);

#ifdef __cplusplus
}
#endif
#endif
