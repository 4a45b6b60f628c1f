/* src/stores/kinds.h - the tables that registry.c lists. */
#ifndef CV_STORES_KINDS_H
#define CV_STORES_KINDS_H

#include "stores/store.h"

extern const struct cv_store_kind cv__store_sqlite;
extern const struct cv_store_kind cv__store_postgres;  /* these three are in absent.c ... */
extern const struct cv_store_kind cv__store_etcd;      /* ... where the build leaves ... */
extern const struct cv_store_kind cv__store_zookeeper; /* ... their clients out */

#endif
