/* src/runtime/persist.h - the durable record of a protocol, in a small file.
 *
 * A save writes a new file beside the old one, syncs it, renames it, and syncs the folder: after a
 * crash there is either the whole old record or the whole new one. A file that is damaged, belongs
 * to another protocol or is in use by another process is refused, never repaired by guessing.
 * PATH.lock serves as a lock; it stays behind, empty.
 *
 * The file: "CVP1", the number of words (32 bits), the protocol's name (32 bytes, padded with
 * zeros), the words (64 bits), a check sum of all that (64 bits, FNV-1a); little endian. */
#ifndef CV_RUNTIME_PERSIST_H
#define CV_RUNTIME_PERSIST_H

#include "runtime/host.h"

struct cv_persist;

/* Returns CV_OK, CV_E_STORE, CV_E_INVALID or CV_E_MEMORY. The file need not be there yet. */
CV_NODISCARD int cv__persist_open(const char *path, const char *protocol,
                                  struct cv_persist **ret_persist, struct cv_errtext *reterr);
/* NULL is fine. Not while a save is under way. */
void cv__persist_close(struct cv_persist *persist);

/* CV_E_MALFORMED: the file is not what was saved. Without a file: CV_OK and no words. */
CV_NODISCARD int cv__persist_load(struct cv_persist *persist, uint64_t ret_word[],
                                  uint32_t *ret_count, struct cv_errtext *reterr);
CV_NODISCARD int cv__persist_save(struct cv_persist *persist, const uint64_t *word,
                                  uint32_t word_count, struct cv_errtext *reterr);

/* The two as a host's service. */
struct cv_host_persist cv__persist_service(struct cv_persist *persist);

#endif
