/* src/stores/etcd_list.c - lists the waiting contenders of an election in etcd and the elections
 * below the prefix, and removes an election.
 *
 * An election without contenders has at most two keys: the text about the runs of its job, and the
 * note of its latest leadership. So the list has elections with contenders, with jobs, and with an
 * earlier leadership that was not forgotten. */
#include "stores/etcd_store.h"

#include <stdio.h>
#include <string.h>

#define KEYS_MAX 4000 /* that are read of each kind; further ones are not listed */

static void answer(struct cv_store *store, enum cv_store_verdict verdict)
{
    cv__remote_answer(&store->remote, (struct cv_store_answer){.verdict = verdict});
}

static void waiting_read(const struct cv_store *store, const cJSON *range,
                         struct cv_store_list *list)
{
    const cJSON *kv;
    bool has_holder = false;
    cJSON_ArrayForEach(kv, cv__etcd_kvs(range))
    {
        struct cv_etcd_key key;
        struct cv_store_record record = {0};
        if (!cv__etcd_key_read(store, kv, &key, NULL)) {
            continue;
        }
        cv__value_read(key.value, strlen(key.value), &record);
        if (has_holder) { /* the first one holds the election, or is about to */
            cv__store_list_add_queued(list, record.since_wall_ns, &record, record.node);
        }
        has_holder = true;
    }
}

static bool list_has(const struct cv_store_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->entry[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The prefix of all elections, with this suffix and a slash. */
static void names_prefix(const struct cv_store *store, const char *suffix,
                         char ret_prefix[CV_ETCD_KEY_BYTES])
{
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(store->remote.election, escaped);
    const size_t bytes = strlen(store->election.queue) - strlen(escaped) - 2;
    (void)snprintf(ret_prefix, CV_ETCD_KEY_BYTES, "%.*s%s/", (int)bytes, store->election.queue,
                   suffix);
}

static void names_read(const struct cv_store *store, const cJSON *range, const char *suffix,
                       struct cv_store_list *list)
{
    char prefix[CV_ETCD_KEY_BYTES], key[CV_ETCD_KEY_BYTES], name[CV_ELECTION_BYTES];
    const cJSON *kv;
    names_prefix(store, suffix, prefix);
    cJSON_ArrayForEach(kv, cv__etcd_kvs(range))
    {
        if (!cv__etcd_decode(cv__etcd_string(kv, "key"), key, sizeof key) ||
            strncmp(key, prefix, strlen(prefix)) != 0) {
            continue;
        }
        char *escaped = key + strlen(prefix);
        escaped[strcspn(escaped, "/")] = '\0';
        if (cv__remote_unescape(escaped, name, sizeof name) && !list_has(list, name)) {
            cv__store_list_add(list, name, 0, "");
        }
    }
    list->is_cut = list->is_cut || cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(range, "more"));
}

static void on_list(void *user, const struct cv_etcd_answer *got)
{
    struct cv_store *store = user;
    struct cv_store_list *list = cv__remote_current(&store->remote)->ask.list;
    store->txn = NULL;
    if (got->code != CV_ETCD_OK) {
        cv__etcd_fail(store, got->error);
        return;
    }
    if (list->of == CV_STORE_LIST_WAITING) {
        waiting_read(store, cv__etcd_range(got, 0), list);
    } else {
        names_read(store, cv__etcd_range(got, 0), "", list);
        names_read(store, cv__etcd_range(got, 1), ".runs", list);
        names_read(store, cv__etcd_range(got, 2), ".wish", list);
    }
    answer(store, CV_STORE_GRANTED);
}

static void body_names(const struct cv_store *store, struct cv_etcd_body *body, const char *suffix)
{
    char prefix[CV_ETCD_KEY_BYTES];
    names_prefix(store, suffix, prefix);
    cv__etcd_body_print(body, "{\"request_range\":{");
    cv__etcd_body_range(body, prefix);
    cv__etcd_body_print(body, ",\"limit\":\"%d\",\"keys_only\":true}}", KEYS_MAX);
}

void cv__etcd_list_begin(struct cv_store *store, const struct cv_store_list *list)
{
    struct cv_etcd_body body = {0};
    if (list->of == CV_STORE_LIST_WAITING) {
        cv__etcd_body_print(&body, "{\"request_range\":{");
        cv__etcd_body_range(&body, store->election.queue);
        cv__etcd_body_print(
            &body, ",\"limit\":\"%d\",\"sort_order\":\"ASCEND\",\"sort_target\":\"CREATE\"}}",
            CV_STORE_LIST_MAX + 2); /* the holder, and one more to see that there are more */
        cv__etcd_ask(store, CV_ETCD_READ, 1, &body, on_list);
        return;
    }
    body_names(store, &body, "");
    cv__etcd_body_print(&body, ",");
    body_names(store, &body, ".runs");
    cv__etcd_body_print(&body, ",");
    body_names(store, &body, ".wish");
    cv__etcd_ask(store, CV_ETCD_READ, 3, &body, on_list);
}

static void on_forgotten(void *user, const struct cv_etcd_answer *got)
{
    struct cv_store *store = user;
    store->txn = NULL;
    if (got->code != CV_ETCD_OK) {
        cv__etcd_fail(store, got->error);
        return;
    }
    const bool is_free = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(got->reply, "succeeded"));
    answer(store, is_free ? CV_STORE_GRANTED : CV_STORE_HELD);
}

/* A comparison with a range must be true for each key in it. etcd takes an empty range for a key of
 * revision 0, so this comparison is true if and only if there is no contender. */
void cv__etcd_forget_begin(struct cv_store *store)
{
    struct cv_text64 key64;
    struct cv_etcd_body body = {0};
    cv__etcd_body_print(&body, "{\"compare\":[{");
    cv__etcd_body_range(&body, store->election.queue);
    cv__etcd_body_print(&body, ",\"target\":\"CREATE\",\"create_revision\":\"0\"}],");
    cv__etcd_body_print(&body, "\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}},",
                        cv__etcd_encode(store->election.request, &key64));
    cv__etcd_body_print(&body, "{\"request_delete_range\":{\"key\":\"%s\"}},",
                        cv__etcd_encode(store->election.note, &key64));
    cv__etcd_body_print(&body, "{\"request_delete_range\":{\"key\":\"%s\"}}]}",
                        cv__etcd_encode(store->election.runs, &key64));
    cv__etcd_ask(store, CV_ETCD_ALONE, 3, &body, on_forgotten);
}
