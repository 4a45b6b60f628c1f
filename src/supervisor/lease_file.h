/* src/supervisor/lease_file.h - the leadership as a small file that the command can read.
 *
 * `conclave run` maps it and keeps it up to date; its path is the command's CONCLAVE_LEASE_FILE,
 * and `conclave check-lease` reads it. One page, fixed layout, native byte order: it never leaves
 * the machine. Mode 0600 in a folder of this user.
 *
 * Consistent without locks: there are two slots, the sequence number says which slot is valid, and
 * a writer fills the other slot before it increments the number. So a writer that is stopped
 * halfway blocks no reader. The guard writes one word itself: the number of the run that it has
 * ended. The supervisor keeps the file locked. If supervisor and guard were killed, the file is
 * left behind without a lock, and the next supervisor that makes a file in the folder removes it.
 * Until then it is harmless: its time runs out, and it names its boot. */
#ifndef CV_SUPERVISOR_LEASE_FILE_H
#define CV_SUPERVISOR_LEASE_FILE_H

#include "core/types.h"

#include <stdatomic.h>

#define CV_LEASE_FILE_BYTES 4096u
#define CV_LEASE_FILE_VERSION 1u
#define CV_LEASE_PATH_BYTES 512
#define CV_LEASE_BOOT_BYTES 40

struct cv_lease_slot {
    _Atomic uint64_t run; /* counts the starts of the command; 0: none yet */
    _Atomic uint64_t token;
    _Atomic int64_t valid_until_ns; /* CLOCK_BOOTTIME */
};

/* What is in the file. Offsets are part of the format: see docs/supervisor.md. */
struct cv_lease_page {
    char magic[8];    /* "CVLEASE" and a zero */
    uint32_t version; /* CV_LEASE_FILE_VERSION */
    uint32_t bytes;   /* sizeof (struct cv_lease_page) */
    char boot_id[CV_LEASE_BOOT_BYTES];
    _Atomic uint64_t sequence;    /* offset 56; slot sequence % 2 counts */
    struct cv_lease_slot slot[2]; /* offset 64, 24 bytes each */
    _Atomic uint64_t ended_run;   /* offset 112: written by the guard */
    char election[256];           /* offset 120, with a final zero */
    char node[128];
};

/* What a reader learns. */
struct cv_lease_file_view {
    uint64_t token;
    int64_t valid_until_ns;
    bool is_valid; /* at the instant that it was asked for */
};

struct cv_lease_file {
    struct cv_lease_page *page; /* NULL: there is none */
    int lock_fd;                /* close on exec */
    char path[CV_LEASE_PATH_BYTES];
};

/* Makes the file in the folder for such files (see lease_file.c) and maps it. If no such folder can
 * be used, fallback_folder() names another (NULL: there is none, or the function itself is
 * NULL). */
CV_NODISCARD int cv__lease_file_make(struct cv_lease_file *ret_file, const char *election,
                                     const char *node, const char *(*fallback_folder)(void),
                                     struct cv_errtext *reterr);
/* Removes the file; does nothing if it was never made. */
void cv__lease_file_remove(struct cv_lease_file *file);
/* The supervisor calls it for a new run, and when the end of the lease has moved. */
void cv__lease_file_publish(struct cv_lease_page *page, uint64_t run, uint64_t token,
                            int64_t valid_until_ns);
/* The guard calls it: this run has ended, even if its lease has not. */
void cv__lease_file_end(struct cv_lease_page *page, uint64_t run);

/* Never mixes two updates. */
struct cv_lease_file_view cv__lease_file_read(const struct cv_lease_page *page, int64_t now_ns);

/* Maps a file for reading. CV_E_IO: it cannot be opened; CV_E_MALFORMED: it is not a lease file, or
 * it is from another boot of the machine. */
CV_NODISCARD int cv__lease_file_open(const char *path, const struct cv_lease_page **ret_page,
                                     struct cv_errtext *reterr);
void cv__lease_file_close(const struct cv_lease_page *page);

#endif
