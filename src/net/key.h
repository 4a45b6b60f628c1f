/* src/net/key.h - the key that the members of a group share, and its file.
 *
 * A key file is one line, "conclave-key-1 " and 64 hexadecimal digits. A file that other users
 * can read is refused, because its key is not secret. */
#ifndef CV_NET_KEY_H
#define CV_NET_KEY_H

#include <conclave/errors.h>

#include <stdint.h>

#define CV_KEY_BYTES 32u

struct cv_key {
    uint8_t bytes[CV_KEY_BYTES];
};

/* A new one. Returns CV_OK, or CV_E_IO if the crypto library cannot be used here. */
CV_NODISCARD int cv__key_generate(struct cv_key *ret_key, struct cv_errtext *reterr);

/* Makes the file, readable by its owner only. An existing file is not changed: CV_E_IO. */
CV_NODISCARD int cv__key_write(const struct cv_key *key, const char *path,
                               struct cv_errtext *reterr);

/* Returns CV_OK, CV_E_IO, CV_E_MALFORMED (no key file), or CV_E_INVALID (others may read it). */
CV_NODISCARD int cv__key_read(const char *path, struct cv_key *ret_key, struct cv_errtext *reterr);

/* The line of its file, with newline and final zero. */
#define CV_KEY_LINE_BYTES (15u + 2u * CV_KEY_BYTES + 2u)
void cv__key_format(const struct cv_key *key, char line[CV_KEY_LINE_BYTES]);

/* Wipes it from memory. */
void cv__key_forget(struct cv_key *key);

#endif
