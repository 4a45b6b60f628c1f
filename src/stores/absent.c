/* src/stores/absent.c - the kinds of stores that this build leaves out: known by name, and no more.
 */
#include "core/errors.h"
#include "stores/kinds.h"

#if !defined(CV_WITH_POSTGRES) || !defined(CV_WITH_ETCD) || !defined(CV_WITH_ZOOKEEPER)
static int absent_open(struct cv_store **ret_store, const struct cv_store_setting *setting,
                       struct cv_errtext *reterr)
{
    (void)ret_store;
    return cv__fail(reterr, CV_E_UNKNOWN,
                    "'%s': this kind of store was left out when conclave was built",
                    setting->address);
}

#define ABSENT(of)                                                                                 \
    {                                                                                              \
        .scheme = of, .summary = "left out of this build", .example = "", .clock = "", .news = "", \
        .open = absent_open,                                                                       \
    }
#endif

#ifndef CV_WITH_POSTGRES
const struct cv_store_kind cv__store_postgres = ABSENT("postgres");
#endif
#ifndef CV_WITH_ETCD
const struct cv_store_kind cv__store_etcd = ABSENT("etcd");
#endif
#ifndef CV_WITH_ZOOKEEPER
const struct cv_store_kind cv__store_zookeeper = ABSENT("zookeeper");
#endif
