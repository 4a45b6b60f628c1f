/* src/os/file.h - files that survive a crash, and locks that keep other processes out. */
#ifndef CV_OS_FILE_H
#define CV_OS_FILE_H

#include <conclave/errors.h>

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Locks PATH.lock, an empty file that is never removed. The lock ends when *ret_fd is closed or the
 * process ends. CV_OK, CV_E_INVALID (not the name of a file) or CV_E_STORE (in use by another
 * process, or the file cannot be created). */
CV_NODISCARD int cv__file_lock(const char *path, int *ret_fd, struct cv_errtext *reterr);

/* Creates the file, or replaces it atomically: after a crash at any time, the old or the new file
 * is there, complete. Uses PATH.new. CV_OK or CV_E_STORE. */
CV_NODISCARD int cv__file_replace(const char *path, const uint8_t *bytes, size_t byte_count,
                                  struct cv_errtext *reterr);

/* Syncs the folder of a file: until then, a crash can undo the creation or renaming of the file.
 * False: errno says why. */
bool cv__file_sync_name(const char *path);

#endif
