/* src/os/pages.c - see pages.h. */
#include "os/pages.h"

#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void cv__pages_one_heap(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, 1); /* if it fails, more memory is used */
#endif
}

void cv__pages_keep_no_blocks(void)
{
#ifdef __GLIBC__
    /* Its default at first; it would grow with the first such block that is freed. */
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10); /* if it fails, more memory is used */
#endif
}

#define PARTS_MAX 32u /* program headers of one object; usual are 9 to 13 */

struct object {
    uintptr_t base;
    /* A copy: the headers are in the first page, which would be mapped again to read them, together
     * with 15 others. */
    ElfW(Phdr) part[PARTS_MAX];
    uint32_t part_count;
};

/* Was its code changed when it was loaded? Then its pages are not those of the file. */
static bool has_relocated_code(const struct object *object)
{
    for (uint32_t i = 0; i < object->part_count; i++) {
        const ElfW(Phdr) *part = &object->part[i];
        if (part->p_type != PT_DYNAMIC) {
            continue;
        }
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->base + part->p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_TEXTREL ||
                (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) {
                return true;
            }
        }
    }
    return false;
}

static int drop_pages(struct dl_phdr_info *info, size_t bytes, void *page_bytes)
{
    (void)bytes;
    const uintptr_t page = *(const uintptr_t *)page_bytes;
    struct object object = {.base = info->dlpi_addr, .part_count = info->dlpi_phnum};
    if (object.part_count > PARTS_MAX) {
        return 0;
    }
    memcpy(object.part, info->dlpi_phdr, object.part_count * sizeof object.part[0]);
    if (has_relocated_code(&object)) {
        return 0;
    }
    for (uint32_t i = 0; i < object.part_count; i++) {
        const ElfW(Phdr) *part = &object.part[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W) != 0) {
            continue;
        }
        const uintptr_t begin = (object.base + part->p_vaddr) & ~(page - 1);
        const uintptr_t end =
            (object.base + part->p_vaddr + part->p_filesz + page - 1) & ~(page - 1);
        /* Fails for locked pages, and for those of the kernel: they stay. */
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    return 0;
}

void cv__pages_give_back(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)dl_iterate_phdr(drop_pages, &page); /* its result is that of drop_pages() */
}
