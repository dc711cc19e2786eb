// Memory freed while work still uses it: whoever gets it next must not disturb that work. Argument: which streams, see `main`.
// The test holds spin_us, so that the first user of each block is in flight until everything else has been submitted.
#include "pool_check.h"

extern CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                    unsigned shared, CUstream stream, void **params, void **extra);

enum { WORDS = 1 << 19, BYTES = 4 * WORDS, ROUNDS = 24 };
static CUdeviceptr out;
static unsigned used;
static CUstream first, second, idle;

// A block full of 7s whose sum is taken behind a kernel that is held: the sum is right if nobody writes to the block before.
static CUdeviceptr in_use(CUdeviceptr at, CUstream stream) {
    OK(fill(at, 7, WORDS, stream));
    OK(spin(2000, stream));
    OK(sum(at, out + 8 * used++, WORDS, stream));
    return at;
}

static void all_right(void) {
    let_go();
    OK(cuCtxSynchronize());
    uint64_t sums[ROUNDS];
    OK(cuMemcpyDtoH_v2(sums, out, 8 * used));
    for (unsigned i = 0; i < used; i++)
        ANSWERS(7ul * WORDS, sums[i]);
}

// Frees at once, or in a stream's order, and gives whoever keeps book of that the chance to look.
static void free_now(CUdeviceptr at) {
    OK(cuMemFree_v2(at));
    OK(cuStreamSynchronize(idle));
}
static void free_in(CUdeviceptr at, CUstream stream) {
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamSynchronize(idle));
}

static CUdeviceptr async_block(CUstream stream) {
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, BYTES, stream));
    return at;
}

// Frees a block that `first` uses, and has `second` write to whatever it can get.
static void free_and_take(void) {
    free_now(in_use(block(BYTES), first));
    for (int i = 0; i < 3; i++)
        OK(fill(block(BYTES), 9, WORDS, second));
}

static void *takes_in_a_thread(void *argument) {
    OK(cuCtxSetCurrent(context));
    CUdeviceptr at = block(BYTES);
    unsigned value = 9;
    uint64_t n = WORDS;
    void *params[] = {&at, &value, &n};
    OK(cuLaunchKernel_ptsz(argument, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    return NULL;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    start();
    out = block(8 * ROUNDS);
    first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING), idle = new_stream(CU_STREAM_NON_BLOCKING);
    if (!strcmp(how, "one-then-another")) {
        // Until now all work has been in one stream; the second has never been used.
        free_and_take();
    } else if (!strcmp(how, "one-then-known")) {
        OK(spin(0, second));
        let_go();
        OK(cuCtxSynchronize());
        free_and_take();
    } else if (!strcmp(how, "one-again")) {
        // Both were used, then one alone for long.
        OK(fill(out, 0, 2, second));
        for (int i = 0; i < 300; i++)
            OK(fill(out, 0, 2, first));
        OK(cuStreamSynchronize(first));
        free_and_take();
    } else if (!strcmp(how, "two")) {
        OK(fill(out, 0, 2, first));
        OK(fill(out, 0, 2, second));
        free_and_take();
        free_and_take();
    } else if (!strcmp(how, "third")) {
        // The third stream comes when the first two have had their barrier.
        free_and_take();
        CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 4; i++)
            OK(fill(block(BYTES), 9, WORDS, third));
    } else if (!strcmp(how, "legacy-then-other")) {
        first = NULL;
        free_and_take();
    } else if (!strcmp(how, "other-then-legacy")) {
        second = NULL;
        free_and_take();
        free_and_take();
    } else if (!strcmp(how, "per-thread")) {
        // The main thread's per-thread stream, then another's.
        CUfunction f = function("fill_u32");
        first = CU_STREAM_PER_THREAD;
        for (int round = 0; round < 3; round++) {
            free_now(in_use(block(BYTES), first));
            pthread_t id[2];
            for (int i = 0; i < 2; i++)
                HOLDS(!pthread_create(&id[i], NULL, takes_in_a_thread, f));
            for (int i = 0; i < 2; i++)
                pthread_join(id[i], NULL);
        }
    } else if (!strcmp(how, "thread-gone")) {
        // The thread whose default stream has the work ends; another frees.
        OK(fill(out, 0, 2, second));
        CUdeviceptr at = in_use(block(BYTES), CU_STREAM_PER_THREAD);
        free_now(at);
        free_and_take();
    } else if (!strcmp(how, "destroyed")) {
        CUdeviceptr at = in_use(block(BYTES), first);
        OK(cuStreamDestroy_v2(first));
        free_now(at);
        for (int i = 0; i < 3; i++)
            OK(fill(block(BYTES), 9, WORDS, second));
    } else if (!strcmp(how, "freed-then-destroyed")) {
        free_now(in_use(block(BYTES), first));
        OK(cuStreamDestroy_v2(first));
        for (int i = 0; i < 3; i++)
            OK(fill(block(BYTES), 9, WORDS, second));
    } else if (!strcmp(how, "async")) {
        free_in(in_use(async_block(first), first), first);
        for (int i = 0; i < 3; i++)
            OK(fill(async_block(second), 9, WORDS, second));
        // In its own stream it may be had at once.
        OK(fill(async_block(first), 9, WORDS, first));
        free_in(in_use(async_block(first), first), first);
        OK(fill(block(BYTES), 9, WORDS, second));
        OK(fill(async_block(first), 9, WORDS, first));
    } else if (!strcmp(how, "event")) {
        // Used in one stream, freed in another that waits for it.
        CUevent event;
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(fill(out, 0, 2, second));
        CUdeviceptr at = in_use(async_block(first), first);
        OK(cuEventRecord(event, first));
        OK(cuStreamWaitEvent(second, event, 0));
        free_in(at, second);
        OK(fill(async_block(second), 9, WORDS, second));
        CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
        OK(fill(async_block(third), 9, WORDS, third));
        OK(fill(block(BYTES), 9, WORDS, third));
        OK(fill(async_block(first), 9, WORDS, first));
    } else if (!strcmp(how, "event-idle")) {
        // The stream that frees has nothing to do but to wait.
        CUevent event;
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(fill(out, 0, 2, first));
        OK(fill(out, 0, 2, second));
        OK(cuCtxSynchronize());
        CUdeviceptr at = in_use(async_block(first), first);
        OK(cuEventRecord(event, first));
        OK(cuStreamWaitEvent(second, event, 0));
        free_in(at, second);
        CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 3; i++)
            OK(fill(i ? block(BYTES) : async_block(third), 9, WORDS, third));
    } else if (!strcmp(how, "legacy-idle") || !strcmp(how, "blocking-idle")) {
        // The legacy stream and one that blocks wait for each other without being told.
        first = new_stream(CU_STREAM_DEFAULT);
        CUstream waits = NULL;
        if (!strcmp(how, "blocking-idle"))
            waits = first, first = NULL;
        OK(fill(out, 0, 2, second));
        OK(fill(out, 0, 2, waits));
        OK(cuCtxSynchronize());
        CUdeviceptr at = in_use(async_block(first), first);
        free_in(at, waits);
        for (int i = 0; i < 3; i++)
            OK(fill(i ? block(BYTES) : async_block(second), 9, WORDS, second));
    } else if (!strcmp(how, "small")) {
        // Blocks that share pages.
        CUdeviceptr at[8];
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 8; i++) {
                at[i] = block(4096);
                OK(fill(at[i], 7, 1024, first));
            }
            OK(spin(2000, first));
            for (int i = 0; i < 8; i++) {
                OK(fill(at[i] + 2048, 7, 512, first));
                OK(sum(at[i], out + 8 * used++, 1024, first));
                free_now(at[i]);
            }
            for (int i = 0; i < 16; i++)
                OK(fill(block(4096), 9, 1024, second));
        }
        let_go();
        OK(cuCtxSynchronize());
        for (unsigned i = 0; i < used; i++)
            ANSWERS(7 * 1024, wide_at(out + 8 * i));
        used = 0;
    } else if (!strcmp(how, "other-context")) {
        // Another context's work reads the block. The free waits, but as the driver's does: for the block's own context.
        CUcontext other;
        CUmodule own = module;
        void *pinned;
        OK(cuMemHostAlloc(&pinned, 4096, 0));
        CUdeviceptr at = block(BYTES), copy = block(BYTES);
        OK(fill(at, 7, WORDS, first));
        OK(cuStreamSynchronize(first));
        OK(cuCtxCreate_v2(&other, 0, 0));
        OK(cuModuleLoadData(&module, "any image"));
        CUstream there = new_stream(CU_STREAM_NON_BLOCKING);
        OK(spin(2000, there));
        OK(cuMemcpyDtoDAsync_v2(copy, at, BYTES, there));
        OK(cuCtxSetCurrent(context));
        module = own;
        free_now(at);
        for (int i = 0; i < 3; i++)
            OK(fill(block(BYTES), 9, WORDS, second));
        OK(cuStreamSynchronize(second));
        let_go();
        OK(cuCtxSetCurrent(other));
        OK(cuCtxSynchronize());
        OK(cuCtxSetCurrent(context));
        ANSWERS(7, word_at(copy));
        ANSWERS(7, word_at(copy + BYTES - 4));
    } else if (!strcmp(how, "copies")) {
        // The new owner writes by copies and memsets.
        free_now(in_use(block(BYTES), first));
        static char zeros[BYTES];
        for (int i = 0; i < 2; i++) {
            CUdeviceptr at = block(BYTES), to = block(BYTES);
            OK(cuMemsetD32Async(at, 9, WORDS, second));
            OK(cuMemcpyDtoDAsync_v2(to, at, BYTES, second));
            OK(cuMemcpyHtoDAsync_v2(at, zeros, BYTES, second));
        }
        free_now(in_use(block(BYTES), first));
        OK(cuMemsetD8Async(block(BYTES), 9, BYTES, second));
    } else {
        return 2;
    }
    all_right();
    puts("nothing was disturbed");
}
