/* src/cli/cmd_play.c - `conclave play [FILE...]`: the playground, in a browser on this machine. */
#include "cli/cli.h"
#include "cli/webserver.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does the folder contain the page? */
static bool is_page(const char *folder)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/conclave.wasm", folder);
    return length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0;
}

/* Finds the page: in $CONCLAVE_WEB, in the build tree of this program, or where it is installed. */
static bool find_page(char ret_folder[PATH_MAX])
{
    const char *said = secure_getenv("CONCLAVE_WEB");
    if (said != NULL && strlen(said) < PATH_MAX) {
        memcpy(ret_folder, said, strlen(said) + 1);
        return is_page(ret_folder);
    }
    static const char beside[] = "/web/dist";
    const ssize_t length = readlink("/proc/self/exe", ret_folder, PATH_MAX - sizeof beside);
    if (length > 0) {
        ret_folder[length] = '\0';
        char *slash = strrchr(ret_folder, '/');
        if (slash != NULL) {
            memcpy(slash, beside, sizeof beside);
            if (is_page(ret_folder)) {
                return true;
            }
        }
    }
    (void)snprintf(ret_folder, PATH_MAX, "%s", CV_WEB_FOLDER);
    return is_page(ret_folder);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

/* Prints a name as part of a URL: all but letters, digits and "-_." are written as %NN. */
static void print_escaped(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char one = (unsigned char)*at;
        const bool is_plain = (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') ||
                              (one >= 'A' && one <= 'Z') || strchr("-_.", one) != NULL;
        (void)printf(is_plain ? "%c" : "%%%02X", one);
    }
}

static void print_address(const struct cv_webserver *web)
{
    (void)printf("http://127.0.0.1:%u/", web->port);
    for (uint32_t i = 0; i < web->file_count; i++) {
        const char *slash = strrchr(web->files[i], '/');
        (void)printf("%cfile=", i == 0 ? '?' : '&');
        print_escaped(slash != NULL ? slash + 1 : web->files[i]);
    }
    (void)printf("\n");
    (void)fflush(stdout); /* a reader of a pipe may wait for it */
    cv__complain("open this address in a browser; press Ctrl-C to end");
}

static int serve(const char *folder, char *const *files, uint32_t file_count, uint16_t port)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a browser may go away at any time */
    uv_loop_t loop;
    struct cv_webserver web;
    struct cv_errtext why;
    uv_signal_t signals[2];
    if (uv_loop_init(&loop) != 0) {
        return cv__cannot("cannot create an event loop: %s", strerror(errno));
    }
    int status = EXIT_FINE;
    const bool is_open =
        cv__webserver_open(&web, &loop, folder, files, file_count, port, &why) == CV_OK;
    if (is_open) {
        static const int numbers[] = {SIGINT, SIGTERM};
        for (uint32_t i = 0; i < COUNT_OF(signals); i++) {
            (void)uv_signal_init(&loop, &signals[i]);
            (void)uv_signal_start(&signals[i], on_signal, numbers[i]);
        }
        print_address(&web);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        for (uint32_t i = 0; i < COUNT_OF(signals); i++) {
            uv_close((uv_handle_t *)&signals[i], NULL);
        }
    } else {
        status = cv__cannot("%s", why.text);
    }
    cv__webserver_close(&web);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until all is closed */
    (void)uv_loop_close(&loop);
    return status;
}

static int run(int argc, char **argv)
{
    static const struct option longs[] = {
        {"port", required_argument, NULL, 'p'},
        {0},
    };
    uint64_t port = 0;
    int option;
    while ((option = cv__command_option(argc, argv, "p:", longs)) != -1) {
        if (option != 'p' || !cv__command_number("--port", optarg, 0, 65535, &port)) {
            return EXIT_USAGE;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (access(argv[i], R_OK) != 0) {
            return cv__cannot("cannot read '%s': %s", argv[i], strerror(errno));
        }
    }
    char folder[PATH_MAX];
    if (!find_page(folder)) {
        return cv__cannot("this build has no playground ('%s'); 'make web' builds it", folder);
    }
    return serve(folder, argv + optind, (uint32_t)(argc - optind), (uint16_t)port);
}

const struct cv_verb cv__verb_play = {
    .name = "play",
    .summary = "show elections in a browser: stories, scenarios, recorded runs",
    .help =
        "usage: conclave play [FILE...] [--port N]\n\n"
        "Serves the playground on 127.0.0.1 and prints its address; Ctrl-C ends it. The page runs\n"
        "the simulator in the browser: change anything, go back, branch, ask why.\n\n"
        "FILE is a scenario, such as one written by 'conclave sim --shrink', or a trace of\n"
        "'conclave sim --trace'. Several FILEs are traces of 'conclave elect --trace', one for\n"
        "each process, and are shown together. Without FILE the page begins with its stories.\n\n"
        "  -p, --port N   listen on this port; default: any free one\n\n"
        "Exit status: 0 ended by the user, 2 bad input or no playground in this build.\n",
    .run = run,
};
