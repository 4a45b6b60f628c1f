/* bench/stamp.c - the command in the benches of `conclave run`: it writes down when it began.
 *
 * Usage: stamp FILE [SECONDS]. It first reads the clock; then it appends one line, the time on
 * CLOCK_MONOTONIC in ns, its process id and its token, and waits for SECONDS; 0 or nothing: it does
 * not wait. It does as little as possible, so that its own start adds little to the measurement. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
    if (argc < 2) {
        return 2;
    }
    const char *token = getenv("CONCLAVE_TOKEN");
    char line[96];
    const int length =
        snprintf(line, sizeof line, "%lld %ld %.20s\n", now.tv_sec * 1000000000LL + now.tv_nsec,
                 (long)getpid(), token != NULL ? token : "-");
    const int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)length) != length) {
        perror(argv[1]);
        return 1;
    }
    (void)close(fd); /* it was written whole */
    if (argc > 2) {
        (void)sleep((unsigned)atoi(argv[2]));
    }
    return 0;
}
