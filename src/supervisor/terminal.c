/* src/supervisor/terminal.c - see terminal.h. */
#include "supervisor/terminal.h"

#include <signal.h>
#include <unistd.h>

bool cv__terminal_is_ours(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp(); /* -1: no terminal, or not ours */
}

/* From the background, tcsetpgrp() stops a process that does not block SIGTTOU. */
static void set_foreground(pid_t group)
{
    sigset_t output;
    sigset_t before;
    (void)sigemptyset(&output);
    (void)sigaddset(&output, SIGTTOU);
    (void)pthread_sigmask(SIG_BLOCK, &output, &before);
    (void)tcsetpgrp(STDIN_FILENO, group); /* a terminal that was hung up is nobody's */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cv__terminal_give(pid_t group)
{
    if (group > 0 && cv__terminal_is_ours()) {
        set_foreground(group);
    }
}

void cv__terminal_take_from(pid_t group)
{
    if (group > 0 && tcgetpgrp(STDIN_FILENO) == group) {
        set_foreground(getpgrp());
    }
}

bool cv__terminal_suspend(int signo)
{
    /* An orphaned group: the parent is not a shell of this session that waits for us. The kernel
     * ignores these signals then. */
    const pid_t parent = getppid();
    if (getsid(parent) != getsid(0) || getpgid(parent) == getpgrp()) {
        return false;
    }
    (void)kill(0, signo);
    return true;
}
