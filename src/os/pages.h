/* src/os/pages.h - a process that waits for months keeps no memory that only its start needed.
 *
 * For programs of ours, not for the library: an embedding program decides for itself. */
#ifndef CV_OS_PAGES_H
#define CV_OS_PAGES_H

/* Call it before threads start: glibc then keeps one heap, not one for each thread. */
void cv__pages_one_heap(void);

/* From now on, glibc gives back each large block that is freed, and does not keep it for later. */
void cv__pages_keep_no_blocks(void);

/* Gives back freed memory, and the pages of program and libraries that are only read. The kernel
 * keeps those pages in its cache, and maps each again when it is used: a library that was
 * loaded, relocated and initialised leaves megabytes behind of which little is used again. Any
 * thread, at any time. */
void cv__pages_give_back(void);

#endif
