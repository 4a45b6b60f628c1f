/* src/supervisor/child.h - which children of this process the supervisor must not kill.
 *
 * The supervisor is a subreaper too: when the guard dies, the command's descendants become its
 * children, and it must kill and reap all of them. A hook is a child as well, and must be left
 * alone. So the code that starts a hook claims the child. Children belong to the whole process, and
 * so does this list. */
#ifndef CV_SUPERVISOR_CHILD_H
#define CV_SUPERVISOR_CHILD_H

#include "core/types.h"

#include <sys/types.h>

/* Makes room for `count` claims; false: no memory. Call it before a child is started: a child that
 * cannot be claimed would be killed with those of the command. */
CV_NODISCARD bool cv__child_reserve(uint32_t count);

/* Room must have been reserved. */
void cv__child_claim(pid_t pid);
void cv__child_disclaim(pid_t pid);
bool cv__child_has_claims(void);
bool cv__child_is_claimed(pid_t pid);

#endif
