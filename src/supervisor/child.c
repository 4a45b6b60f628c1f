/* src/supervisor/child.c - see child.h. */
#include "supervisor/child.h"

#include <stdlib.h>
#include <string.h>

static pid_t few[16];       /* enough for most programs, without allocation */
static pid_t *claims = few; /* 0: free */
static uint32_t claim_count = COUNT_OF(few);

bool cv__child_reserve(uint32_t count)
{
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < claim_count; i++) {
        free_count += claims[i] == 0;
    }
    if (free_count >= count) {
        return true;
    }
    const uint32_t wanted = claim_count + (count - free_count);
    pid_t *larger = realloc(claims == few ? NULL : claims, wanted * sizeof *claims);
    if (larger == NULL) {
        return false;
    }
    if (claims == few) {
        memcpy(larger, few, sizeof few);
    }
    claims = larger;
    while (claim_count < wanted) {
        claims[claim_count++] = 0;
    }
    return true;
}

void cv__child_claim(pid_t pid)
{
    CV_ASSERT(pid > 0);
    bool is_noted = false;
    for (uint32_t i = 0; i < claim_count && !is_noted; i++) {
        if (claims[i] == 0 || claims[i] == pid) {
            claims[i] = pid;
            is_noted = true;
        }
    }
    CV_ASSERT(is_noted); /* there is room: the caller has reserved it */
}

void cv__child_disclaim(pid_t pid)
{
    for (uint32_t i = 0; i < claim_count; i++) {
        if (claims[i] == pid) {
            claims[i] = 0;
        }
    }
}

bool cv__child_has_claims(void)
{
    for (uint32_t i = 0; i < claim_count; i++) {
        if (claims[i] != 0) {
            return true;
        }
    }
    return false;
}

bool cv__child_is_claimed(pid_t pid)
{
    for (uint32_t i = 0; i < claim_count; i++) {
        if (claims[i] == pid) {
            return true;
        }
    }
    return false;
}
