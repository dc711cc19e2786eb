// A context ends while a move of its memory is queued behind another context's, and comes again under the same handle: the move must not
// reach what lies there now. Or work that alone needs more than fits comes while another context's move takes its time.
// Argument: `ends` or `needs`.
#define _GNU_SOURCE
#include "pool_check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { WORDS = 1 << 20, BYTES = 4 * WORDS };
static volatile int go_on, holding, ended, timed_out;
static CUmodule other_module;

// Stands before the C library's, and holds the first thread that is about to copy pages out.
int mprotect(void *at, size_t bytes, int protection) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (!strcmp(name, "vshare-out") && protection == PROT_NONE && !holding) {
        holding = 1;
        for (int i = 0; i < 1500 && !go_on; i++)
            usleep(200);
        timed_out = !go_on;
    }
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}

static void *ends(void *nothing) {
    OK(cuDevicePrimaryCtxRelease_v2(0));
    ended = 1;
    return nothing;
}

static void begin_primary(void) {
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "its own"));
}

// Four blocks that fill the budget, of which two are free again, and one more that has no room.
static void want_room(int frees, CUdeviceptr *blocks) {
    for (int i = 0; i < 4; i++) {
        blocks[i] = block(BYTES);
        OK(fill(blocks[i], i, WORDS, NULL));
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < 4 && frees; i += 2)
        OK(cuMemFree_v2(blocks[i]));
    block(2 * BYTES);
    OK(fill(blocks[1], 1, WORDS, NULL));
    OK(cuCtxSynchronize());
    OK(fill(blocks[1], 1, WORDS, NULL));
}

static void hold_a_move(void) {
    CUdeviceptr blocks[4];
    want_room(0, blocks);
    for (int i = 0; i < 50000 && !holding; i++)
        usleep(200);
    HOLDS(holding);
}

static void needs(void) {
    start();
    CUmodule own = module;
    CUcontext first = context;
    OK(cuCtxCreate_v2(&context, 0, 1));
    OK(cuModuleLoadData(&module, "any image"));
    hold_a_move();
    OK(cuCtxSetCurrent(first));
    module = own;
    CUdeviceptr large = block(8 * BYTES);
    OK(fill(large, 1, 8 * WORDS, NULL));
    go_on = 1;
    ANSWERS(1, word_at(large + 8 * BYTES - 4));
    HOLDS(!timed_out);
    puts("it waited for nothing that is none of its own");
}

static void comes_again(void) {
    OK(cuInit(0));
    CUdeviceptr blocks[4], again[4];
    begin_primary();
    CUcontext first = context, other;
    for (int i = 0; i < 2; i++)
        OK(cuMemFree_v2(block(BYTES)));
    OK(cuCtxCreate_v2(&other, 0, 1));
    OK(cuModuleLoadData(&other_module, "any image"));
    CUmodule own = module;
    module = other_module;
    hold_a_move();
    OK(cuCtxSetCurrent(first));
    module = own;
    want_room(1, blocks);
    usleep(50000);
    pthread_t id;
    HOLDS(!pthread_create(&id, NULL, ends, NULL));
    for (int i = 0; i < 1000 && !ended; i++)
        usleep(200);
    if (!ended)
        go_on = 1;
    pthread_join(id, NULL);
    begin_primary();
    HOLDS(context == first);
    for (int i = 0; i < 4; i++) {
        again[i] = block(BYTES);
        OK(fill(again[i], 10 + i, WORDS, NULL));
    }
    OK(cuCtxSynchronize());
    uint64_t before = stat_of("discarded_bytes");
    go_on = 1;
    usleep(100000);
    ANSWERS(before, stat_of("discarded_bytes"));
    for (int i = 0; i < 4; i++)
        ANSWERS(10 + i, word_at(again[i]));
    puts("what came again is whole");
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    if (!strcmp(argv[1], "needs"))
        needs();
    else
        comes_again();
}
