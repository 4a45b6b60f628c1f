/* fuzz/fuzz_cluster.c - any cluster file is read, or refused with lines; an accepted one has the
 * promised form. */
#include "net/cluster.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say(void *user, uint32_t line, const char *text)
{
    uint32_t *count = user;
    (void)line;
    if (strchr(text, '\n') != NULL) {
        abort(); /* one line for each mistake */
    }
    ++*count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cv_cluster cluster;
    uint32_t said = 0;
    const uint32_t mistakes =
        cv__cluster_parse((const char *)data, size, "/etc", &cluster, say, &said);
    if (mistakes != said) {
        abort();
    }
    if (mistakes > 0) {
        return 0;
    }
    if (cluster.member_count == 0 || cluster.member_count > CV_CLUSTER_MEMBERS_MAX ||
        cluster.generation == 0 || cluster.protocol == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < cluster.member_count; i++) {
        if (cluster.member[i].id != i + 1 || cluster.member[i].port == 0 ||
            cv__cluster_find(&cluster, cluster.member[i].name) != &cluster.member[i]) {
            abort();
        }
    }
    return 0;
}
