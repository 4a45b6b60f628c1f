/* tests/system/phoenix.c - processes that are always gone when somebody comes to kill them.
 *
 * usage: phoenix COUNT SECONDS. COUNT chains of processes: each process forks its successor, into a
 * session of its own, and ends after half a millisecond. A list of them is out of date before it is
 * complete, but the dead are still reaped fast enough that process ids do not run out on a busy
 * machine. After SECONDS the chains end by themselves. The first process says "ready" and waits for
 * ever. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int main(int argc, char **argv)
{
    const int count = argc == 3 ? atoi(argv[1]) : 0;
    const int64_t end_s = argc == 3 ? now_s() + atoi(argv[2]) : 0;
    for (int i = 0; i < count; i++) {
        if (fork() != 0) {
            continue;
        }
        while (now_s() < end_s) {
            const struct timespec life = {.tv_nsec = 500000};
            (void)nanosleep(&life, NULL);
            const pid_t successor = fork();
            if (successor > 0) {
                _exit(0);
            }
            (void)setsid();
        }
        _exit(0);
    }
    const bool is_told = write(STDOUT_FILENO, "ready\n", 6) == 6;
    while (is_told) {
        (void)pause();
    }
    return 1;
}
