/* tests/system/wan_switch.c - the emulated network of src/lab/wan.h, for tests in other languages.
 *
 *   wan_switch NODES
 *
 * Says "ready FD..." (the namespace of node i is /proc/PID/fd/FD), or why not and exits with 77.
 * Then each line of its input is a command, answered by "ok" when it is in effect:
 *   FROM TO DELAY_US JITTER_PERCENT LOSS_PERCENT IS_CUT
 * Ends with its input. */
#include "core/types.h"
#include "lab/wan.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define EXIT_SKIP 77

static bool do_line(struct cv_wan *wan, uint32_t node_count, const char *line)
{
    uint32_t from, to, cut;
    int64_t delay_us;
    struct cv_wan_link link = {0};
    if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu32, &from,
               &to, &delay_us, &link.jitter_percent, &link.loss_percent, &cut) != 6 ||
        from < 1 || from > node_count || to < 1 || to > node_count) {
        return false;
    }
    link.delay_ns = delay_us * NS_PER_US;
    link.is_cut = cut != 0;
    return cv__wan_set(wan, from, to, &link);
}

int main(int argc, char **argv)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed test leaves no process behind */
    const long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    struct cv_wan *wan;
    struct cv_errtext why;
    char line[128];
    if (count < 1 || count > (long)CV_WAN_NODES_MAX) {
        return 2;
    }
    if (cv__wan_open((uint32_t)count, &wan, &why) != CV_OK) {
        (void)printf("%s\n", why.text);
        return EXIT_SKIP;
    }
    (void)printf("ready");
    for (uint32_t i = 1; i <= (uint32_t)count; i++) {
        (void)printf(" %d", cv__wan_namespace(wan, i));
    }
    (void)printf("\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        (void)printf("%s\n", do_line(wan, (uint32_t)count, line) ? "ok" : "no");
        (void)fflush(stdout);
    }
    cv__wan_close(wan);
    return 0;
}
