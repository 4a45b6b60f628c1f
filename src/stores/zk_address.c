/* src/stores/zk_address.c - the parts of a `zookeeper:` address: hosts, credentials, the path. */
#include "stores/zk_store.h"

#include "core/address.h"
#include "core/assert.h"
#include "core/errors.h"

#include <stdio.h>
#include <string.h>

static int read_hosts(struct cv_zk_server *server, const struct cv_address *address,
                      struct cv_errtext *reterr)
{
    server->host_count = cv__address_host_count(address);
    if (server->host_count == 0) {
        return cv__fail(reterr, CV_E_INVALID, "write zookeeper://host:port[,host:port...]/path");
    }
    size_t length = 0;
    for (uint32_t i = 0; i < server->host_count; i++) {
        char endpoint[CV_REMOTE_ENDPOINT_BYTES];
        const int code = cv__remote_endpoint(address, i, 2181, endpoint, reterr);
        if (code != CV_OK) {
            return code;
        }
        const int more = snprintf(server->hosts + length, sizeof server->hosts - length, "%s%s",
                                  i > 0 ? "," : "", endpoint);
        length += (size_t)more;
        if (length >= sizeof server->hosts) {
            return cv__fail(reterr, CV_E_INVALID, "too many hosts in a zookeeper: address");
        }
    }
    return CV_OK;
}

int cv__zk_read_path(struct cv_store *store, const struct cv_address *address,
                     struct cv_errtext *reterr)
{
    char base[CV_ZK_BASE_BYTES];
    if (!cv__address_decode(address->path, base, sizeof base)) {
        return cv__fail(reterr, CV_E_INVALID, "the path in a zookeeper: address is too long");
    }
    if (base[0] == '\0') {
        (void)snprintf(base, sizeof base, "/conclave");
    }
    const size_t length = strlen(base);
    if (base[length - 1] == '/') {
        base[length - 1] = '\0'; /* also the root alone */
    }
    if (strstr(base, "//") != NULL || strstr(base, "/.") != NULL) {
        return cv__fail(
            reterr, CV_E_INVALID,
            "a part of the path '%s' in a zookeeper: address is empty or begins with a dot", base);
    }
    char escaped[CV_REMOTE_TEXT_BYTES];
    cv__remote_escape(store->remote.election, escaped);
    (void)snprintf(store->election, sizeof store->election, "%s/%s", base, escaped);
    (void)snprintf(store->request_path, sizeof store->request_path, "%s/wish", store->election);
    cv__remote_escape(store->remote.node, escaped);
    CV_ASSERT(strlen(escaped) < sizeof store->node); /* three bytes for each */
    memcpy(store->node, escaped, strlen(escaped) + 1);
    return CV_OK;
}

int cv__zk_read_server(struct cv_zk_server *server, const struct cv_address *address,
                       struct cv_errtext *reterr)
{
    static const char *const known[] = {"auth-file", "tls", NULL};
    struct cv_span value;
    char file[256] = "";
    int code = cv__address_check_options(address, known, reterr);
    code = code != CV_OK ? code : read_hosts(server, address, reterr);
    if (code != CV_OK) {
        return code;
    }
    if (cv__address_option(address, "tls", &value) && !(value.bytes == 2 && value.at[0] == 'n')) {
        return cv__fail(reterr, CV_E_INVALID,
                        "the ZooKeeper client of this build has no TLS; use a tunnel, or tls=no");
    }
    if (address->user.bytes > 0) {
        return cv__fail(reterr, CV_E_INVALID,
                        "a zookeeper: address names no user; give user:password by "
                        "?auth-file=FILE or CONCLAVE_ZOOKEEPER_AUTH");
    }
    if (cv__address_option(address, "auth-file", &value) &&
        (!cv__address_decode(value, file, sizeof file) || file[0] == '\0')) {
        return cv__fail(reterr, CV_E_INVALID, "option 'auth-file' is empty or too long");
    }
    code = cv__remote_secret(file, "CONCLAVE_ZOOKEEPER_AUTH", server->auth, sizeof server->auth,
                             reterr);
    if (code == CV_OK && server->auth[0] != '\0' && strchr(server->auth, ':') == NULL) {
        return cv__fail(reterr, CV_E_INVALID, "ZooKeeper's credentials are written user:password");
    }
    return code;
}
