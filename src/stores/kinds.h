/* src/stores/kinds.h - the tables that registry.c lists. */
#ifndef CV_STORES_KINDS_H
#define CV_STORES_KINDS_H

#include "stores/store.h"

extern const struct cv_store_kind cv__store_sqlite;

#endif
