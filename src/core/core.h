/* src/core/core.h - cores and messages for the hosts of this repository.
 *
 * These functions do the work of the public ones of the same names, without their checks: the hosts
 * of this repository pass checked configurations, and events and messages in range. These
 * preconditions are asserted. */
#ifndef CV_CORE_CORE_H
#define CV_CORE_CORE_H

#include "core/types.h"

void cv__core_contract(const struct cv_protocol *protocol, const struct cv_config *config,
                       uint32_t *ret_promises, uint32_t *ret_assumes);
size_t cv__core_size(const struct cv_protocol *protocol, const struct cv_config *config);
void cv__core_init(const struct cv_protocol *protocol, void *state, const struct cv_config *config);
void cv__core_step(const struct cv_protocol *protocol, void *state, const struct cv_event *event,
                   struct cv_effects *out);

/* Is the message one that cv_message_decode() could have returned? */
bool cv__message_is_valid(const struct cv_protocol *protocol, uint32_t member_count,
                          const struct cv_message *message);
size_t cv__message_encode(const struct cv_protocol *protocol, uint32_t member_count,
                          const struct cv_message *message, uint8_t *ret_bytes);
CV_NODISCARD int cv__message_decode(const struct cv_protocol *protocol, uint32_t member_count,
                                    const uint8_t *bytes, size_t byte_count, uint64_t *word,
                                    struct cv_message *ret_message);

#endif
