/* src/stores/sqlite_file.h - checks that all contenders use the same file.
 *
 * Processes that open a database by different paths have different logs (PATH-wal) and different
 * folders of pipes, and would elect two leaders with the same tokens. So a file has exactly one
 * name: no second hard link, symbolic links are resolved first, and it is not mounted by itself.
 * And it must stay where it is: removing or replacing it would leave a leader behind in a file that
 * no other process sees.
 *
 * The folder of the pipes shows which holders are dead. A process that can write there can fake the
 * death of a leader. So the folder must belong to the owner of the file or to this user, and only
 * they and their group may write to it. */
#ifndef CV_STORES_SQLITE_FILE_H
#define CV_STORES_SQLITE_FILE_H

#include "core/types.h"

#include <conclave/conclave.h>

#include <sys/types.h>

#define CV_BOOT_BYTES 96
#define CV_BOOT_ID_BYTES 36 /* at its begin: the kernel's own number of the boot */

/* Which file it was when it was opened. */
struct cv_sqlite_file {
    dev_t device;
    ino_t inode;
    uid_t owner;
    bool is_public; /* every user of the host can read it */
};

/* Makes the file if it is missing, for its owner and group as far as the umask lets them. A failure
 * is left for opening it to explain. */
void cv__sqlite_file_make(const char *path);

/* `path` is resolved. Refuses a file with several names. */
CV_NODISCARD int cv__sqlite_file_look(const char *path, struct cv_sqlite_file *ret_file,
                                      struct cv_errtext *reterr);

/* Is it still the same? */
CV_NODISCARD int cv__sqlite_file_check(const char *path, const struct cv_sqlite_file *file,
                                       struct cv_errtext *reterr);

/* Makes the folder if it is missing, and refuses one that others could abuse. */
CV_NODISCARD int cv__sqlite_folder_make(const char *folder, const struct cv_sqlite_file *file,
                                        struct cv_errtext *reterr);

/* The boot of this kernel, and the time namespace if it is not the first: clocks that can be
 * compared have the same text. Empty: it cannot be told. */
void cv__sqlite_boot(char ret_boot[CV_BOOT_BYTES]);

/* Who else has locked the database, e.g. " by process 17 (sqlite3), which is stopped"; or nothing.
 * Only looks at /proc: opening and closing the file would give up our own locks. */
void cv__sqlite_locker(const char *path, char *ret_text, size_t text_bytes);

#endif
