/* src/supervisor/child.c - see child.h. */
#include "supervisor/child.h"

static pid_t claims[CV_CLAIMS_MAX]; /* 0: free */

void cv__child_claim(pid_t pid)
{
    CV_ASSERT(pid > 0);
    for (uint32_t i = 0; i < CV_CLAIMS_MAX; i++) {
        if (claims[i] == 0 || claims[i] == pid) {
            claims[i] = pid;
            return;
        }
    }
}

void cv__child_disclaim(pid_t pid)
{
    for (uint32_t i = 0; i < CV_CLAIMS_MAX; i++) {
        if (claims[i] == pid) {
            claims[i] = 0;
        }
    }
}

bool cv__child_is_claimed(pid_t pid)
{
    for (uint32_t i = 0; i < CV_CLAIMS_MAX; i++) {
        if (claims[i] == pid) {
            return true;
        }
    }
    return false;
}
