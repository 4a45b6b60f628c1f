/* tests/stores/proxy.h - a TCP proxy on the test's own loop, which can misbehave. */
#ifndef CV_TESTS_STORES_PROXY_H
#define CV_TESTS_STORES_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct proxy;

/* Listens on a free port of the loopback interface and connects to target_port there. */
struct proxy *proxy_new(uv_loop_t *loop, int target_port);
int proxy_port(const struct proxy *proxy);

/* Delays what the server sends by so much. */
void proxy_delay_answers(struct proxy *proxy, uint64_t ms);
/* Loses what the server sends; requests still arrive. proxy_swallowed(): bytes lost so far. */
void proxy_swallow_answers(struct proxy *proxy, bool is_swallowing);
uint64_t proxy_swallowed(const struct proxy *proxy);
/* Replaces these bytes in what the server sends by as many others. NULL: stops. The texts are
 * lent. */
void proxy_rewrite_answers(struct proxy *proxy, const char *from, const char *to, size_t bytes);
uint64_t proxy_rewritten(const struct proxy *proxy); /* how often so far */
/* Keeps a copy of the next bytes from a client that contain this text; they are forwarded as well.
 * The text is lent. */
void proxy_copy_request(struct proxy *proxy, const char *text);
/* Sends that copy to the server once more, on a connection of its own; false: there is none. */
bool proxy_repeat_request(struct proxy *proxy);
uint64_t proxy_repeated(const struct proxy *proxy); /* copies that the server has answered */
/* proxy_cut() resets all connections. New ones are accepted, unless proxy_refuse() says
 * otherwise. */
void proxy_cut(struct proxy *proxy);
void proxy_refuse(struct proxy *proxy, bool is_refusing);
/* Bytes from clients to the server so far. */
uint64_t proxy_asked(const struct proxy *proxy);

/* Frees it after the loop has run once more. */
void proxy_free(struct proxy *proxy);

#endif
