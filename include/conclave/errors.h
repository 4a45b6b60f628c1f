/* conclave/errors.h - the error codes, their texts, and the one-line explanation of a failure.
 *
 * Zero is success. The codes begin at -7001, outside errno and libuv, so that a reader recognises
 * them. Codes and texts never change their meaning. */
#ifndef CONCLAVE_ERRORS_H
#define CONCLAVE_ERRORS_H

#ifdef __cplusplus
extern "C" {
#endif

#define CV_ERR_MAP(X)                                                \
    X(INVALID, -7001, "an argument is outside its documented range") \
    X(MALFORMED, -7002, "a message or file does not decode")         \
    X(STORE, -7003, "durable state could not be written or read")    \
    X(UNKNOWN, -7004, "there is nothing of that name")               \
    X(MEMORY, -7005, "out of memory")                                \
    X(IO, -7006, "a file could not be read or written")              \
    X(LIMIT, -7007, "no descriptors or threads are left")            \
    X(TIMEOUT, -7008, "it did not happen in the given time")

enum {
    CV_OK = 0,
#define CV_ERR_ENUM(name, code, text) CV_E_##name = (code),
    CV_ERR_MAP(CV_ERR_ENUM)
#undef CV_ERR_ENUM
};

#define CV_ERRTEXT_BYTES 512

/* One line: what was tried, on what, and why it failed. Written on failure only. */
struct cv_errtext {
    char text[CV_ERRTEXT_BYTES];
};

/* The fixed text of a code; "unknown error" for a number that is not a code. */
const char *cv_strerror(int code);

#if defined(__GNUC__)
#define CV_NODISCARD __attribute__((warn_unused_result))
#define CV_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#else
#define CV_NODISCARD
#define CV_PRINTF(format_at, args_at)
#endif

#ifdef __cplusplus
}
#endif
#endif
