// A short program in which any call may fail: it takes a failure as "not done", and goes on. What it has been told was done must
// have been, every code must be one of CUDA's, and at the end nothing must be held. The test makes the driver fail.
#include "pool_check.h"

enum { BLOCKS = 8, WORDS = 1 << 19, SEEN = 1 << 12 };
static CUdeviceptr blocks[BLOCKS];
static unsigned values[BLOCKS];
static int known[BLOCKS];
static unsigned failures;

static int done(CUresult code, int line) {
    if (code == CUDA_SUCCESS)
        return 1;
    const char *name = NULL;
    // The real answer for every code of the enum is a name.
    if (cuGetErrorName(code, &name) != CUDA_SUCCESS || !name) {
        fprintf(stderr, "line %d: %d is no result of CUDA's\n", line, code);
        exit(1);
    }
    failures++;
    return 0;
}
#define DONE(call) done(call, __LINE__)

static int is_right(unsigned i, const unsigned *seen) {
    for (int w = 0; w < SEEN; w++)
        if (seen[w] != values[i])
            return 0;
    return 1;
}

static void check(void) {
    static unsigned seen[SEEN];
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i] && known[i] && DONE(cuMemcpyDtoH_v2(seen, blocks[i] + 4 * (WORDS - SEEN), sizeof seen)) && !is_right(i, seen)) {
            fprintf(stderr, "block %u: %u, not %u\n", i, seen[0], values[i]);
            exit(1);
        }
}

static void work(CUstream stream, unsigned salt) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned value = 1000 * salt + i;
        uint64_t n = WORDS;
        void *params[] = {&blocks[i], &value, &n};
        CUfunction f;
        if (blocks[i] && DONE(cuModuleGetFunction(&f, module, "fill_u32")) &&
            DONE(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL)))
            values[i] = value, known[i] = 1;
    }
}

static void replace(CUstream stream, unsigned i, int in_order) {
    if (!blocks[i])
        return;
    if (!(in_order ? DONE(cuMemFreeAsync(blocks[i], stream)) : DONE(cuMemFree_v2(blocks[i]))))
        return;
    blocks[i] = 0, known[i] = 0;
    if (in_order)
        DONE(cuMemAllocAsync(&blocks[i], 4 * WORDS, stream));
    else
        DONE(cuMemAlloc_v2(&blocks[i], 4 * WORDS));
}

int main(void) {
    size_t before, after, total;
    if (!DONE(cuInit(0)))
        return 0;
    // A context of its own, current whatever fails later.
    for (int i = 0; i < 3 && !context; i++)
        DONE(cuCtxCreate_v2(&context, 0, 0));
    OK(cuModuleLoadData(&module, "any image"));
    for (unsigned i = 0; i < BLOCKS; i++)
        DONE(cuMemAlloc_v2(&blocks[i], 4 * WORDS));
    // Blocking streams: the copies of `check` come after their work.
    CUstream streams[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        DONE(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
    work(streams[0], 1);
    check();
    int have_info = DONE(cuMemGetInfo_v2(&before, &total));
    for (unsigned round = 0; round < 2; round++) {
        work(streams[round], 2 + round);
        replace(streams[round], 1, 1);
        replace(streams[round], 2, 0);
        work(streams[!round], 4 + round);
        DONE(cuStreamSynchronize(streams[!round]));
        replace(streams[!round], 3, 0);
        work(NULL, 6 + round);
        check();
    }
    DONE(cuCtxSynchronize());
    int gone = 1;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i]) {
            // A free that fails is tried again: it must not have been half done.
            int freed = 0;
            for (int turn = 0; turn < 3 && !freed; turn++)
                freed = DONE(cuMemFree_v2(blocks[i]));
            gone &= freed;
        } else {
            gone = gone && 1;
        }
    if (gone && have_info && DONE(cuMemGetInfo_v2(&after, &total))) {
        // The blocks were live when it was asked for the first time.
        if (after < before || after > total) {
            fprintf(stderr, "free: %zu, then %zu of %zu\n", before, after, total);
            return 1;
        }
    }
    for (int i = 0; i < 2; i++)
        if (streams[i])
            DONE(cuStreamDestroy_v2(streams[i]));
    DONE(cuCtxDestroy_v2(context));
    printf("%u failures\n", failures);
}
