/* src/supervisor/terminal.h - passes the terminal to the command and takes it back.
 *
 * The command has its own process group. A background group is stopped when it reads from the
 * terminal, and gets neither ^C nor ^Z. So the command's group becomes the foreground group while
 * it runs, and this process's group takes the terminal back when the command ends or is stopped.
 * All of these do nothing if standard input is not a terminal. */
#ifndef CV_SUPERVISOR_TERMINAL_H
#define CV_SUPERVISOR_TERMINAL_H

#include "core/types.h"

#include <sys/types.h>

/* Standard input is our terminal, and our group is in its foreground. */
bool cv__terminal_is_ours(void);

/* Gives the foreground to `group`. */
void cv__terminal_give(pid_t group);

/* Takes the foreground back, if `group` has it. */
void cv__terminal_take_from(pid_t group);

/* Stops our whole group by `signo`, as the terminal would have done, and returns when it is
 * continued. False, at once: there is no shell that could continue it. */
bool cv__terminal_suspend(int signo);

#endif
