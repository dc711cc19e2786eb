// A context is destroyed while a thread of vshare's is about to use it: the driver must not see that before the thread is done.
// The test, or this program, holds that thread where it is. Argument: which thread, doing what.
#define _GNU_SOURCE
#include "pool_check.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { WORDS = 1 << 19, FIT = 8, BLOCKS = 12 };
static CUstream stream;

// Whether a counter rises above `before` within so many milliseconds.
static int rises(const char *counter, uint64_t before, int milliseconds) {
    for (int i = 0; i < milliseconds * 5; i++) {
        if (stat_of(counter) > before)
            return 1;
        usleep(200);
    }
    return 0;
}

static void *destroys(void *which) {
    OK(cuCtxDestroy_v2(which));
    return NULL;
}

static volatile int go_on;

// Somebody is held: a context that is destroyed meanwhile ends afterwards.
static void destroy_while_held(CUcontext which) {
    pthread_t id;
    uint64_t before = stat_of("cuCtxDestroy_v2");
    HOLDS(!pthread_create(&id, NULL, destroys, which));
    ANSWERS(0, rises("cuCtxDestroy_v2", before, 200));
    go_on = 1;
    let_go();
    pthread_join(id, NULL);
    ANSWERS(before + 1, stat_of("cuCtxDestroy_v2"));
}

// Blocks of which some are not on the device. The next work has room made ahead of need, without waiting for it.
static void wake_the_mover(void) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = block(4 * WORDS);
        if (i < FIT)
            OK(fill(blocks[i], i, WORDS, stream));
    }
    OK(cuCtxSynchronize());
    OK(fill(blocks[FIT - 1], 1, WORDS, stream));
}

// The mover is about to make the context its own.
static void moving(void) {
    wake_the_mover();
    HOLDS(rises("held", 0, 10000));
    destroy_while_held(context);
}

static volatile int holding, taken, given;

// Stands before the C library's, and holds the mover when it is about to take the arena's pages from the host.
int mprotect(void *at, size_t bytes, int protection) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (!strcmp(name, "vshare-out")) {
        if (protection == PROT_NONE && !taken++) {
            holding = 1;
            while (!go_on)
                usleep(200);
        } else if (protection != PROT_NONE) {
            given++;
        }
    }
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}

// The mover is between finding out where the arena lies and protecting it: other memory may lie there once the context has ended.
static void protecting(void) {
    wake_the_mover();
    for (int i = 0; i < 50000 && !holding; i++)
        usleep(200);
    HOLDS(holding);
    destroy_while_held(context);
    HOLDS(taken > 0 && taken == given);
}

static CUcontext with_work(void) {
    CUcontext made;
    CUmodule its_own;
    CUfunction nop;
    OK(cuCtxCreate_v2(&made, 0, 0));
    OK(cuModuleLoadData(&its_own, "its own"));
    OK(cuModuleGetFunction(&nop, its_own, "nop"));
    OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    return made;
}

static void *frees(void *at) {
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree_v2((CUdeviceptr)at));
    return NULL;
}

// A free in one context is about to mark the work in the other.
static void marking(void) {
    pthread_t id;
    CUdeviceptr at = block(4 * WORDS);
    OK(fill(at, 1, WORDS, stream));
    OK(fill(at, 1, WORDS, new_stream(CU_STREAM_NON_BLOCKING)));
    CUcontext other = with_work();
    HOLDS(!pthread_create(&id, NULL, frees, (void *)at));
    HOLDS(rises("held", 0, 10000));
    destroy_while_held(other);
    pthread_join(id, NULL);
}

static void *works(void *nothing) {
    OK(cuCtxSetCurrent(context));
    OK(launch("nop", stream, NULL));
    return nothing;
}

// Work in one context is about to be put behind all work so far, which was in the other.
static void ordering(void) {
    pthread_t id;
    CUcontext other = with_work();
    CUdeviceptr at = block(4 * WORDS);
    // So much that freed memory may be used again in its order.
    for (int i = 0; i < 100; i++)
        OK(cuMemsetD32Async(at, 1, WORDS, NULL));
    OK(cuMemFree_v2(at));
    HOLDS(!pthread_create(&id, NULL, works, NULL));
    HOLDS(rises("held", 0, 10000));
    destroy_while_held(other);
    pthread_join(id, NULL);
}

int main(int argc, char **argv) {
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    const struct { const char *name; void (*run)(void); } all[] = {
        {"moving", moving}, {"protecting", protecting}, {"marking", marking}, {"ordering", ordering}};
    for (size_t i = 0; i < LENGTH(all); i++)
        if (argc == 2 && !strcmp(argv[1], all[i].name)) {
            all[i].run();
            puts("the context ended afterwards");
            return 0;
        }
    return 2;
}
