/* tests/system/next_version.c - a member of a later version, for restarts one by one. */
#include <conclave/conclave.h>

#undef CV_VERSION
#define CV_VERSION "99.1.0"
#include "runtime/peers.c" /* linked instead of the library's */
