/* tests/unit/test_tree.c - descendants, as /proc shows them; and where a control group would be. */
#include "supervisor/cgroup.h"
#include "supervisor/child.h"
#include "supervisor/tree.h"
#include "support/support.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct cv_tree tree, slow_tree;

static void reads_a_stat_line_whatever_the_name(void **unused)
{
    (void)unused;
    struct cv_process_stat stat;
    assert_true(cv__process_stat_parse("12 (sh) S 3 4 5 6", &stat));
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.parent, 3);
    assert_int_equal(stat.group, 4);
    assert_true(cv__process_stat_parse("12 (a) R 1 1) Z 77 88 5", &stat));
    assert_int_equal(stat.state, 'Z');
    assert_int_equal(stat.parent, 77);
    assert_false(cv__process_stat_parse("12 sh S 3 4", &stat));
    assert_false(cv__process_stat_parse("12 (sh) S 3", &stat));
    assert_false(cv__process_stat_parse("", &stat));
}

static bool has(const struct cv_tree *in, pid_t pid)
{
    for (uint32_t i = 0; i < in->count; i++) {
        if (in->entry[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* A child with a child of its own; tells the grandchild's id through a pipe, and waits to be
 * killed. */
static pid_t start_family(pid_t *ret_grandchild)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const pid_t grandchild = fork();
        if (grandchild > 0 && write(ends[1], &grandchild, sizeof grandchild) < 0) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_true(child > 0);
    assert_int_equal(read(ends[0], ret_grandchild, sizeof *ret_grandchild), sizeof(pid_t));
    (void)close(ends[0]);
    (void)close(ends[1]);
    return child;
}

/* Kills as the guard does, until no child is left. */
static void kill_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        cv__tree_collect(&tree, getpid(), NULL);
        cv__tree_signal(&tree, SIGKILL, 0);
    }
}

static void finds_children_and_their_children_both_ways(void **unused)
{
    (void)unused;
    pid_t grandchild;
    const pid_t child = start_family(&grandchild);
    cv__tree_collect(&tree, getpid(), NULL);
    cv__tree_collect_slowly(&slow_tree, getpid(), NULL);
    assert_true(has(&tree, child) && has(&tree, grandchild));
    assert_int_equal(tree.count, slow_tree.count);
    assert_true(has(&slow_tree, child) && has(&slow_tree, grandchild));
    cv__tree_collect_children(&tree, getpid(), NULL);
    assert_true(has(&tree, child) && !has(&tree, grandchild));

    assert_true(cv__child_reserve(1));
    cv__child_claim(child); /* now it belongs to another part of the program, with all below it */
    cv__tree_collect(&tree, getpid(), cv__child_is_claimed);
    assert_false(has(&tree, child) || has(&tree, grandchild));
    cv__tree_collect_slowly(&tree, getpid(), cv__child_is_claimed);
    assert_false(has(&tree, child) || has(&tree, grandchild));
    cv__child_disclaim(child);
    assert_false(cv__child_is_claimed(child));

    int status;
    cv__tree_freeze_and_kill(&tree, getpid(), NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    kill_all();
}

static void a_process_with_another_parent_gets_no_signal(void **unused)
{
    (void)unused;
    pid_t grandchild;
    const pid_t child = start_family(&grandchild);
    tree.root = 1;
    tree.count = 1;
    tree.entry[0] = (struct cv_tree_entry){.pid = child, .parent = grandchild};
    cv__tree_signal(&tree, SIGKILL, 0); /* as if the process id had been used again */
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    cv__tree_collect(&tree, getpid(), NULL);
    cv__tree_signal(&tree, SIGKILL, /* except_group= */ getpgrp());
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    kill_all();
}

static void locates_the_control_group(void **unused)
{
    (void)unused;
    static const char mounts[] = "24 1 0:22 / /proc rw - proc proc rw\n"
                                 "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    static const char inner[] = "30 24 0:26 /box /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
    char path[CV_CGROUP_PATH_BYTES];
    assert_true(cv__cgroup_locate("0::/user.slice/a\n", mounts, path));
    assert_string_equal(path, "/sys/fs/cgroup/user.slice/a");
    assert_true(cv__cgroup_locate("3:cpu:/x\n0::/\n", mounts, path));
    assert_string_equal(path, "/sys/fs/cgroup");
    assert_true(cv__cgroup_locate("0::/box/a\n", inner, path));
    assert_string_equal(path, "/sys/fs/cgroup/a");
    assert_true(cv__cgroup_locate("0::/box\n", inner, path));
    assert_string_equal(path, "/sys/fs/cgroup");
    assert_false(cv__cgroup_locate("0::/boxer\n", inner, path));
    assert_false(cv__cgroup_locate("0::/other\n", inner, path));
    assert_false(cv__cgroup_locate("3:cpu:/x\n", mounts, path));
    assert_false(cv__cgroup_locate("0::/a\n", "24 1 0:22 / /proc rw - proc proc rw\n", path));
    assert_false(cv__cgroup_locate("", "", path));
}

int main(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_stat_line_whatever_the_name),
        cmocka_unit_test(finds_children_and_their_children_both_ways),
        cmocka_unit_test(a_process_with_another_parent_gets_no_signal),
        cmocka_unit_test(locates_the_control_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
