/* src/core/message.h - messages whose fields have names.
 *
 * A message type is written once, as the list of its fields; macros make everything else from it:
 *
 *   #define POLE_VOTE_FIELDS(FIELD) FIELD(U64, epoch) FIELD(ID, leader)
 *   CV_MESSAGE_VIEW(pole_vote, POLE_VOTE_FIELDS)
 *
 * makes struct pole_vote { uint64_t epoch; cv_id leader; } with pole_vote_read(), which reads one
 * from a decoded message, and pole_vote_write(), which writes one into a message to be sent.
 * CV_MESSAGE_TYPE("VOTE", POLE_VOTE_FIELDS) is its entry in the protocol's table for the codec.
 *
 * The kinds are those of enum cv_field_kind. Types that begin with the same fields may share a list
 * of these; a view of only these fields reads any message that begins with them. */
#ifndef CV_CORE_MESSAGE_H
#define CV_CORE_MESSAGE_H

#include "core/types.h"

/* The C type of a field, by its kind. */
#define CV__TYPE_U64 uint64_t
#define CV__TYPE_FLAG bool
#define CV__TYPE_ID cv_id
#define CV__TYPE_ID_NONE cv_id
#define CV__TYPE_SET struct cv_list
#define CV__TYPE_VALUES struct cv_list
#define CV__MEMBER(kind, name) CV__TYPE_##kind name;

/* These structs have one byte per scalar or list of a message: the offset of a field's byte is its
 * index there. */
#define CV__SCALAR_U64(name) uint8_t name;
#define CV__SCALAR_FLAG(name) uint8_t name;
#define CV__SCALAR_ID(name) uint8_t name;
#define CV__SCALAR_ID_NONE(name) uint8_t name;
#define CV__SCALAR_SET(name)
#define CV__SCALAR_VALUES(name)
#define CV__SCALAR(kind, name) CV__SCALAR_##kind(name)
#define CV__LIST_U64(name)
#define CV__LIST_FLAG(name)
#define CV__LIST_ID(name)
#define CV__LIST_ID_NONE(name)
#define CV__LIST_SET(name) uint8_t name;
#define CV__LIST_VALUES(name) uint8_t name;
#define CV__LIST(kind, name) CV__LIST_##kind(name)

#define CV__SCALAR_AT(name) message->field[offsetof(struct scalars, name)]
#define CV__LIST_AT(name) message->list[offsetof(struct lists, name)]

#define CV__READ_U64(name) view.name = CV__SCALAR_AT(name);
#define CV__READ_FLAG(name) view.name = CV__SCALAR_AT(name) != 0;
#define CV__READ_ID(name) view.name = (cv_id)CV__SCALAR_AT(name);
#define CV__READ_ID_NONE(name) view.name = (cv_id)CV__SCALAR_AT(name);
#define CV__READ_SET(name) view.name = CV__LIST_AT(name);
#define CV__READ_VALUES(name) view.name = CV__LIST_AT(name);
#define CV__READ(kind, name) CV__READ_##kind(name)

#define CV__WRITE_U64(name) CV__SCALAR_AT(name) = view.name;
#define CV__WRITE_FLAG(name) CV__SCALAR_AT(name) = view.name;
#define CV__WRITE_ID(name) CV__SCALAR_AT(name) = view.name;
#define CV__WRITE_ID_NONE(name) CV__SCALAR_AT(name) = view.name;
#define CV__WRITE_SET(name) CV__LIST_AT(name) = view.name;
#define CV__WRITE_VALUES(name) CV__LIST_AT(name) = view.name;
#define CV__WRITE(kind, name) CV__WRITE_##kind(name)

#define CV__PLACES(FIELDS)                                                              \
    struct scalars {                                                                    \
        FIELDS(CV__SCALAR) uint8_t end;                                                 \
    };                                                                                  \
    struct lists {                                                                      \
        FIELDS(CV__LIST) uint8_t end;                                                   \
    };                                                                                  \
    _Static_assert(offsetof(struct scalars, end) <= CV_FIELDS_MAX, "too many scalars"); \
    _Static_assert(offsetof(struct lists, end) <= CV_LISTS_MAX, "too many lists")

/* Unused: some protocols only read a message type, others only write it. */
#define CV_MESSAGE_VIEW(tag, FIELDS)                                                              \
    struct tag {                                                                                  \
        FIELDS(CV__MEMBER)                                                                        \
    };                                                                                            \
    __attribute__((unused)) static inline struct tag tag##_read(const struct cv_message *message) \
    {                                                                                             \
        CV__PLACES(FIELDS);                                                                       \
        struct tag view;                                                                          \
        FIELDS(CV__READ)                                                                          \
        return view;                                                                              \
    }                                                                                             \
    __attribute__((unused)) static inline void tag##_write(struct cv_message *message,            \
                                                           struct tag view)                       \
    {                                                                                             \
        CV__PLACES(FIELDS);                                                                       \
        FIELDS(CV__WRITE)                                                                         \
    }

#define CV__TABLE(kind, name) {#name, CV_FIELD_##kind},
#define CV__MESSAGE_TYPE(text, FIELDS, is_free) \
    {                                           \
        text, {FIELDS(CV__TABLE)}, is_free      \
    }
#define CV_MESSAGE_TYPE(text, FIELDS) CV__MESSAGE_TYPE(text, FIELDS, false)
/* A type that promises nothing: it is sent without waiting for the disk (is_free). */
#define CV_MESSAGE_TYPE_FREE(text, FIELDS) CV__MESSAGE_TYPE(text, FIELDS, true)

#endif
