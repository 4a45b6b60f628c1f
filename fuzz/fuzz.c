/* fuzz/fuzz.c - see fuzz.h: inputs, the clock, files. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define START_NS (1000 * INT64_C(1000000000))

static bool is_virtual;
static int64_t now_ns;

void *fuzz_must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

_Noreturn void fuzz_found(const char *what)
{
    (void)fprintf(stderr, "found: %s\n", what);
    abort();
}

uint8_t fuzz_byte(struct fuzz_input *in)
{
    if (in->bytes == 0) {
        return 0;
    }
    in->bytes--;
    return *in->at++;
}

uint64_t fuzz_number(struct fuzz_input *in, uint32_t byte_count)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < byte_count; i++) {
        number |= (uint64_t)fuzz_byte(in) << 8 * i;
    }
    return number;
}

static char *take(struct fuzz_input *in, size_t byte_count)
{
    /* Exactly this size, so that the sanitizer sees a read past its end. */
    char *text = fuzz_must(malloc(byte_count + 1));
    memcpy(text, in->at, byte_count);
    text[byte_count] = '\0';
    in->at += byte_count;
    in->bytes -= byte_count;
    return text;
}

char *fuzz_line(struct fuzz_input *in)
{
    if (in->bytes == 0) {
        return NULL;
    }
    const uint8_t *end = memchr(in->at, '\n', in->bytes);
    char *line = take(in, end != NULL ? (size_t)(end - in->at) : in->bytes);
    (void)fuzz_byte(in); /* the newline */
    return line;
}

char *fuzz_rest(struct fuzz_input *in)
{
    return in->bytes > 0 ? take(in, in->bytes) : fuzz_must(calloc(1, 1));
}

/* ---- Time ---------------------------------------------------------------------------------- */

void fuzz_clock_start(void)
{
    now_ns = START_NS;
    is_virtual = true;
}

void fuzz_clock_pass_ms(int64_t ms)
{
    now_ns += ms * NS_PER_MS;
}

void fuzz_clock_stop(void)
{
    is_virtual = false;
}

/* Replaces the C library's function, also for libuv. The wall clock, which decides nothing, is left
 * to libFuzzer and its alarm. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (!is_virtual || clock == CLOCK_REALTIME) {
        return (int)syscall(SYS_clock_gettime, clock, ret_time);
    }
    ret_time->tv_sec = now_ns / NS_PER_S;
    ret_time->tv_nsec = now_ns % NS_PER_S;
    return 0;
}

/* ---- Files --------------------------------------------------------------------------------- */

static char folder[64];

static void folder_remove(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) {
        (void)fprintf(stderr, "cannot remove %s\n", folder);
    }
}

const char *fuzz_file(const char *name, const void *bytes, size_t byte_count)
{
    static char path[128];
    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "/dev/shm/conclave-fuzz.XXXXXX");
        (void)fuzz_must(mkdtemp(folder));
        (void)atexit(folder_remove);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (bytes == NULL) {
        return path;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, byte_count) != (ssize_t)byte_count || close(fd) != 0) {
        abort();
    }
    return path;
}

void fuzz_on_past(void *user, const struct cv_store_past *past)
{
    (void)user;
    if (memchr(past->node, '\0', sizeof past->node) == NULL ||
        memchr(past->why, '\0', sizeof past->why) == NULL) {
        fuzz_found("a name without an end");
    }
}

void fuzz_on_name(void *user, const char *name)
{
    (void)user;
    if (name == NULL) {
        fuzz_found("an election without a name");
    }
}
