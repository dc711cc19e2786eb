// Threads allocate, fill, check and free blocks of random size at random, with the check still in flight when the block is freed:
// memory that is handed out again too soon shows in a sum.
// Arguments: seed, threads, operations of each thread, streams (see `pick`), largest block in KiB, live bytes of each thread in MiB.
#include "pool_check.h"

extern CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                    unsigned shared, CUstream stream, void **params, void **extra);
extern CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream);
extern CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream);
extern CUresult cuStreamSynchronize_ptsz(CUstream stream);
extern CUresult cuEventRecord_ptsz(CUevent event, CUstream stream);

enum { LIVE = 64, CHECKS = 128 };
typedef struct { CUdeviceptr at; size_t bytes; unsigned value; int stream; } Block;
typedef struct { uint64_t wanted; } Check;

static const char *how;
static uint64_t seed;
static unsigned threads, operations;
static size_t largest, most;
static CUstream shared_streams[4];
static CUfunction fill_u32, sum_u64, spin_us;

typedef struct {
    uint64_t random;
    unsigned number, checks;
    size_t live;
    Block blocks[LIVE];
    Check check[CHECKS];
    CUdeviceptr out;
    CUstream streams[2];
    CUevent event;
    int per_thread;
} Thread;

// The streams of one thread: one for all; two of its own; the legacy stream and one that does not wait for it; per-thread ones.
static void pick(Thread *t) {
    if (!strcmp(how, "one"))
        t->streams[0] = t->streams[1] = shared_streams[0];
    else if (!strcmp(how, "two"))
        t->streams[0] = new_stream(CU_STREAM_NON_BLOCKING), t->streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
    else if (!strcmp(how, "legacy"))
        t->streams[0] = NULL, t->streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
    else if (!strcmp(how, "blocking"))
        t->streams[0] = NULL, t->streams[1] = new_stream(CU_STREAM_DEFAULT);
    else if (!strcmp(how, "shared"))
        t->streams[0] = shared_streams[t->number % 4], t->streams[1] = shared_streams[(t->number + 1) % 4];
    else if (!strcmp(how, "ptsz"))
        t->streams[0] = NULL, t->streams[1] = new_stream(CU_STREAM_NON_BLOCKING), t->per_thread = 1;
    else
        exit(2);
}

static void run(Thread *t, CUfunction f, int s, void **params) {
    if (t->per_thread)
        OK(cuLaunchKernel_ptsz(f, 1, 1, 1, 32, 1, 1, 0, t->streams[s], params, NULL));
    else
        OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, t->streams[s], params, NULL));
}

static void both_ends(Thread *t, const Block *b, CUfunction f, int s, CUdeviceptr out) {
    uint64_t words = b->bytes / 4, n = words < END_WORDS ? words : END_WORDS;
    for (int end = 0; end < 2; end++) {
        CUdeviceptr at = end ? b->at + (words - n) * 4 : b->at, to = out + 8 * end;
        unsigned value = b->value;
        void *filling[] = {&at, &value, &n}, *summing[] = {&at, &to, &n};
        run(t, f, s, f == fill_u32 ? filling : summing);
    }
}

static void settle(Thread *t) {
    for (int s = 0; s < 2; s++)
        OK(t->per_thread ? cuStreamSynchronize_ptsz(t->streams[s]) : cuStreamSynchronize(t->streams[s]));
    uint64_t sums[2 * CHECKS];
    if (t->checks)
        OK(cuMemcpyDtoH_v2(sums, t->out, 16 * t->checks));
    for (unsigned i = 0; i < t->checks; i++)
        for (int end = 0; end < 2; end++)
            if (sums[2 * i + end] != t->check[i].wanted) {
                fprintf(stderr, "thread %u check %u: %#lx, not %#lx\n", t->number, i, (long)sums[2 * i + end], (long)t->check[i].wanted);
                exit(1);
            }
    t->checks = 0;
}

static void allocate(Thread *t, Block *b) {
    uint64_t r = next_random(&t->random);
    size_t top = r % 4 == 0 ? largest : r % 4 == 1 ? largest / 8 : 64;
    b->bytes = ((next_random(&t->random) % (top * 1024 / 4)) + 1) * 4;
    if (t->live + b->bytes > most)
        return;
    b->stream = r >> 8 & 1;
    b->value = (unsigned)(r >> 16) | 1;
    CUresult got;
    if (r >> 4 & 1)
        got = t->per_thread ? cuMemAllocAsync_ptsz(&b->at, b->bytes, t->streams[b->stream])
                            : cuMemAllocAsync(&b->at, b->bytes, t->streams[b->stream]);
    else
        got = cuMemAlloc_v2(&b->at, b->bytes);
    OK(got);
    t->live += b->bytes;
    both_ends(t, b, fill_u32, b->stream, 0);
}

static void end(Thread *t, Block *b) {
    uint64_t r = next_random(&t->random);
    if (t->checks == CHECKS)
        settle(t);
    if (r % 8 == 0) {
        uint64_t micros = r >> 8 & 255;
        void *params[] = {&micros};
        run(t, spin_us, b->stream, params);
    }
    uint64_t words = b->bytes / 4;
    t->check[t->checks].wanted = (words < END_WORDS ? words : END_WORDS) * b->value;
    both_ends(t, b, sum_u64, b->stream, t->out + 16 * t->checks++);
    int s = b->stream;
    if (r >> 16 & 1) {
        if (r >> 17 & 1 && t->streams[0] != t->streams[1]) {
            // The other stream frees it, after its work.
            OK(t->per_thread ? cuEventRecord_ptsz(t->event, t->streams[s]) : cuEventRecord(t->event, t->streams[s]));
            s = !s;
            CUstream waits = t->streams[s] ? t->streams[s] : t->per_thread ? CU_STREAM_PER_THREAD : NULL;
            OK(cuStreamWaitEvent(waits, t->event, 0));
        }
        CUresult freed = t->per_thread ? cuMemFreeAsync_ptsz(b->at, t->streams[s]) : cuMemFreeAsync(b->at, t->streams[s]);
        // A driver may want such a free for memory from a pool only.
        OK(freed == CUDA_ERROR_INVALID_VALUE ? cuMemFree_v2(b->at) : freed);
    } else {
        OK(cuMemFree_v2(b->at));
    }
    t->live -= b->bytes;
    b->at = 0;
}

static void *storm(void *argument) {
    Thread *t = argument;
    OK(cuCtxSetCurrent(context));
    pick(t);
    OK(cuEventCreate(&t->event, CU_EVENT_DISABLE_TIMING));
    t->out = block(16 * CHECKS);
    for (unsigned i = 0; i < operations; i++) {
        Block *b = &t->blocks[next_random(&t->random) % LIVE];
        if (b->at)
            end(t, b);
        else
            allocate(t, b);
    }
    for (int i = 0; i < LIVE; i++)
        if (t->blocks[i].at)
            end(t, &t->blocks[i]);
    settle(t);
    OK(cuMemFree_v2(t->out));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    seed = strtoull(argv[1], NULL, 10), threads = atoi(argv[2]), operations = atoi(argv[3]), how = argv[4];
    largest = atol(argv[5]), most = atol(argv[6]) * MIB;
    start();
    fill_u32 = function("fill_u32"), sum_u64 = function("sum_u64"), spin_us = function("spin_us");
    for (int i = 0; i < 4; i++)
        shared_streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
    size_t before, after, total;
    OK(cuMemGetInfo_v2(&before, &total));
    pthread_t ids[16];
    static Thread all[16];
    for (unsigned i = 0; i < threads; i++) {
        all[i].number = i, all[i].random = seed * 1000 + i;
        HOLDS(!pthread_create(&ids[i], NULL, storm, &all[i]));
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    OK(cuCtxSynchronize());
    OK(cuMemGetInfo_v2(&after, &total));
    ANSWERS(before, after);
    puts("every block held what was written to it");
}
