/*
 * The segment that a process under vshare publishes, for readers in C and C++ (C11, C++11 or later; GCC or Clang).
 *
 * A segment is a file of VSHARE_SIZE bytes, /dev/shm/vshare-<uid>-<pid>-<start_time>, of 64-bit words in the machine's own byte
 * order. Open it with O_RDONLY | O_NOFOLLOW | O_NONBLOCK, see that it is a regular file of your own user and at least VSHARE_SIZE
 * bytes long, map VSHARE_SIZE bytes read-only and shared, and call vshare_check. The owner writes on meanwhile, word by word:
 * read words with vshare_load and nothing else. Believe nothing that you read: lengths, counts and texts may be anything.
 *
 * layout.rs, in src/vshare-shm/src, is the specification and has the history; record.rs says what the words of events mean. A
 * test holds this file against both.
 */
#ifndef VSHARE_H
#define VSHARE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define VSHARE_STATIC_ASSERT(what, why) static_assert(what, why)
extern "C" {
#else
#define VSHARE_STATIC_ASSERT(what, why) _Static_assert(what, why)
#endif

#define VSHARE_SIZE 0x10000
#define VSHARE_MAGIC 0x56534852u /* high half of the first word, "VSHR" */
#define VSHARE_MAJOR 1           /* another major version is not for this file */
#define VSHARE_MINOR 0           /* a larger minor version is read as this one */
#define VSHARE_COUNTERS 96       /* room for counters; `counters` says how many are in use */
#define VSHARE_SLOTS 960         /* in the ring */

/* `state` */
#define VSHARE_STARTING 0
#define VSHARE_LIVE 1
#define VSHARE_EXITED 2 /* the owner said that it ends; a killed one says nothing: compare `start_time` with field 22 of /proc/<pid>/stat */

/* `kind` of a counter */
#define VSHARE_COUNTER 0 /* only ever grows */
#define VSHARE_GAUGE 1   /* two's complement; below zero it means 0 */

/* Kinds of event, and what a, b, c and d are. Kinds are added: show an unknown one as its number. */
#define VSHARE_ALLOCATED 1    /* address, bytes, class (0 managed, 1 device), stream */
#define VSHARE_FREED 2        /* address, bytes, class, stream */
#define VSHARE_REFUSED 3      /* bytes, cause (0 over the limit, 1 the driver, 2 host memory), live bytes, limit bytes */
#define VSHARE_PROMOTED 4     /* address, bytes, nanoseconds, device */
#define VSHARE_EVICTED 5      /* address, bytes, nanoseconds, device */
#define VSHARE_STALLED 6      /* nanoseconds, bytes, launch number, device */
#define VSHARE_FAILED 7       /* code << 32 | device, bytes, and in c and d 16 bytes of the call's name without its "cu" */
#define VSHARE_CONTEXT_LOST 8 /* context, bytes, device, 0 */
#define VSHARE_SAMPLED 9      /* live bytes, resident bytes, host bytes, budget bytes */

/* A text: `length` bytes of `bytes`, never more than there is room for, with no zero at the end where it is full. */
struct vshare_text_24 { uint64_t length; char bytes[24]; };
struct vshare_text_120 { uint64_t length; char bytes[120]; };
struct vshare_text_200 { uint64_t length; char bytes[200]; };

/* A counter's description. Texts are padded with zeros; one that fills its room has none. */
struct vshare_row {
    char name[32];
    char unit[16]; /* "count", "bytes", "nanoseconds" */
    uint64_t kind;
    char help[104];
};

struct vshare_slot {
    uint64_t stamp; /* 2 * ticket + 2: readable */
    uint64_t payload[5];
};

struct vshare_segment {
    uint64_t magic;          /* 0x0000  VSHARE_MAGIC, major, minor */
    uint64_t size;           /* 0x0008 */
    uint64_t state;          /* 0x0010 */
    uint64_t pid;            /* 0x0018  in the owner's pid namespace */
    uint64_t start_time;     /* 0x0020  field 22 of /proc/<pid>/stat */
    uint64_t uid;            /* 0x0028 */
    uint64_t pid_namespace;  /* 0x0030  inode of /proc/self/ns/pid; 0: not known */
    uint64_t run;            /* 0x0038  VSHARE_RUN; 0: none */
    uint64_t created_ns;     /* 0x0040  since 1970; event times count from here */
    uint64_t driver_version; /* 0x0048  13000 is 13.0; 0: not yet */
    uint64_t counters;       /* 0x0050  counter rows in use */
    uint64_t reserved_0058[5];
    uint64_t ring_head; /* 0x0080  events ever begun; the newest has ticket head - 1 */
    uint64_t reserved_0088[15];
    struct vshare_text_24 library;      /* 0x0100  its version */
    struct vshare_text_24 policy;       /* 0x0120 */
    struct vshare_text_120 device_name; /* 0x0140 */
    unsigned char device_uuid[16];      /* 0x01c0 */
    uint64_t device;                    /* 0x01d0  0: no device yet; else its ordinal + 1 */
    uint64_t reserved_01d8[5];
    struct vshare_text_200 command; /* 0x0200  zero between arguments */
    uint64_t reserved_02d0[38];
    uint64_t values[VSHARE_COUNTERS]; /* 0x0400  of the counters in `rows` */
    uint64_t reserved_0700[32];
    struct vshare_row rows[VSHARE_COUNTERS]; /* 0x0800 */
    struct vshare_slot ring[VSHARE_SLOTS];   /* 0x4400 */
    uint64_t reserved_f800[256];
};

VSHARE_STATIC_ASSERT(sizeof(struct vshare_segment) == VSHARE_SIZE, "the byte map has holes");

/* An event, as vshare_event gives it. */
struct vshare_event {
    unsigned kind;
    uint64_t time_ns; /* since `created_ns` */
    uint64_t a, b, c, d;
};

/* A word, whole. */
static inline uint64_t vshare_load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

/* Whether what is mapped at `segment` is a segment of this version. */
static inline int vshare_check(const struct vshare_segment *segment) {
    uint64_t magic = vshare_load(&segment->magic);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return magic >> 32 == VSHARE_MAGIC && (magic >> 16 & 0xffff) == VSHARE_MAJOR;
}

/* How many counters there are to read. */
static inline size_t vshare_counters(const struct vshare_segment *segment) {
    uint64_t used = vshare_load(&segment->counters);
    return used < VSHARE_COUNTERS ? (size_t)used : VSHARE_COUNTERS;
}

/* The value of counter `i`, which is below VSHARE_COUNTERS. */
static inline uint64_t vshare_value(const struct vshare_segment *segment, size_t i) {
    uint64_t value = vshare_load(&segment->values[i]);
    return vshare_load(&segment->rows[i].kind) == VSHARE_GAUGE && value >> 63 ? 0 : value;
}

/* Copies `room` bytes, a multiple of 8, of a text in the segment to `to`, which has one byte more for the zero at its end. */
static inline void vshare_copy(char *to, const void *text, size_t room) {
    const uint64_t *words = (const uint64_t *)text;
    for (size_t i = 0; i < room / sizeof(uint64_t); i++) {
        uint64_t word = vshare_load(&words[i]);
        memcpy(to + i * sizeof word, &word, sizeof word);
    }
    to[room] = 0;
}

/* The oldest ticket that the ring may still hold; the newest is vshare_load(&segment->ring_head) - 1. */
static inline uint64_t vshare_oldest(const struct vshare_segment *segment) {
    uint64_t head = vshare_load(&segment->ring_head);
    return head > VSHARE_SLOTS ? head - VSHARE_SLOTS : 0;
}

/* Reads the event under `ticket`: 1 if it is in *event, 0 if it is not written yet, -1 if it is lost. */
static inline int vshare_event(const struct vshare_segment *segment, uint64_t ticket, struct vshare_event *event) {
    const struct vshare_slot *slot = &segment->ring[ticket % VSHARE_SLOTS];
    uint64_t readable = ticket * 2 + 2, words[5];
    uint64_t before = vshare_load(&slot->stamp);
    if (before != readable) return before < readable ? 0 : -1;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    for (int i = 0; i < 5; i++) words[i] = vshare_load(&slot->payload[i]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (vshare_load(&slot->stamp) != before) return -1;
    event->kind = (unsigned)(words[0] >> 56);
    event->time_ns = words[0] & (((uint64_t)1 << 56) - 1);
    event->a = words[1];
    event->b = words[2];
    event->c = words[3];
    event->d = words[4];
    return 1;
}

#ifdef __cplusplus
}
#endif

#endif
