/* src/os/file.h - files that survive a crash, and locks that keep other processes out. */
#ifndef CV_OS_FILE_H
#define CV_OS_FILE_H

#include <conclave/errors.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Locks PATH.lock, which stays behind, empty. Closing *ret_fd ends it, and so does the end of the
 * process. CV_OK, CV_E_INVALID (not the name of a file) or CV_E_STORE (in use by another process,
 * or it cannot be made). */
CV_NODISCARD int cv__file_lock(const char *path, int *ret_fd, struct cv_errtext *reterr);

/* Makes the file, or replaces it: afterwards, and after a crash at any time, there is the old one
 * or the new one, whole. Uses PATH.new. CV_OK or CV_E_STORE. */
CV_NODISCARD int cv__file_replace(const char *path, const uint8_t *bytes, size_t byte_count,
                                  struct cv_errtext *reterr);

/* A file that was made or renamed keeps its name only once its folder is on the disk. False: errno
 * says why. */
bool cv__file_sync_name(const char *path);

#endif
