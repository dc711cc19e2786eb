// Ends in the middle of moves, as it is told: by return, exit, _exit, abort, kill, or exit in another thread.
#include "pool_check.h"
#include <signal.h>

enum { BLOCKS = 24, WORDS = 1 << 19 };
static CUdeviceptr blocks[BLOCKS];

static void *exits(void *nothing) {
    usleep(3000);
    exit(4);
    return nothing;
}

static void late(void) {
    // Handlers of the program's own still use CUDA.
    if (fill(blocks[0], 1, WORDS, NULL) || cuCtxSynchronize() || cuMemFree_v2(blocks[1]))
        _exit(99);
    write(1, "late\n", 5);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    start();
    for (int i = 0; i < BLOCKS; i++)
        OK(fill(blocks[i] = block(4 * WORDS), i, WORDS, NULL));
    if (!strcmp(how, "thread")) {
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, exits, NULL));
        for (;;)
            for (int i = 0; i < BLOCKS; i++)
                if (mix(blocks[i], 64, 1, NULL))
                    pause();
    }
    if (!strcmp(how, "late"))
        atexit(late);
    for (int i = 0; i < BLOCKS; i++)
        OK(mix(blocks[i], 64, 1, NULL));
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "_exit"))
        _exit(5);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(how, "destroyed"))
        OK(cuCtxDestroy_v2(context));
    return 6;
}
