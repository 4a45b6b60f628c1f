/* src/runtime/place.c - the user's state folder. */
#include "runtime/place.h"

#include "core/errors.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static int folder_name(char ret_path[PATH_MAX], struct cv_errtext *reterr)
{
    const char *own = set("CONCLAVE_STATE"), *state = set("XDG_STATE_HOME"), *home = set("HOME");
    int length;
    if (own != NULL) {
        length = snprintf(ret_path, PATH_MAX, "%s", own);
    } else if (state != NULL) {
        length = snprintf(ret_path, PATH_MAX, "%s/conclave", state);
    } else if (home != NULL) {
        length = snprintf(ret_path, PATH_MAX, "%s/.local/state/conclave", home);
    } else {
        return cv__fail(reterr, CV_E_INVALID,
                        "no state folder: neither CONCLAVE_STATE, XDG_STATE_HOME nor HOME is set");
    }
    if (length >= PATH_MAX) {
        return cv__fail(reterr, CV_E_INVALID, "the path of the state folder is too long");
    }
    return CV_OK;
}

/* Creates every folder of the path that does not exist. */
static int folder_make(char *path, struct cv_errtext *reterr)
{
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0') {
            continue;
        }
        const char end = *at;
        *at = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return cv__fail(reterr, CV_E_STORE, "cannot create the state folder '%s': %s", path,
                            strerror(errno));
        }
        *at = end;
        if (end == '\0') {
            return CV_OK;
        }
    }
}

static int join(const char *prefix, const char *name, char **ret_text, struct cv_errtext *reterr)
{
    char folder[PATH_MAX];
    int code = folder_name(folder, reterr);
    if (code == CV_OK) {
        code = folder_make(folder, reterr);
    }
    if (code != CV_OK) {
        return code;
    }
    if (asprintf(ret_text, "%s%s/%s", prefix, folder, name) < 0) {
        return cv__fail(reterr, CV_E_MEMORY, "out of memory");
    }
    return CV_OK;
}

int cv__place_file(const char *name, char **ret_path, struct cv_errtext *reterr)
{
    return join("", name, ret_path, reterr);
}

int cv__place_address(const char *address, char **ret_address, struct cv_errtext *reterr)
{
    if (address == NULL) {
        return join("sqlite:", "elections.db", ret_address, reterr);
    }
    if (strcmp(address, "sqlite:") == 0) { /* perhaps of a variable of the shell that is not set */
        return cv__fail(reterr, CV_E_INVALID, "'%s' names no file; write sqlite:PATH", address);
    }
    if (strncmp(address, "sqlite://", strlen("sqlite://")) == 0) { /* not in the root folder */
        const char *path = address + strlen("sqlite:");
        return cv__fail(reterr, CV_E_INVALID,
                        "'%s' looks like the address of a host; write sqlite:PATH, here sqlite:%s "
                        "or sqlite:/%s",
                        address, path + strspn(path, "/"), path + strspn(path, "/"));
    }
    /* Contenders with different options would silently use different files, and all lead. */
    const char *slash = strrchr(address, '/');
    if (strncmp(address, "sqlite:", strlen("sqlite:")) == 0 &&
        strchr(slash != NULL ? slash : address, '?') != NULL) {
        return cv__fail(reterr, CV_E_INVALID,
                        "'%s' has an option, but sqlite: has none; nor may the name of its file "
                        "contain a '?'",
                        address);
    }
    *ret_address = strdup(address);
    return *ret_address != NULL ? CV_OK : cv__fail(reterr, CV_E_MEMORY, "out of memory");
}
