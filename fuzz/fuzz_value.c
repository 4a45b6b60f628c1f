/* fuzz/fuzz_value.c - any value of a key or node that somebody wrote is read or ignored. */
#include "fuzz.h"

#include "stores/value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    char *text = fuzz_rest(&in);
    struct cv_store_record record = {0}, again = {0};
    char heir[CV_NODE_BYTES], written[CV_VALUE_BYTES];
    cv__value_read(text, size, &record);
    cv__value_request_read(text, size, 1, heir);
    if (memchr(record.node, '\0', sizeof record.node) == NULL ||
        memchr(heir, '\0', sizeof heir) == NULL || record.node[0] == '\0' || record.lease_ns < 0) {
        fuzz_found("a record that cannot be");
    }
    cv__value_write(record.node, record.label, record.lease_ns, record.since_wall_ns,
                    record.version, written);
    cv__value_read(written, strlen(written), &again);
    if (written[0] != '\0' && (again.label != record.label || again.lease_ns != record.lease_ns)) {
        fuzz_found("what is written is read as something else");
    }
    struct cv_value_note note;
    cv__value_note_read(text, size, &note);
    cv__value_note_tell(&note, &record);
    if (memchr(note.of.node, '\0', sizeof note.of.node) == NULL ||
        memchr(note.before.node, '\0', sizeof note.before.node) == NULL ||
        note.of.why >= CV_REASON_COUNT || record.last.why >= CV_REASON_COUNT) {
        fuzz_found("a note that cannot be");
    }
    free(text);
    return 0;
}
