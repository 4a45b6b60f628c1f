/* tests/system/next_contender.c - a contender of a later version, for `conclave doctor`. */
#include <conclave/conclave.h>

#undef CV_VERSION
#define CV_VERSION "99.1.0"
#include "runtime/leasing.c" /* linked instead of the library's */
