/* src/stores/http_answer.h - reads one answer of an HTTP/1.1 server, in pieces of any size.
 *
 * Follows RFC 9112. What a server may do and etcd does not is refused rather than guessed: a length
 * and chunks together, two different lengths, an encoding other than `chunked`, folded headers.
 * Interim answers (100 Continue) are skipped. The bytes may come from anybody.
 *
 * Memory: one flat struct. Time: each byte is looked at once. No line and no head is longer than
 * CV_HTTP_HEAD_BYTES_MAX; the body is not kept here, and its user limits it. */
#ifndef CV_STORES_HTTP_ANSWER_H
#define CV_STORES_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CV_HTTP_HEAD_BYTES_MAX (64u << 10) /* all headers and trailers of an answer together */
#define CV_HTTP_LINE_BYTES 256             /* as much of a line is kept */

enum cv_http_state {
    CV_HTTP_STATUS, /* waits for the status line */
    CV_HTTP_HEADERS,
    CV_HTTP_BODY,        /* `left` bytes of it */
    CV_HTTP_BODY_TO_END, /* until the connection ends */
    CV_HTTP_CHUNK_SIZE,
    CV_HTTP_CHUNK,     /* `left` bytes of it */
    CV_HTTP_CHUNK_END, /* an empty line */
    CV_HTTP_TRAILERS,
    CV_HTTP_DONE,
    CV_HTTP_FAILED, /* `why` says why */
};

/* Zero is an answer of which nothing was read. */
struct cv_http_answer {
    enum cv_http_state state;
    int status;      /* 100..599 as soon as the status line was read */
    bool has_begun;  /* at least one byte was read */
    bool is_last;    /* the server will close the connection after this answer */
    bool is_chunked; /* Transfer-Encoding: chunked */
    bool has_length; /* Content-Length, in `left` */
    uint64_t left;   /* bytes of the body or chunk that are still to come */
    uint32_t head_bytes;
    uint32_t line_bytes; /* of the present line, also those that are not kept */
    char line[CV_HTTP_LINE_BYTES];
    const char *why; /* FAILED: a part of a sentence, "it ..." */
};

/* Reads from `data` until there is a piece of the body, or nothing is left, or the answer is done
 * or has failed. Returns how many bytes were read: at least one, unless it is done or has failed.
 * The piece (ret_body_bytes may be 0) is a part of `data`. */
size_t cv__http_answer_read(struct cv_http_answer *answer, const char *data, size_t bytes,
                            const char **ret_body, size_t *ret_body_bytes);

/* The connection has ended: now the answer is done or has failed. */
void cv__http_answer_end(struct cv_http_answer *answer);

bool cv__http_answer_is_over(const struct cv_http_answer *answer); /* done or failed */

#endif
