/* src/stores/http_answer.c - see http_answer.h. */
#include "stores/http_answer.h"

#include "core/types.h"

#include <string.h>
#include <strings.h>

#define LENGTH_MAX (UINT64_C(1) << 48) /* so that no sum of lengths can overflow */

static void fail(struct cv_http_answer *answer, const char *why)
{
    CV_ASSERT(answer->state != CV_HTTP_DONE);
    answer->state = CV_HTTP_FAILED;
    answer->why = why;
}

bool cv__http_answer_is_over(const struct cv_http_answer *answer)
{
    return answer->state == CV_HTTP_DONE || answer->state == CV_HTTP_FAILED;
}

/* ---- Headers --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* "HTTP/1.1 200 OK"; the text after the number may be missing. */
static void take_status(struct cv_http_answer *answer)
{
    const char *line = answer->line;
    const bool is_http = strncmp(line, "HTTP/1.", 7) == 0 && is_digit(line[7]) && line[8] == ' ' &&
                         is_digit(line[9]) && is_digit(line[10]) && is_digit(line[11]) &&
                         (line[12] == ' ' || line[12] == '\0');
    const int status =
        is_http ? (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0') : 0;
    if (status < 100 || status > 599) {
        fail(answer, "does not speak HTTP");
        return;
    }
    answer->status = status;
    answer->is_last = line[7] == '0'; /* HTTP/1.0 */
    answer->is_chunked = answer->has_length = false;
    answer->left = 0;
    answer->state = CV_HTTP_HEADERS;
}

/* Decimal digits and nothing else. */
static bool read_length(const char *text, uint64_t *ret_length)
{
    uint64_t length = 0;
    const char *at = text;
    for (; is_digit(*at) && length < LENGTH_MAX; at++) {
        length = length * 10 + (uint64_t)(*at - '0');
    }
    *ret_length = length;
    return at != text && *at == '\0' && length < LENGTH_MAX;
}

static void take_length(struct cv_http_answer *answer, const char *value)
{
    uint64_t length;
    if (!read_length(value, &length) || (answer->has_length && length != answer->left)) {
        fail(answer, "sent a Content-Length that is wrong");
        return;
    }
    answer->has_length = true;
    answer->left = length;
}

/* Is this word in a list with commas? */
static bool has_word(const char *list, const char *word)
{
    while (*list != '\0') {
        const size_t bytes = strcspn(list, ", \t");
        if (bytes == strlen(word) && strncasecmp(list, word, bytes) == 0) {
            return true;
        }
        list += bytes;
        list += strspn(list, ", \t");
    }
    return false;
}

/* The value without blanks around it, if the header has this name; otherwise NULL. */
static const char *value_of(char *line, const char *name)
{
    const size_t bytes = strlen(name);
    if (strncasecmp(line, name, bytes) != 0 || line[bytes] != ':') {
        return NULL;
    }
    char *value = line + bytes + 1;
    while (is_blank(*value)) {
        value++;
    }
    size_t length = strlen(value);
    while (length > 0 && is_blank(value[length - 1])) {
        value[--length] = '\0';
    }
    return value;
}

static void take_header(struct cv_http_answer *answer)
{
    const size_t name_bytes = strcspn(answer->line, ": \t");
    const bool is_cut = answer->line_bytes >= CV_HTTP_LINE_BYTES;
    const char *length = value_of(answer->line, "Content-Length");
    const char *encoding = value_of(answer->line, "Transfer-Encoding");
    const char *connection = value_of(answer->line, "Connection");
    const char after_name = answer->line[name_bytes];
    if (name_bytes == 0 || (after_name != ':' && !(after_name == '\0' && is_cut))) {
        fail(answer, "sent a header without a name");
    } else if (is_cut && (length != NULL || encoding != NULL || connection != NULL)) {
        fail(answer, "sent a header that is too long"); /* its end may say something else */
    } else if (length != NULL) {
        take_length(answer, length);
    } else if (encoding != NULL && (strcasecmp(encoding, "chunked") != 0 || answer->is_chunked)) {
        fail(answer, "sent an unknown Transfer-Encoding");
    } else if (encoding != NULL) {
        answer->is_chunked = true;
    } else if (connection != NULL) {
        answer->is_last = answer->is_last || has_word(connection, "close");
    }
}

/* The empty line after the headers: what comes now? */
static void end_headers(struct cv_http_answer *answer)
{
    const bool is_empty = answer->status == 204 || answer->status == 304;
    if (answer->is_chunked && answer->has_length) {
        fail(answer, "sent both a length and chunks");
    } else if (answer->status == 101) {
        fail(answer, "changed the protocol");
    } else if (answer->status < 200) {
        answer->state = CV_HTTP_STATUS; /* the answer itself is still to come */
    } else if (is_empty || (answer->has_length && answer->left == 0)) {
        answer->state = CV_HTTP_DONE;
    } else if (answer->is_chunked) {
        answer->state = CV_HTTP_CHUNK_SIZE;
    } else if (answer->has_length) {
        answer->state = CV_HTTP_BODY;
    } else {
        answer->is_last = true;
        answer->state = CV_HTTP_BODY_TO_END;
    }
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    const char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Hexadecimal digits; what follows after a semicolon is for others. */
static void take_chunk_size(struct cv_http_answer *answer)
{
    const char *at = answer->line;
    uint64_t size = 0;
    for (; hex_digit(*at) >= 0 && size < LENGTH_MAX; at++) {
        size = size * 16 + (uint64_t)hex_digit(*at);
    }
    const bool is_cut = answer->line_bytes >= CV_HTTP_LINE_BYTES;
    const bool has_digits = at != answer->line;
    while (is_blank(*at)) {
        at++;
    }
    if (is_cut || !has_digits || size >= LENGTH_MAX || (*at != '\0' && *at != ';')) {
        fail(answer, "sent a chunk of an unknown size");
        return;
    }
    answer->left = size;
    answer->state = size > 0 ? CV_HTTP_CHUNK : CV_HTTP_TRAILERS;
}

/* ---- Lines and bytes ------------------------------------------------------------------------- */

/* A whole line is in answer->line, without its end. */
static void take_line(struct cv_http_answer *answer)
{
    const bool is_empty = answer->line_bytes == 0;
    switch (answer->state) {
    case CV_HTTP_STATUS:
        take_status(answer);
        break;
    case CV_HTTP_HEADERS:
        if (is_empty) {
            end_headers(answer);
        } else {
            take_header(answer);
        }
        break;
    case CV_HTTP_CHUNK_SIZE:
        take_chunk_size(answer);
        break;
    case CV_HTTP_CHUNK_END:
        answer->state = CV_HTTP_CHUNK_SIZE;
        if (!is_empty) {
            fail(answer, "sent a chunk that is longer than its size");
        }
        break;
    case CV_HTTP_TRAILERS: /* they say nothing that we want to know */
        answer->state = is_empty ? CV_HTTP_DONE : CV_HTTP_TRAILERS;
        break;
    case CV_HTTP_BODY:
    case CV_HTTP_BODY_TO_END:
    case CV_HTTP_CHUNK:
    case CV_HTTP_DONE:
    case CV_HTTP_FAILED:
        CV_ASSERT(!"no line is expected in this state");
    }
    answer->line_bytes = 0;
}

/* Reads up to the end of a line, or of the data. */
static size_t read_line(struct cv_http_answer *answer, const char *data, size_t bytes)
{
    const char *end = memchr(data, '\n', bytes);
    const size_t more = end != NULL ? (size_t)(end - data) : bytes;
    const bool is_chunk = answer->state == CV_HTTP_CHUNK_SIZE || answer->state == CV_HTTP_CHUNK_END;
    const size_t before = is_chunk ? answer->line_bytes : answer->head_bytes;
    if (more > CV_HTTP_HEAD_BYTES_MAX - before) {
        fail(answer, "sent headers that are too long");
        return bytes;
    }
    const size_t kept =
        answer->line_bytes < CV_HTTP_LINE_BYTES ? answer->line_bytes : CV_HTTP_LINE_BYTES - 1;
    const size_t room = CV_HTTP_LINE_BYTES - 1 - kept;
    const size_t copied = more < room ? more : room;
    memcpy(answer->line + kept, data, copied);
    answer->line[kept + copied] = '\0';
    answer->line_bytes += (uint32_t)more;
    answer->head_bytes += is_chunk ? 0 : (uint32_t)more;
    CV_ASSERT(answer->head_bytes <= CV_HTTP_HEAD_BYTES_MAX);
    if (end == NULL) {
        return bytes;
    }
    if (memchr(answer->line, '\0', kept + copied) != NULL) {
        fail(answer, "does not speak HTTP");
        return bytes;
    }
    const bool is_whole = answer->line_bytes < CV_HTTP_LINE_BYTES;
    if (is_whole && answer->line_bytes > 0 && answer->line[answer->line_bytes - 1] == '\r') {
        answer->line[--answer->line_bytes] = '\0';
    }
    take_line(answer);
    return more + 1;
}

/* A piece of the body or of a chunk. */
static size_t read_body(struct cv_http_answer *answer, size_t bytes)
{
    if (answer->state == CV_HTTP_BODY_TO_END) {
        return bytes;
    }
    CV_ASSERT(answer->left > 0);
    const size_t piece = bytes < answer->left ? bytes : (size_t)answer->left;
    answer->left -= piece;
    if (answer->left == 0) {
        answer->state = answer->state == CV_HTTP_BODY ? CV_HTTP_DONE : CV_HTTP_CHUNK_END;
    }
    return piece;
}

size_t cv__http_answer_read(struct cv_http_answer *answer, const char *data, size_t bytes,
                            const char **ret_body, size_t *ret_body_bytes)
{
    size_t at = 0;
    *ret_body = data;
    *ret_body_bytes = 0;
    answer->has_begun = answer->has_begun || bytes > 0;
    while (at < bytes && *ret_body_bytes == 0 && !cv__http_answer_is_over(answer)) {
        if (answer->state == CV_HTTP_BODY || answer->state == CV_HTTP_BODY_TO_END ||
            answer->state == CV_HTTP_CHUNK) {
            *ret_body = data + at;
            *ret_body_bytes = read_body(answer, bytes - at);
            at += *ret_body_bytes;
        } else {
            at += read_line(answer, data + at, bytes - at);
        }
    }
    CV_ASSERT(at <= bytes);
    CV_ASSERT(at > 0 || bytes == 0 || cv__http_answer_is_over(answer));
    return at;
}

void cv__http_answer_end(struct cv_http_answer *answer)
{
    CV_ASSERT(!cv__http_answer_is_over(answer));
    if (answer->state == CV_HTTP_BODY_TO_END) {
        answer->state = CV_HTTP_DONE;
    } else {
        fail(answer, answer->has_begun ? "closed the connection in the middle of an answer"
                                       : "closed the connection without an answer");
    }
}
