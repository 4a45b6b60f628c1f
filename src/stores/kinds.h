/* src/stores/kinds.h - the table of the built-in store; the others are in modules. */
#ifndef CV_STORES_KINDS_H
#define CV_STORES_KINDS_H

#include "stores/store.h"

extern const struct cv_store_kind cv__store_sqlite;

#endif
