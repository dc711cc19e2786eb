// Contexts end with memory, work and moves under way; new ones come; what lived on lives on. Arguments: how, rounds.
#include "pool_check.h"

enum { BLOCKS = 10, WORDS = 1 << 19 };

// Takes memory, works on all of it without waiting, and leaves it all there.
static void live(CUstream stream, unsigned value, CUdeviceptr *blocks) {
    for (int i = 0; i < BLOCKS; i++)
        OK(fill(blocks[i] = block(4 * WORDS), value, WORDS, stream));
    for (int i = 0; i < BLOCKS; i++)
        OK(mix(blocks[i], 16, 1, stream));
    for (int i = 0; i < BLOCKS; i++)
        OK(fill(blocks[i], value + i, WORDS, stream));
}

static void is_right(unsigned value, const CUdeviceptr *blocks) {
    for (int i = 0; i < BLOCKS; i++)
        ANSWERS(value + i, word_at(blocks[i] + 4 * WORDS - 4));
}

static void load(void) { OK(cuModuleLoadData(&module, "any image")); }

static size_t free_now(void) {
    size_t free, total;
    OK(cuMemGetInfo_v2(&free, &total));
    return free;
}

static void own_contexts(int rounds) {
    CUdeviceptr blocks[BLOCKS];
    size_t first = 0;
    for (int round = 0; round < rounds; round++) {
        CUcontext own;
        OK(cuCtxCreate_v2(&own, 0, 0));
        load();
        if (!round)
            first = free_now();
        ANSWERS(first, free_now());
        live(new_stream(CU_STREAM_NON_BLOCKING), round, blocks);
        if (round % 2) {
            OK(cuCtxSynchronize());
            is_right(round, blocks);
        }
        OK(cuCtxDestroy_v2(own));
        // Its memory has gone with it; there is no context, or another.
        HOLDS(cuMemFree_v2(blocks[0]) != CUDA_SUCCESS);
    }
}

static void primary(int rounds, int reset) {
    CUdeviceptr blocks[BLOCKS], before = 0;
    for (int round = 0; round < rounds; round++) {
        CUcontext own;
        OK(cuDevicePrimaryCtxRetain(&own, 0));
        OK(cuCtxSetCurrent(own));
        load();
        if (before)
            ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(before));
        live(round % 3 ? NULL : new_stream(CU_STREAM_NON_BLOCKING), round, blocks);
        if (round % 2) {
            OK(cuCtxSynchronize());
            is_right(round, blocks);
        }
        if (reset) {
            OK(cuDevicePrimaryCtxReset_v2(0));
            OK(cuCtxSetCurrent(NULL));
            // The reference is still held.
            cuDevicePrimaryCtxRelease_v2(0);
        } else {
            // A reference that is not the last ends nothing.
            OK(cuDevicePrimaryCtxRetain(&own, 0));
            OK(cuDevicePrimaryCtxRelease_v2(0));
            OK(cuCtxSynchronize());
            is_right(round, blocks);
            OK(cuDevicePrimaryCtxRelease_v2(0));
            OK(cuCtxSetCurrent(NULL));
        }
        before = blocks[0];
    }
}

static void two(int rounds, int devices) {
    CUcontext own[2];
    CUmodule modules[2];
    CUdeviceptr blocks[2][BLOCKS];
    for (int i = 0; i < 2; i++) {
        OK(cuCtxCreate_v2(&own[i], 0, devices > 1 ? i : 0));
        load();
        modules[i] = module;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2; i++) {
            OK(cuCtxSetCurrent(own[i]));
            module = modules[i];
            live(NULL, 100 * round + 50 * i, blocks[i]);
        }
        for (int i = 0; i < 2; i++) {
            OK(cuCtxSetCurrent(own[i]));
            is_right(100 * round + 50 * i, blocks[i]);
            // Freed with the other current.
            OK(cuCtxSetCurrent(own[!i]));
            for (int b = 0; b < BLOCKS; b++)
                OK(cuMemFree_v2(blocks[i][b]));
        }
    }
    // One ends, the other lives on.
    for (int i = 0; i < 2; i++) {
        OK(cuCtxSetCurrent(own[i]));
        module = modules[i];
        live(NULL, 7 + i, blocks[i]);
    }
    OK(cuCtxDestroy_v2(own[0]));
    OK(cuCtxSetCurrent(own[1]));
    is_right(8, blocks[1]);
    for (int b = 0; b < BLOCKS; b++)
        OK(cuMemFree_v2(blocks[1][b]));
    live(NULL, 9, blocks[1]);
    is_right(9, blocks[1]);
}

static void *works(void *argument) {
    CUdeviceptr blocks[BLOCKS];
    OK(cuCtxSetCurrent(argument));
    live(CU_STREAM_PER_THREAD, 3, blocks);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    is_right(3, blocks);
    for (int b = 0; b < BLOCKS; b++)
        OK(cuMemFree_v2(blocks[b]));
    return NULL;
}

// Threads come and go, each with work in its own default stream.
static void threads(int rounds) {
    for (int round = 0; round < rounds; round++) {
        pthread_t ids[3];
        for (int i = 0; i < 3; i++)
            HOLDS(!pthread_create(&ids[i], NULL, works, context));
        for (int i = 0; i < 3; i++)
            pthread_join(ids[i], NULL);
    }
}

// Streams come and go with work in them.
static void streams(int rounds) {
    CUdeviceptr blocks[BLOCKS];
    for (int round = 0; round < rounds; round++) {
        CUstream stream = new_stream(round % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        live(stream, round, blocks);
        if (round % 3)
            OK(cuStreamDestroy_v2(stream));
        OK(cuCtxSynchronize());
        is_right(round, blocks);
        for (int b = 0; b < BLOCKS; b++)
            OK(cuMemFree_v2(blocks[b]));
    }
}

// A stream for each request, beside one that stays, and nothing is freed: what is kept of the streams that have gone does not grow.
static void requests(int rounds) {
    CUdeviceptr at = block(4 * WORDS);
    CUstream stays = new_stream(CU_STREAM_NON_BLOCKING);
    uint64_t before = stat_of("cuEventCreate");
    for (int round = 0; round < rounds; round++) {
        CUstream own = new_stream(CU_STREAM_NON_BLOCKING);
        OK(fill(at, round, 4, own));
        OK(fill(at + 4096, round, 4, stays));
        OK(cuCtxSynchronize());
        OK(cuStreamDestroy_v2(own));
    }
    HOLDS(stat_of("cuEventCreate") - before < 10);
}

// Work that fails ends the context: every call says so from then on, and none hangs.
static void broken(void) {
    CUdeviceptr blocks[BLOCKS], at;
    live(NULL, 1, blocks);
    OK(fill(0x123456000, 1, 4, NULL));
    ANSWERS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    printf("%d ", cuMemcpyDtoH_v2(&at, blocks[0], 4));
    printf("%d ", cuMemsetD8_v2(blocks[1], 1, 4));
    OK(cuCtxDestroy_v2(context));
    OK(cuCtxCreate_v2(&context, 0, 0));
    load();
    live(NULL, 1, blocks);
    is_right(1, blocks);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *how = argv[1];
    int rounds = atoi(argv[2]);
    OK(cuInit(0));
    if (!strcmp(how, "own")) {
        own_contexts(rounds);
    } else if (!strcmp(how, "reset")) {
        primary(rounds, 1);
    } else if (!strcmp(how, "release")) {
        primary(rounds, 0);
    } else if (!strcmp(how, "two")) {
        two(rounds, 1);
    } else if (!strcmp(how, "devices")) {
        two(rounds, 2);
    } else {
        start();
        if (!strcmp(how, "threads"))
            threads(rounds);
        else if (!strcmp(how, "streams"))
            streams(rounds);
        else if (!strcmp(how, "requests"))
            requests(rounds);
        else if (!strcmp(how, "broken"))
            broken();
        else
            return 2;
    }
    puts("done");
}
