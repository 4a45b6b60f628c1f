/* tests/unit/test_pages.c - what src/os/pages.h promises: pages go, and nothing changes. */
#include "os/pages.h"

#include "support/support.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The pages of files that this process has mapped and used. */
static long file_kib(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = -1;
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "RssFile:", strlen("RssFile:")) == 0) {
            value = strtol(line + strlen("RssFile:"), NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return value;
}

/* Reads a byte of each page of a segment that is only read. */
static int use_pages(struct dl_phdr_info *object, size_t bytes, void *sum)
{
    (void)bytes;
    for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const bool is_used =
            part->p_type == PT_LOAD && (part->p_flags & PF_W) == 0 && object->dlpi_name[0] == '/';
        const volatile char *at = (const volatile char *)(object->dlpi_addr + part->p_vaddr);
        for (size_t offset = 0; is_used && offset < part->p_filesz; offset += 4096) {
            *(uint64_t *)sum += (uint64_t)(unsigned char)at[offset];
        }
    }
    return 0;
}

static uint64_t use_all_libraries(void)
{
    uint64_t sum = 0;
    (void)dl_iterate_phdr(use_pages, &sum);
    return sum;
}

static void unused_pages_of_libraries_are_given_back(void **unused)
{
    (void)unused;
    if (getenv("CV_TEST_VALGRIND") != NULL) {
        return; /* its own code counts, too */
    }
    (void)use_all_libraries();
    const long before_kib = file_kib();
    assert_true(before_kib > 1024);
    cv__pages_give_back();
    const long after_kib = file_kib();
    print_message("# %ld KiB, then %ld\n", before_kib, after_kib);
    assert_true(after_kib < before_kib * 2 / 3);
}

#define OBJECTS_MAX 64u

struct heads {
    uintptr_t at[OBJECTS_MAX]; /* the first pages of libraries, which have their headers */
    uint32_t count;
};

static int note_head(struct dl_phdr_info *object, size_t bytes, void *heads)
{
    (void)bytes;
    struct heads *h = heads;
    if (object->dlpi_name[0] == '/' && h->count < OBJECTS_MAX) {
        h->at[h->count++] = object->dlpi_addr;
    }
    return 0;
}

static uint32_t mapped_count(const struct heads *heads)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    FILE *map = fopen("/proc/self/pagemap", "re");
    uint32_t count = 0;
    assert_non_null(map);
    for (uint32_t i = 0; i < heads->count; i++) {
        uint64_t entry = 0;
        assert_int_equal(fseek(map, (long)(heads->at[i] / page * sizeof entry), SEEK_SET), 0);
        assert_int_equal(fread(&entry, sizeof entry, 1, map), 1);
        count += (uint32_t)(entry >> 63);
    }
    (void)fclose(map);
    return count;
}

/* To find the segments, the headers of each library must be read. */
static void headers_are_given_back_too(void **unused)
{
    (void)unused;
    struct heads heads = {.count = 0};
    if (getenv("CV_TEST_VALGRIND") != NULL) {
        return;
    }
    void *idle[] = {dlopen("libm.so.6", RTLD_NOW), dlopen("libresolv.so.2", RTLD_NOW)};
    assert_true(idle[0] != NULL && idle[1] != NULL);
    (void)dl_iterate_phdr(note_head, &heads);
    (void)use_all_libraries();
    assert_int_equal(mapped_count(&heads), heads.count);
    cv__pages_give_back();
    const uint32_t left = mapped_count(&heads);
    print_message("# %u of %u are mapped again\n", left, heads.count);
    assert_true(left <= heads.count - COUNT_OF(idle)); /* this test itself uses the others */
    for (uint32_t i = 0; i < COUNT_OF(idle); i++) {
        assert_int_equal(dlclose(idle[i]), 0);
    }
}

/* Data, and tables of pointers that the loader has filled in. */
static int changed = 1;
static int *const table[] = {&changed, &changed};
static int *const *volatile tables = table;

static void whatever_was_written_stays(void **unused)
{
    (void)unused;
    char *text = strdup("kept");
    assert_non_null(text);
    changed = 42;
    const uint64_t sum = use_all_libraries();
    for (int i = 0; i < 3; i++) {
        cv__pages_give_back();
    }
    assert_int_equal(*tables[0], 42);
    assert_ptr_equal(tables[1], &changed);
    assert_string_equal(text, "kept");
    assert_true(use_all_libraries() == sum);
    free(text);
}

/* A member of a cluster locks its memory; such pages stay. */
static void locked_memory_is_no_failure(void **unused)
{
    (void)unused;
    if (mlockall(MCL_CURRENT) != 0) {
        return; /* not permitted */
    }
    const uint64_t sum = use_all_libraries();
    cv__pages_give_back();
    assert_true(use_all_libraries() == sum);
    assert_int_equal(munlockall(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_pages_of_libraries_are_given_back),
        cmocka_unit_test(headers_are_given_back_too),
        cmocka_unit_test(whatever_was_written_stays),
        cmocka_unit_test(locked_memory_is_no_failure),
    };
    cv__pages_one_heap();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
