/* src/stores/shared.c - see shared.h. */
#include "stores/shared.h"

#include "core/assert.h"

#include <stdlib.h>
#include <string.h>

struct cv_shared *cv__shared_join(struct cv_shared_list *list, const void *kind, const char *key)
{
    for (struct cv_shared *at = list->first; at != NULL; at = at->next) {
        CV_ASSERT(at->user_count > 0);
        if (at->kind == kind && strcmp(at->key, key) == 0) {
            at->user_count++;
            return at;
        }
    }
    return NULL;
}

bool cv__shared_add(struct cv_shared_list *list, struct cv_shared *shared, const void *kind,
                    const char *key)
{
    CV_ASSERT(shared->user_count == 0);
    shared->key = strdup(key);
    if (shared->key == NULL) {
        return false;
    }
    shared->kind = kind;
    shared->user_count = 1;
    shared->next = list->first;
    list->first = shared;
    return true;
}

bool cv__shared_leave(struct cv_shared_list *list, struct cv_shared *shared)
{
    CV_ASSERT(shared->user_count > 0);
    if (--shared->user_count > 0) {
        return false;
    }
    struct cv_shared **at = &list->first;
    while (*at != shared) {
        CV_ASSERT(*at != NULL); /* it was added */
        at = &(*at)->next;
    }
    *at = shared->next;
    free(shared->key);
    shared->key = NULL;
    return true;
}
