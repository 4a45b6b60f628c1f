/* tests/chaos/relay.c PORT... - proxies to servers on the loopback interface, controlled by
 * commands.
 *
 * Prints the ports that it listens on, in one line. Each line of standard input is a command for
 * all of them: delay MS, swallow, refuse, cut, heal. Ends with its standard input. */
#include "stores/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROXIES_MAX 8

static struct proxy *proxies[PROXIES_MAX];
static int proxy_count;
static char line[256];
static size_t line_bytes;

static void obey(const char *word)
{
    for (int i = 0; i < proxy_count; i++) {
        if (strncmp(word, "delay ", 6) == 0) {
            proxy_delay_answers(proxies[i], strtoull(word + 6, NULL, 10));
        } else if (strcmp(word, "swallow") == 0) {
            proxy_swallow_answers(proxies[i], true);
        } else if (strcmp(word, "refuse") == 0) {
            proxy_refuse(proxies[i], true);
            proxy_cut(proxies[i]);
        } else if (strcmp(word, "cut") == 0) {
            proxy_cut(proxies[i]);
        } else if (strcmp(word, "heal") == 0) {
            proxy_delay_answers(proxies[i], 0);
            proxy_swallow_answers(proxies[i], false);
            proxy_refuse(proxies[i], false);
            proxy_cut(proxies[i]); /* swallowed bytes are lost: new connections are needed */
        }
    }
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer)
{
    (void)handle;
    (void)wanted;
    if (line_bytes >= sizeof line - 1) {
        line_bytes = 0; /* no command is that long */
    }
    *buffer = uv_buf_init(line + line_bytes, (unsigned)(sizeof line - 1 - line_bytes));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    (void)buffer;
    if (got < 0) {
        uv_stop(stream->loop);
        return;
    }
    line_bytes += (size_t)got;
    line[line_bytes] = '\0';
    for (char *end; (end = strchr(line, '\n')) != NULL;) {
        *end = '\0';
        obey(line);
        line_bytes -= (size_t)(end + 1 - line);
        memmove(line, end + 1, line_bytes + 1);
    }
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* for connections that break during a write */
    uv_loop_t *loop = uv_default_loop();
    uv_pipe_t input;
    for (int i = 1; i < argc && proxy_count < PROXIES_MAX; i++) {
        proxies[proxy_count] = proxy_new(loop, atoi(argv[i]));
        (void)printf("%s%d", i > 1 ? " " : "", proxy_port(proxies[proxy_count]));
        proxy_count++;
    }
    (void)printf("\n");
    (void)fflush(stdout);
    if (uv_pipe_init(loop, &input, 0) != 0 || uv_pipe_open(&input, 0) != 0 ||
        uv_read_start((uv_stream_t *)&input, on_alloc, on_read) != 0) {
        return 1;
    }
    (void)uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}
