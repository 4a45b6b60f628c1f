/* src/modules/module.c - finds a module in one of three folders and loads it with dlopen(3). */
#include "modules/module.h"

#include "core/errors.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOADED_MAX 16u

/* Modules stay loaded. Entries are only added, and all threads share them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[32];
    const void *table;
} loaded[LOADED_MAX];
static uint32_t loaded_count;

/* The folder of the program or library that this code is in. */
static bool own_folder(char ret_folder[PATH_MAX])
{
    Dl_info info;
    char real[PATH_MAX];
    if (dladdr((const void *)&loaded, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    /* For a program this is the name it was started with, which need not be a path. */
    if (realpath(info.dli_fname, real) == NULL) {
        const ssize_t length = readlink("/proc/self/exe", real, sizeof real - 1);
        if (length < 0) {
            return false;
        }
        real[length] = '\0';
    }
    char *slash = strrchr(real, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    (void)snprintf(ret_folder, PATH_MAX, "%s", real);
    return true;
}

static void *try_open(const char *folder, const char *name, struct cv_errtext *why)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/conclave-%s.so", folder, name) >= sizeof path ||
        access(path, F_OK) != 0) {
        return NULL;
    }
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        (void)cv__fail(why, CV_E_UNKNOWN, "%s", dlerror());
    }
    return module;
}

static const void *load(const char *name, struct cv_errtext *reterr)
{
    struct cv_errtext why = {"it is not installed"};
    char folder[PATH_MAX];
    void *module = NULL;
    const char *said = secure_getenv("CONCLAVE_MODULES");
    if (said != NULL) {
        module = try_open(said, name, &why);
    }
    if (module == NULL && own_folder(folder)) {
        module = try_open(folder, name, &why);
    }
    if (module == NULL) {
        module = try_open(CV_MODULE_FOLDER, name, &why);
    }
    const void *(*table)(void) = NULL;
    if (module != NULL) {
        /* ISO C has no conversion from an object to a function pointer; POSIX has this one. */
        *(void **)(&table) = dlsym(module, "cv_module_table");
        if (table == NULL) {
            (void)cv__fail(&why, CV_E_UNKNOWN, "it is not a conclave module");
            (void)dlclose(module); /* not ours: of no use */
        }
    }
    if (table == NULL) {
        (void)cv__fail(reterr, CV_E_UNKNOWN, "cannot use the module conclave-%s.so: %s", name,
                       why.text);
        return NULL;
    }
    return table();
}

const void *cv__module_table(const char *name, struct cv_errtext *reterr)
{
    const void *table = NULL;
    (void)pthread_mutex_lock(&lock); /* a default one: cannot fail */
    for (uint32_t i = 0; i < loaded_count && table == NULL; i++) {
        if (strcmp(loaded[i].name, name) == 0) {
            table = loaded[i].table;
        }
    }
    if (table == NULL) {
        table = load(name, reterr);
        if (table != NULL && loaded_count < LOADED_MAX) {
            (void)snprintf(loaded[loaded_count].name, sizeof loaded[0].name, "%s", name);
            loaded[loaded_count++].table = table;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return table;
}
