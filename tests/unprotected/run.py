#!/usr/bin/env python3
"""tests/unprotected/run.py BUILD [NAME...] - removes one protection after the other, and checks that its test fails.

tests/planted does this for the cores, in every `make test`. These are the protections outside of them: in the
stores, the supervisor, the commands. Each edit is made in a copy of the sources below BUILD; the program of its test is
built and run there, and the named point must fail. Takes minutes: `make unprotected`.
Without NAME, all of them. Exit status: 0 all tests failed as they should, 1 one did not."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS = 240
PASSED = "the point passed"

# runs: the point has to fail in one of so many.
Edit = collections.namedtuple("Edit", "name file pairs test point runs", defaults=(1,))

MODULES = ["conclave-etcd.so", "conclave-tls.so", "conclave-postgres.so", "conclave-zookeeper.so"]
# What a test needs, if it is not a program of its own name.
NEEDS = {
    "test_hostile": ["conclave", *MODULES],
    "test_supervisor": ["tests/supervise", "tests/phoenix", "conclave"],
    "test_faults": ["conclave", "tests/chaos_worker", "tests/libchaos_stall.so", "tests/libchaos_scarce.so"],
    "test_chaos_library": ["conclave", "tests/peers_claims", "tests/libchaos_stall.so"],
    "store_etcd": ["tests/test_store", *MODULES],
    "store_zookeeper": ["tests/test_store", *MODULES],
    "store_postgres": ["tests/test_store", *MODULES],
    "run_sqlite": ["conclave", *MODULES],
    "run_peers": ["conclave"],
    "test_peers": ["peers-parts"],
    "test_peers_protocols": ["peers-parts"],
    "test_peers_wan": ["peers-parts"],
}
# A unit test may have the same name.
SYSTEM = ["test_hostile", "test_supervisor", "test_faults", "test_chaos_library", "test_peers", "test_peers_protocols", "test_peers_wan"]

SQLITE_FILE = "src/stores/sqlite_file.c"
SQLITE_NEXT = "src/stores/sqlite_next.c"
GUARD = "src/supervisor/guard.c"
PG_NEXT = "src/stores/pg_next.c"
PG_SCRIPT = "src/stores/pg_script.c"
EDITS = [
    # ---- sqlite
    Edit("hard-links", SQLITE_FILE,
         [("    if (is.stx_nlink > 1) {\n", "    if (is.stx_nlink > 99) {\n"),
          ("is.st_nlink > 1 ?", "is.st_nlink > 99 ?")],
         "test_sqlite_record", "file_with_two_names_is_refused"),
    Edit("mounted-alone", SQLITE_FILE,
         [("if ((is.stx_attributes_mask & is.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {",
           "if (is.stx_mode == 0) {")],
         "test_sqlite_record", "file_that_is_mounted_alone_is_refused"),
    Edit("replaced-file", SQLITE_FILE,
         [("    if (is.st_dev != file->device || is.st_ino != file->inode) {",
           "    if (is.st_dev != file->device) {")],
         "test_sqlite_record", "file_that_was_removed_or_replaced_renews_nobody"),
    Edit("open-folder", SQLITE_FILE,
         [("    if ((is.st_mode & S_IWOTH) != 0) {", "    if (is.st_mode == 0) {")],
         "test_sqlite_record", "folder_that_others_can_write_to_is_refused"),
    Edit("who-has-the-lock", SQLITE_FILE,
         [("    FILE *locks = fopen(\"/proc/locks\", \"re\");", "    FILE *locks = fopen(\"/\", \"re+\");")],
         "test_sqlite_record", "error_names_the_process_that_has_the_lock"),
    Edit("token-reserved-in-memory-only", "src/stores/sqlite_connection.c",
         [("UPDATE sqlite_sequence SET seq = seq + 1 WHERE", "UPDATE sqlite_sequence SET seq = seq WHERE"),
          ("\"SELECT seq FROM sqlite_sequence", "\"SELECT seq + 1 FROM sqlite_sequence")],
         "test_sqlite_reserve", "a_token_is_not_given_out_again_after_a_power_failure"),
    Edit("token-reserved-without-the-disk", "src/stores/sqlite_reserve.c",
         [("    if (!cv__sqlite_log_sync(s)) {\n        return;", "    if (s->db == NULL) {\n        return;")],
         "test_sqlite_reserve", "a_token_is_not_given_out_again_after_a_power_failure"),
    Edit("token-reserved-twice-used", "src/stores/sqlite_reserve.c",
         [("    s->reserved_token = 0;\n", "")],
         "test_sqlite_reserve", "a_token_is_not_given_out_again_after_a_power_failure"),
    Edit("token-reserved-before-forgetting", "src/stores/sqlite_reserve.c",
         [("    return record_token != 0 && s->reserved_token", "    return s->reserved_token")],
         "test_sqlite_reserve", "a_reservation_from_before_the_record_was_removed_is_not_used"),
    Edit("grants-without-the-disk", "src/stores/sqlite_record.c",
         [("                   (!is_grant || cv__sqlite_has_reserved(s, job->seen_token));",
           "                   (!is_grant || s->reserved_token != UINT64_MAX);"),
          ("    if (s->is_hasty && (is_again || !cv__sqlite_has_reserved(s, row->shown.token))) {",
           "    if (s->is_hasty && is_again) {"),
          ("    CV_ASSERT(is_reserved || !s->is_hasty);", "")],
         "test_sqlite_reserve", "a_token_is_not_given_out_again_after_a_power_failure"),
    Edit("sqlite-next-without-the-disk", "src/stores/sqlite_reserve.c",
         [("    if (!cv__sqlite_log_sync(s)) {\n        return;",
           "    if (is_registered) {\n        next->is_next_durable = true;\n    }\n"
           "    if (!cv__sqlite_log_sync(s)) {\n        return;")],
         "test_sqlite_reserve", "a_registration_that_may_not_be_on_the_disk_is_not_relied_on"),
    Edit("sqlite-next-token-of-its-own", "src/stores/sqlite_reserve.c",
         [("take_number(s, &number) && cv__sqlite_next_register(s, next, (uint64_t)number);",
           "step(s, CV_SQLITE_READ_NUMBER, SQLITE_ROW, &number) &&\n"
           "           cv__sqlite_next_register(s, next, (uint64_t)number + 1);")],
         "test_sqlite_reserve", "a_token_that_was_given_is_not_given_out_again_after_a_power_failure"),
    Edit("sqlite-next-overtaken", SQLITE_NEXT,
         [("ret_next->token > record_token && ", "(ret_next->token > 0 || record_token == 0) && ")],
         "test_sqlite_next", "a_token_that_was_overtaken_is_not_given"),
    Edit("sqlite-next-clock", SQLITE_NEXT,
         [("boot != NULL && strcmp(boot, s->boot) == 0 && ", "boot != NULL && ")],
         "test_sqlite_next", "a_contender_with_another_clock_is_not_given_the_record"),
    Edit("sqlite-next-heir", SQLITE_NEXT,
         [("(heir[0] == '\\0' || strcmp(heir, ret_next->node) == 0)", "heir != NULL")],
         "test_sqlite_next", "only_the_named_heir_is_given_the_record"),
    Edit("sqlite-next-given-up", "src/stores/sqlite_record.c",
         [("    int code = cv__sqlite_next_withdraw(s, c, &job->error);", "    int code = CV_OK;")],
         "test_sqlite_next", "a_contender_that_gave_up_is_not_given_the_record"),
    Edit("sqlite-next-end", "src/stores/sqlite_record.c",
         [(".expires_ns = row->expires_ns};", ".expires_ns = row->expires_ns + 1};")],
         "test_sqlite_next", "nobody_takes_a_given_record_before_its_end"),
    Edit("sqlite-next-place", SQLITE_NEXT,
         [("return !next_read(s, c, &next) || next.label == c->label ||", "return !next_read(s, c, &next) || next.label != 0 ||")],
         "test_sqlite_next", "the_first_that_registered_keeps_its_place"),
    Edit("sqlite-next-plain", "src/stores/sqlite_record.c",
         [("            job->is_plain = job->must_wait = code != CV_OK;", "            job->is_plain = code != CV_OK;")],
         "test_sqlite_next", "a_place_that_cannot_be_given_does_not_hold_up_a_release"),
    Edit("sqlite-mail-names", SQLITE_NEXT,
         [("    if (!cv__sqlite_mail_is_valid(mail)) {", "    if (mail == NULL) {"),
          ("(fstat(fd, &is) != 0 || !S_ISFIFO(is.st_mode))", "fstat(fd, &is) != 0")],
         "test_sqlite_next", "mail_goes_to_pipes_of_the_folder_only"),
    Edit("sqlite-mail-secret", "src/stores/sqlite.c",
         [("store->place.secret != mail[i].secret", "mail[i].secret == 0")],
         "test_sqlite_next", "a_message_that_the_holder_did_not_send_makes_nobody_lead"),
    Edit("sqlite-mail-token", "src/stores/sqlite.c",
         [("store->place.token != mail[i].token ||", "mail[i].token == 0 ||")],
         "test_sqlite_next", "a_message_that_the_holder_did_not_send_makes_nobody_lead"),
    Edit("sqlite-mail-late", "src/stores/sqlite.c",
         [("    if (left_ns > 0 && left_ns", "    if (left_ns")],
         "test_sqlite_next", "a_message_that_the_holder_did_not_send_makes_nobody_lead"),
    Edit("sqlite-mail-end", "src/stores/sqlite.c",
         [("left_ns <= place.lease_ns && ", "place.lease_ns > 0 && ")],
         "test_sqlite_next", "an_end_beyond_what_can_be_promised_is_not_believed"),
    Edit("sqlite-mail-attempt", "src/stores/sqlite.c",
         [("           request->attempt == place->attempt;", "           place->attempt != 0;")],
         "test_sqlite_next", "a_message_to_an_earlier_attempt_is_ignored"),
    Edit("sqlite-mail-once", "src/stores/sqlite.c",
         [("    store->place.token = 0; /* a registration is used once */\n", "")],
         "test_sqlite_next", "a_message_to_an_earlier_attempt_is_ignored"),
    Edit("sqlite-next-short-time", "src/stores/sqlite_next.h",
         [("(500 * INT64_C(1000000))", "(5000 * INT64_C(1000000))")],
         "test_sqlite_next", "release_gives_the_record_to_the_next_one"),
    Edit("sqlite-next-dead", SQLITE_NEXT,
         [("    const int fd = open(path, O_WRONLY |", "    const int fd = open(path, O_RDWR |")],
         "test_sqlite_next", "a_dead_one_is_not_given_it"),
    Edit("sqlite-release-of-anybody", "src/stores/sqlite_record.c",
         [("    if (code == CV_OK && is_mine(job, row)) {\n        const enum cv_reason reason",
           "    if (code == CV_OK && row->shown.node[0] != '\\0') {\n        const enum cv_reason reason")],
         "test_chaos_library", "programs_that_embed_the_library"),
    Edit("sqlite-mail-counts-from-reading", "src/stores/sqlite.c",
         [("    const int64_t left_ns = mail->expires_ns - cv__clock_now_ns();",
           "    const int64_t left_ns = mail->expires_ns > 0 ? CV_SQLITE_GIVEN_NS_MAX : 0;")],
         "test_chaos_library", "programs_that_embed_the_library"),
    # ---- every store
    Edit("stuck-gives-back-while-it-leads", "src/runtime/leasing.c",
         [("    if (!may_hold(b, effect->verb)) {\n",
           "    if (!may_hold(b, effect->verb)) {\n"
           "        b->kind->ask(b->store, &(struct cv_store_request){.verb = CV_STORE_RELEASE,\n"
           "            .request = UINT64_MAX - b->own_asked++, .attempt = effect->attempt, .token = effect->token});\n")],
         "test_election", "stuck_leader_does_not_release_while_it_leads"),
    Edit("stuck-record-not-prolonged", "src/runtime/leasing.c",
         [("        if (!was_stuck) {\n", "        if (!was_stuck && b->kind == NULL) {\n")],
         "test_leasing", "stuck_leader_on_a_busy_machine_leaves_the_reason"),
    Edit("stuck-renewal-is-believed", "src/runtime/leasing.c",
         [("            prolong_record(b, effect);\n        }\n", "            prolong_record(b, effect);\n            return;\n        }\n"),
          (".request = UINT64_MAX - b->own_asked++,\n                                                      .attempt = effect->attempt,",
           ".request = effect->request,\n                                                      .attempt = effect->attempt,")],
         "test_leasing", "stuck_leader_leads_no_longer_than_it_was_told"),
    # ---- remote stores
    Edit("full-queue", "src/stores/remote.c",
         [("    if (remote->replaced_count < room) {\n", "    CV_ASSERT(remote->replaced_count < CV_REMOTE_WAITING_MAX);\n"
           "    if (remote->replaced_count < room) {\n")],
         "test_remote", "a_flood_in_one_turn_is_answered_as_far_as_there_is_room"),
    Edit("drift-of-what-has-passed", "src/stores/remote.c",
         [(" - (passed_ns + DRIFT_PART - 1) / DRIFT_PART;", " - 0 * DRIFT_PART;")],
         "test_remote", "the_time_left_ends_before_the_server_ends_it"),
    Edit("etcd-foreign-keys", "src/stores/etcd_look.c",
         [("    return digits == 16 && key[16] == '-' && key[17] != '\\0' &&\n"
           "           key[17 + strspn(key + 17, \"0123456789\")] == '\\0';", "    return key[0] != '\\0' || digits == 16;")],
         "store_etcd", "foreign_keys_hold_nothing"),
    Edit("etcd-one-label", "src/stores/etcd_server.c",
         [("        if (e->label == election->label && ", "        if (e->label == 0 && ")],
         "store_etcd", "an_election_is_open_once_under_one_label"),
    Edit("etcd-wakes-everybody", "src/stores/etcd_server.c",
         [("        e->has_changed = e->has_changed || is_concerned(e, key, is_deleted, is_request);",
           "        e->has_changed = e->has_changed || e->interest != CV_ETCD_NOTHING ||\n"
           "                         is_concerned(e, key, is_deleted, is_request);")],
         "store_etcd", "one_of_twenty_holds_the_lease_through_fifty_changes"),
    Edit("etcd-password", "src/stores/etcd_wire.c",
         [("wire->authorization : NULL,\n                               .body = call->body,",
           "NULL : NULL,\n                               .body = call->body,")],
         "store_etcd", "etcd_users_need_their_password"),
    Edit("etcd-lease-longer-than-asked", "src/stores/etcd.c",
         [("    const int64_t duration_ns = cv__min64(left_ns, store->lease_ns);",
           "    const int64_t duration_ns = left_ns + 60 * NS_PER_S;")],
         "store_etcd", "a_lease_is_never_longer_than_asked"),
    Edit("etcd-passed-over", "src/stores/etcd_ready.c",
         [("           store->election.own_deleted_revision <= ready->revision &&\n", "")],
         "store_etcd", "a_contender_that_is_passed_over_is_not_next"),
    Edit("etcd-old-lease", "src/stores/etcd.c",
         [("               ? store->ready.until_ns", "               ? cv__clock_now_ns() + store->lease_ns")],
         "store_etcd", "a_grant_ends_with_the_lease_of_its_ready_key"),
    Edit("etcd-late-renewal", "src/stores/etcd.c",
         [("    if (own->is_there) {\n        cv__etcd_body_print(", "    if (false) {\n        cv__etcd_body_print(")],
         "store_etcd", "a_late_renewal_changes_nothing"),
    Edit("etcd-prepared-lease-counts-anew", "src/stores/etcd_lease.c",
         [("           : lease_id == lease->holding.id ? lease->holding.until_ns",
           "           : lease_id == lease->holding.id ? cv__clock_now_ns() + lease->ttl_ns")],
         "store_etcd", "a_grant_ends_with_the_lease_that_was_kept"),
    Edit("etcd-events-missed", "src/stores/etcd_ready.c",
         [("           cv__etcd_has_told_since(&store->election, ready->revision);", "           ready->revision != 0;")],
         "store_etcd", "a_contender_that_missed_events_is_not_next"),
    Edit("etcd-late-put-in-advance", "src/stores/etcd_ready.c",
         [('\\"target\\":\\"LEASE\\",\\"lease\\"', '\\"target\\":\\"LEASE\\",\\"result\\":\\"NOT_EQUAL\\",\\"lease\\"'),
          ("        ready->lease != 0 ? ready->lease : own->lease);", "        INT64_C(-1));")],
         "store_etcd", "a_late_put_that_made_a_key_ready_changes_nothing"),
    Edit("etcd-release-says-nothing", "src/stores/etcd_release.c",
         [("store->token != 0 && why != CV_REASON_STARTED) {", "store->token != 0 && why == CV_REASON_COUNT) {")],
         "store_etcd", "others_hear_why_a_leadership_ended"),
    Edit("etcd-heir-without-a-note", "src/stores/etcd_release.c",
         [('            cv__etcd_body_print(body, ",");\n            cv__etcd_body_note(store, why_released(&one->ask), body);\n',
           "")],
         "store_etcd", "others_hear_why_a_leadership_ended"),
    Edit("etcd-beginning-not-noted", "src/stores/etcd_note.c",
         [("    if (note->token == 0) {\n        write_begun(store);", "    if (note->token == 1) {\n        write_begun(store);"),
          ("    if (store->note.is_read) {\n        write_begun(store);\n        return;", "    if (store->note.is_read) {\n        return;")],
         "store_etcd", "a_leader_without_a_reason_does_not_get_its_predecessors"),
    Edit("etcd-note-of-anybody", "src/stores/etcd_note.c",
         [('"\\"CREATE\\",\\"create_revision\\"', '"\\"CREATE\\",\\"result\\":\\"LESS\\",\\"create_revision\\"'),
          ("                        cv__etcd_encode(store->election.key, &key64), store->token);",
           "                        cv__etcd_encode(store->election.key, &key64), (uint64_t)INT64_MAX);")],
         "store_etcd", "a_late_release_does_not_note_an_end"),
    Edit("reason-of-another-leadership", "src/runtime/leasing.c",
         [("    return record != NULL && record->token == b->told_token ? record->ended : CV_REASON_STARTED;",
           "    return record != NULL && b->told_token != 0 ? record->ended : CV_REASON_STARTED;")],
         "run_sqlite", "a_watcher_that_slept_does_not_report_the_reason_of_another_leadership"),
    Edit("zookeeper-proof-counts-from-now", "src/stores/zk_grant.c",
         [("    const int64_t proved_ns = proved_left_ns(store->user.client, one->asked_ns);",
           "    const int64_t proved_ns = store->is_taken ? store->user.client->timeout_ns\n"
           "                                              : proved_left_ns(store->user.client, one->asked_ns);")],
         "store_zookeeper", "a_grant_counts_from_an_older_proof_of_the_session"),
    Edit("zookeeper-write-is-proof-enough", "src/stores/zk_client.c",
         [("            if (op->rc == ZOK && cv__zk_is_owner(client, &op->stat)) {\n                cv__zk_prove(client, op->sent_ns);",
           "            if (op->rc == ZOK && cv__zk_is_owner(client, &op->stat)) {\n"
           "                client->alive_until_ns = cv__max64(client->alive_until_ns, op->sent_ns + client->timeout_ns);")],
         "store_zookeeper", "a_grant_counts_from_an_older_proof_of_the_session"),
    Edit("zookeeper-own-end-unheard", "src/stores/zookeeper.c",
         [("    store->is_own_watched = store->is_first = false;\n    return !store", "    return !store")],
         "store_zookeeper", "a_contender_that_is_passed_over_does_not_take_over"),
    Edit("zookeeper-heir-after-own-node", "src/stores/zk_release.c",
         [("        cv__zk_remove_all(&store->user, paths, (uint32_t)between, store->own, NULL, NULL, NULL);",
           "        cv__zk_remove(&store->user, store->own, NULL);\n"
           "        cv__zk_remove_all(&store->user, paths, (uint32_t)between, NULL, NULL, NULL, NULL);")],
         "store_zookeeper", "others_are_deposed_before_the_holder_leaves"),
    Edit("zookeeper-earlier-version-trusted", "src/stores/zk_grant.c",
         [('    return cv__value_has(value, strlen(value), "deposes", "first");', "    return value != NULL;")],
         "store_zookeeper", "after_a_holder_of_an_earlier_version_the_queue_is_read"),
    Edit("zookeeper-events-of-a-new-connection", "src/stores/zookeeper.c",
         [("    store->watched[0] = '\\0';\n    store->is_own_watched = store->is_first = false; /* events were missed */\n", "")],
         "store_zookeeper", "a_contender_with_a_new_connection_looks_before_it_is_next"),
    Edit("zookeeper-note-of-a-lost-node", "src/stores/zk_client.c",
         [("    if (guard[0] == '\\0') { /* it does not exist", "    if (guard == path) { /* it does not exist")],
         "store_zookeeper", "a_leader_that_lost_its_node_writes_no_note"),
    Edit("zookeeper-release-says-nothing", "src/stores/zk_release.c",
         [("    if (store->token == 0) { /* it has only waited */", "    if (store->own[0] != '\\0') { /* it has only waited */")],
         "store_zookeeper", "others_hear_why_a_leadership_ended"),
    Edit("zookeeper-beginning-not-noted", "src/stores/zk_note.c",
         [("    cv__zk_write_if(&store->user, store->own, store->election, text, store->note.version, NULL);", "    (void)text;")],
         "store_zookeeper", "a_leader_without_a_reason_does_not_get_its_predecessors"),
    Edit("zookeeper-lease-longer-than-asked", "src/stores/zk_grant.c",
         [("cv__min64(proved_ns, store->lease_ns); /* no more", "cv__max64(proved_ns, 0); /* no more")],
         "store_zookeeper", "a_lease_is_never_longer_than_asked"),
    Edit("zookeeper-asks-again", "src/stores/zk_client.c",
         [("    return user->client->is_connected && user->awaited_count == 0;", "    return user->client->is_connected;")],
         "store_zookeeper", "a_slow_server_is_not_sent_the_same_request_again"),
    Edit("zookeeper-one-label", "src/stores/zookeeper.c",
         [("        if (one->remote.label == setting->label && ", "        if (one->remote.label == 0 && ")],
         "store_zookeeper", "an_election_is_open_once_under_one_label"),
    Edit("zookeeper-nodes-of-nobody", "src/stores/zk_queue.c",
         [("    if (op->rc != ZOK || op->stat.ephemeralOwner != 0 || name == NULL) {",
           "    if (op->rc == ZOK || op->stat.ephemeralOwner != 0 || name == NULL) {")],
         "store_zookeeper", "nodes_of_no_session_hold_nothing"),
    Edit("zookeeper-open-nodes", "src/stores/zk_client.c",
         [("    return client->auth[0] != '\\0' ? &ZOO_CREATOR_ALL_ACL", "    return client->auth == NULL ? &ZOO_CREATOR_ALL_ACL")],
         "store_zookeeper", "zookeeper_nodes_belong_to_their_creator"),
    Edit("postgres-search-path", "src/stores/pg_script.c",
         [("set_config('search_path', 'pg_catalog, pg_temp', true)", "set_config('x.y', '', true)"),
          ("set_config('search_path', 'pg_catalog, pg_temp', false)", "set_config('x.y', '', false)")],
         "store_postgres", "operators_of_another_role_are_not_used"),
    Edit("postgres-search-path-of-commands", "src/stores/pg_script.h",
         [('#define CV_PG_SAFE_PATH "SELECT pg_catalog.set_config(\'search_path\', \'pg_catalog, pg_temp\', true);"',
           '#define CV_PG_SAFE_PATH ""')],
         "store_postgres", "operators_of_another_role_are_not_used"),
    Edit("postgres-owners", "src/stores/pg_commands.c",
         [("code == CV_OK && PQntuples(found) > 0", "code == CV_OK && PQntuples(found) > 9")],
         "store_postgres", "tables_of_a_stranger_are_refused"),
    Edit("postgres-hanging-host", "src/stores/pg_link.c",
         [("    return said_ms > 0 ? said_ms : link->bound_ms;", "    return said_ms > 0 ? 600000 : 600000;")],
         "store_postgres", "a_host_that_hangs_is_skipped"),
    Edit("postgres-torn-address", "src/stores/pg_link.c",
         [("    if (is_torn(address)) {", "    if (is_torn(\"\") && is_torn(address)) {")],
         "test_hostile", "a_mistyped_address_is_not_repeated_with_its_password"),
    # ---- postgres: the next contender
    Edit("postgres-given-counts-anew", PG_NEXT,
         [("cv__remote_left_ns(next->asked_ns, next->sure_ns, one->asked_ns);", "next->sure_ns - 1;")],
         "store_postgres", "a_given_row_counts_from_the_registration"),
    Edit("postgres-given-to-the-dead", PG_SCRIPT,
         [(" AND EXISTS (SELECT FROM pg_stat_get_activity(next_pid))", "")],
         "store_postgres", "a_dead_contender_is_not_given_the_row"),
    Edit("postgres-given-after-long", PG_SCRIPT,
         [('"next_until > clock_timestamp() + next_lease_us / 2 * interval \'1 microsecond\'"', '"next_until > \'epoch\'"')],
         "store_postgres", "a_contender_that_registered_long_ago_is_not_next"),
    Edit("postgres-given-to-one-that-gave-up", PG_SCRIPT,
         [("next_attempt <= @a AND @t = 0;", "next_attempt <= @a AND @t = 1;")],
         "store_postgres", "a_contender_that_gave_up_is_not_next"),
    Edit("postgres-late-copy-registers", PG_SCRIPT,
         [(" AND NOT (next_label = @l AND next_attempt > @a)", "")],
         "store_postgres", "a_late_copy_of_a_request_registers_nobody"),
    Edit("postgres-late-copy-shortens", PG_SCRIPT,
         [('"  THEN greatest(next_until, " LEASE_END ") ELSE "', '"  THEN " LEASE_END " ELSE "')],
         "store_postgres", "a_late_copy_of_a_request_shortens_no_registration"),
    Edit("postgres-given-to-itself", PG_SCRIPT,
         [("ACQUIRE_SET NEXT_SET ACQUIRE_IF", "ACQUIRE_SET ACQUIRE_IF"), ("node <> '' AND next_label <> @l AND", "node <> '' AND")],
         "store_postgres", "a_contender_that_took_the_row_is_not_next"),
    Edit("postgres-given-past-the-heir", PG_SCRIPT,
         [(" AND @h IN ('', next_node)", "")],
         "store_postgres", "an_heir_comes_before_contenders_that_waited_longer"),
    Edit("postgres-given-without-secret", PG_NEXT,
         [("secret != next->secret || next->is_told", "next->is_told")],
         "store_postgres", "a_forged_notification_makes_nobody_lead"),
    Edit("postgres-secret-twice", PG_NEXT,
         [("secret != next->secret || next->is_told", "secret != next->secret")],
         "store_postgres", "a_secret_is_believed_once"),
    Edit("postgres-given-on-another-connection", "src/stores/postgres.c",
         [("        store->place = (struct cv_pg_next){0}; /* notifications may be missed from now on */\n", "")],
         "store_postgres", "a_contender_that_missed_the_notification_asks_for_the_row"),
    Edit("postgres-session-settings", PG_SCRIPT,
         [("current_setting('synchronous_commit') END, false);", "current_setting('synchronous_commit') END, true);")],
         "store_postgres", "settings_of_others_do_not_matter"),
    Edit("postgres-session-isolation", PG_SCRIPT,
         [("    \"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;\"\n", "")],
         "store_postgres", "settings_of_others_do_not_matter"),
    # ---- commands
    Edit("escapes", "src/base/command.c",
         [("    return first < 0x20 || first == 0x7f || (first >= 0x80 && first < 0xa0) ? 1 : 0;", "    return 0;")],
         "test_hostile", "names_from_a_store_do_not_reach_the_terminal_raw"),
    Edit("secrets", GUARD,
         [("        (void)unsetenv(*hidden); /* it is a name */", "        (void)hidden;")],
         "test_hostile", "the_command_does_not_inherit_secrets_of_the_store"),
    Edit("fifo-for-a-key", "src/net/key.c",
         [("    if (!S_ISREG(status.st_mode)) {", "    if (status.st_mode == 0) {")],
         "test_hostile", "a_pipe_in_the_place_of_a_key_or_password_is_refused_at_once"),
    # ---- supervisor
    Edit("supervisor-dies", GUARD,
         [("        begin_kill(g, CV_END_STOPPED, now_ns);\n    } else if (now_ns >= cv__schedule_term_ns",
           "        begin_stop(g, CV_END_STOPPED, now_ns);\n    } else if (now_ns >= cv__schedule_term_ns")],
         "test_supervisor", "nothing_lives_when_the_supervisor_is_killed"),
    Edit("deadline-of-the-guard", GUARD,
         [("    } else if (now_ns >= cv__schedule_term_ns(schedule, valid_until_ns)) {",
           "    } else if (now_ns >= cv__schedule_term_ns(schedule, valid_until_ns) + 5 * NS_PER_S) {"),
          ("    if (now_ns >= cv__schedule_kill_ns(schedule, valid_until_ns, g->stop_ns)) {",
           "    if (now_ns >= cv__schedule_kill_ns(schedule, valid_until_ns, g->stop_ns) + 5 * NS_PER_S) {")],
         "test_supervisor", "a_stopped_supervisor_does_not_prolong_the_command"),
    Edit("those-who-left-the-group", GUARD,
         [("    cv__tree_collect(&g->tree, g->pid, NULL);\n    cv__tree_signal(&g->tree, signo, g->command);", "    (void)signo;")],
         "test_supervisor", "stop_reaches_processes_that_left_the_group"),
    Edit("stopped-command", GUARD,
         [("    signal_all(g, SIGCONT); /* a stopped process would not notice */", "")],
         "test_supervisor", "a_stopped_command_is_ended_too"),
    # ---- peers, as real processes
    Edit("peers-answer-without-the-clock", "src/runtime/election_publish.c",
         [("    if (left_ns <= 0) {\n        return false;", "    if (until_ns == 0) {\n        return false;")],
         "test_peers", "stopped_leader_does_not_lead_when_it_wakes_up"),
    Edit("peers-joins-without-answers", "src/runtime/joining.c",
         [("    return CV_JOINING_WAIT;", "    return CV_JOINING_REJOIN;")],
         "test_peers", "member_without_its_state_joins_anew_above_all_tokens"),
    Edit("peers-joins-below-known-tokens", "src/runtime/peers.c",
         [("protocol->restore(NULL, 0, floor, word);\n    if (cv__slots_create", "protocol->restore(NULL, 0, base_of(&p->cluster), word);\n    if (cv__slots_create")],
         "test_peers", "member_without_its_state_begins_above_what_the_others_remember"),
    Edit("peers-answers-no-floor", "src/runtime/peers.c",
         [("        floor = p->cluster.protocol->floor(r.word, r.word_count);", "        floor = base_of(&p->cluster) + 1;")],
         "test_peers", "member_without_its_state_begins_above_what_the_others_remember"),
    Edit("peers-joins-in-spite-of-its-promise", "src/runtime/joining.c",
         [("    if (j->is_past_promises && c.with_state", "    if (c.with_state")],
         "test_peers", "member_without_its_state_waits_for_the_end_of_its_promise"),
    Edit("peers-majority-one-too-small", "src/protocols/pole_claim.c",
         [("    const uint32_t others = p->quorum - 1;", "    const uint32_t others = p->quorum - 2;")],
         "test_peers_wan", "five_members_in_a_star_and_in_a_chain"),
    Edit("peers-state-not-read", "src/runtime/peers.c",
         [("    memcpy(ret_word, r.word, r.word_count * sizeof *r.word);", "    memset(ret_word, 0, r.word_count * sizeof *r.word);")],
         "test_peers", "members_elect_and_survive_kills_and_restarts"),
    Edit("peers-state-of-local-not-read", "src/runtime/peers.c",
         [("    memcpy(ret_word, r.word, r.word_count * sizeof *r.word);", "    memset(ret_word, 0, r.word_count * sizeof *r.word);")],
         "test_peers_protocols", "local_with_a_majority"),
    Edit("peers-other-versions-refused", "src/runtime/peers.c",
         [("cv__reach_frames(&p->cluster, election, &setting", "cv__reach_frames(&p->cluster, CV_VERSION[0] == '9' ? CV_VERSION : election, &setting")],
         "test_peers", "new_version_is_installed_member_by_member"),
    Edit("peers-proposals-not-repeated", "src/protocols/pole_select.c",
         [("    broadcast(p, out);\n    arm_retry(p, now_ns, out);\n    if (cv__set_has", "    if (cv__set_has")],
         "test_peers", "five_members_lose_messages_and_each_other"),
    Edit("peers-questions-not-repeated", "src/runtime/peers.c",
         [("    ask_all(p);\n    look_whether_to_join(p);",
           "    static int asked;\n    if (asked++ < 3) {\n        ask_all(p);\n    }\n    look_whether_to_join(p);")],
         "test_peers", "five_members_lose_messages_and_each_other"),
    Edit("peers-pole-never-leads", "src/protocols/pole_claim.c",
         [("    if (until_ns <= now_ns) {", "    if (until_ns <= now_ns || !is_leading) {")],
         "test_peers_protocols", "pole_of_seven"),
    Edit("peers-local-never-leads", "src/protocols/local_request.c",
         [("    if (!is_fresh) {", "    if (l->member_count > 0) {")],
         "test_peers_protocols", "local_of_five"),
    Edit("peers-fields-swapped", "src/protocols/pole_claim.c",
         [("                                           .nonce = claim->nonce,", "                                           .nonce = claim->seq,"),
          ("                                           .seq = claim->seq,", "                                           .seq = claim->nonce,")],
         "test_peers_protocols", "pole_of_five"),
    Edit("peers-bully-never-leads", "src/protocols/bully.c",
         [("    cv__classic_lead(c, &cv__bully_rules,", "    if (c->member_count > 2) {\n        return;\n    }\n    cv__classic_lead(c, &cv__bully_rules,")],
         "test_peers_protocols", "bully_of_seven_in_namespaces"),
    Edit("peers-bully-improved-never-leads", "src/protocols/bully.c",
         [("    cv__classic_lead(c, &cv__bully_rules,", "    if (c->member_count > 2) {\n        return;\n    }\n    cv__classic_lead(c, &cv__bully_rules,")],
         "test_peers_protocols", "bully_improved_of_five"),
    Edit("peers-bully-modified-never-leads", "src/protocols/bully_modified.c",
         [("    cv__classic_lead(c, &modified_rules,", "    if (c->member_count > 2) {\n        return;\n    }\n    cv__classic_lead(c, &modified_rules,")],
         "test_peers_protocols", "bully_modified_of_three_in_namespaces"),
    Edit("peers-ring-never-concludes", "src/protocols/ring.c",
         [("    if (highest == c->self && !cv__classic_stands(c)) {", "    if (highest != CV_ID_NONE) {")],
         "test_peers_protocols", "ring_of_seven"),
    Edit("peers-ring-modified-never-leads", "src/protocols/ring_modified.c",
         [("    cv__classic_lead(c, &modified_rules,", "    if (c->member_count > 2) {\n        return;\n    }\n    cv__classic_lead(c, &modified_rules,")],
         "test_peers_protocols", "ring_modified_of_five"),
    Edit("peers-bully-keeps-a-lower-leader", "src/protocols/classic.c",
         [("    if (rules->contests && leader < c->self && cv__classic_stands(c)) {",
           "    if (rules->contests && leader < c->self && c->member_count == 0) {")],
         "test_peers_protocols", "bully_of_five_in_namespaces", runs=6),  # it depends on whose message is first
    Edit("peers-term-not-saved", "src/protocols/classic.c",
         [("        cv__effect_persist(out, &c->term, 1);", "        (void)out;")],
         "test_peers_protocols", "ring"),
    Edit("peers-tree-not-killed", GUARD,
         [("        (void)kill(-g->command, SIGKILL); /* most of them, with one call */\n", ""),
          ("    cv__cgroup_kill(&g->cgroup);\n    g->is_group_killed", "    g->is_group_killed"),
          ("        cv__tree_signal(&g->tree, SIGKILL, 0);", "        (void)kill(g->command, SIGKILL);"),
          ("        cv__tree_freeze_and_kill(&g->tree, g->pid, NULL);", "        (void)kill(g->command, SIGKILL);")],
         "run_peers", "supervisor_killed"),
    Edit("peers-leader-ends-before-its-time", "src/net/cluster.c",
         [('{"yields", "no"}', '{"yields", "yes"}')],
         "run_peers", "superseded_by_a_lower_id_that_comes_back"),
    # ---- traps
    Edit("end-of-the-lease", "src/protocols/lease.c",
         [("    const int64_t until_ns = asked->at_ns + cv__lease_sure_ns(duration_ns, l->drift_ppb);",
           "    const int64_t until_ns = asked->at_ns + cv__lease_sure_ns(duration_ns, l->drift_ppb) + 10 * NS_PER_S;")],
         "test_faults", "a_leader_whose_disk_stalls_stops_in_time"),
    Edit("wall-clock", "src/os/clock.c",
         [("    return read_ns(CLOCK_BOOTTIME);",  # starts at the same value, but follows the wall clock
           "    static int64_t begin_ns;\n"
           "    const int64_t wall_ns = read_ns(CLOCK_REALTIME);\n"
           "    begin_ns = begin_ns == 0 ? wall_ns - read_ns(CLOCK_BOOTTIME) : begin_ns;\n"
           "    return wall_ns - begin_ns;")],
         "test_faults", "a_wall_clock_that_is_set_changes_nothing"),
    Edit("renewals-spread", "src/protocols/lease.c",
         [("    cv__lease_ask_between(l, cv__max64(renew_ns - l->renew_ns / 8, now_ns), renew_ns, out);",
           "    cv__lease_ask_between(l, renew_ns, renew_ns, out);")],
         "test_crowd", "leases_granted_together_are_not_renewed_together"),
    Edit("notifications-in-a-row", "src/protocols/lease_ask.c",
         [("    if (now_ns >= allowed_ns) {\n        l->is_due = true;", "    if (now_ns >= allowed_ns || l->turn_ns >= 0) {\n        l->is_due = true;")],
         "test_crowd", "a_release_costs_one_request_of_each_contender"),
]


def call(words, folder, **more):
    return subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", check=False, **more)


def prepare(build):
    """A configured copy of the sources; an existing one is brought up to date."""
    copy = build / "unprotected"
    copy.mkdir(exist_ok=True)
    files = call(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).stdout.split("\0")
    for name in filter(None, files):
        source, target = ROOT / name, copy / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            target.touch()
    done = call(["tools/configure", "build", "-Dtests=enabled"], copy)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return copy


def verdict(copy, edit):
    """None: the point failed, as it should. Otherwise, what happened instead."""
    done = call(["ninja", "-C", "build", *NEEDS.get(edit.test, [f"tests/{edit.test}"])], copy)
    if done.returncode != 0:
        return "it does not build: " + "\n".join(done.stdout.splitlines()[-12:])
    said = [run_point(copy, edit)]
    while said[-1] == PASSED and len(said) < edit.runs:
        said.append(run_point(copy, edit))
    return said[-1]


def run_point(copy, edit):
    """The same, of one run."""
    log = copy / "build" / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    suite = ["--suite", "system"] if edit.test in SYSTEM else []
    call(["meson", "test", "-C", "build", "--no-rebuild", "--quiet", *suite, edit.test], copy, timeout=3 * SECONDS,
         env=dict(os.environ, CV_TEST_ONLY=edit.point, CV_TEST_PATIENCE_S="30"))  # some programs ignore CV_TEST_ONLY
    for line in log.read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        text = said.get("stdout") or ""
        point = re.search(rf"^(not )?ok \d+ -? ?{edit.point.replace('_', '[_ ]')}\b", text, re.MULTILINE)
        if point:
            return None if point[1] else PASSED
        if said["result"] != "OK":
            return None  # it hung, or the program ended: that is a failure, too
    return "the point was not run"


def main():
    build = (ROOT / sys.argv[1]).resolve()
    names = set(sys.argv[2:])
    copy = prepare(build)
    failed = 0
    for edit in EDITS:
        if names and edit.name not in names:
            continue
        path = copy / edit.file
        before = path.read_text(encoding="utf-8")
        after = before
        for old, new in edit.pairs:
            if after.count(old) != 1:
                sys.exit(f"{edit.name}: this text occurs {after.count(old)} times in {edit.file}, not once:\n{old}")
            after = after.replace(old, new)
        path.write_text(after, encoding="utf-8")
        try:
            why = verdict(copy, edit)
        finally:
            path.write_text(before, encoding="utf-8")
        failed += why is not None
        print(f"{'noticed' if why is None else 'NOT NOTICED':12} {edit.name:36} {edit.test}: {edit.point}"
              + (f"\n    {why}" if why else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
