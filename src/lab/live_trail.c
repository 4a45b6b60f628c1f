/* src/lab/live_trail.c - see live_trail.h. */
#include "lab/live_trail.h"

#include "runtime/peers_trail.h"

struct wanted {
    uint64_t token;
    int64_t wall_ns;
};

static void on_past(void *user, const struct cv_store_past *past)
{
    struct wanted *w = user;
    w->wall_ns = past->token == w->token ? past->from_wall_ns : w->wall_ns;
}

static void on_damage(void *user, const char *line)
{
    (void)user; /* damaged entries are skipped */
    (void)line;
}

int64_t cv__lab_live_began(const struct cv_cluster *cluster, const char *member,
                           const char *election, uint64_t token)
{
    struct wanted w = {.token = token};
    struct cv_errtext why;
    const int code = cv__peers_trail_read(cluster, member, election, on_past, on_damage, &w, &why);
    return code == CV_OK ? w.wall_ns : 0;
}
