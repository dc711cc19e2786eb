// Works on three times as much memory as fits, in one context for each device. Halfway the process's descriptors of the UVM kernel module
// are left alone, closed, or given to another file, as programs do that close what they have inherited, or close at random.
// Arguments: `leave`, `close` or `replace`; how many devices.
#include "pool_check.h"
#include <fcntl.h>

enum { BLOCKS = 12, DEVICES = 4, ROUNDS = 4, WORDS = 3 << 18 };
static CUcontext contexts[DEVICES];
static CUmodule modules[DEVICES];
static CUdeviceptr blocks[DEVICES][BLOCKS], out[DEVICES];
static CUstream streams[DEVICES];

static void use(int device) {
    OK(cuCtxSetCurrent(contexts[device]));
    module = modules[device];
}

static void check(int device, int i, uint64_t value) {
    OK(sum(blocks[device][i], out[device], WORDS, streams[device]));
    OK(cuStreamSynchronize(streams[device]));
    ANSWERS(WORDS * value, wide_at(out[device]));
}

static void tamper(const char *how) {
    for (int fd = 3; fd < 256; fd++) {
        char path[32], link[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, link, sizeof link);
        if (length != 15 || memcmp(link, "/dev/nvidia-uvm", 15))
            continue;
        if (!strcmp(how, "close"))
            HOLDS(!close(fd));
        if (!strcmp(how, "replace")) {
            int null = open("/dev/null", O_RDWR);
            HOLDS(dup2(null, fd) == fd && !close(null));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int devices = atoi(argv[2]);
    OK(cuInit(0));
    for (int d = 0; d < devices; d++) {
        OK(cuCtxCreate_v2(&contexts[d], 0, d));
        OK(cuModuleLoadData(&modules[d], "any image"));
        streams[d] = new_stream(CU_STREAM_NON_BLOCKING);
        out[d] = block(8);
        for (int i = 0; i < BLOCKS; i++)
            blocks[d][i] = block(4 * WORDS);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int d = 0; d < devices; d++) {
            use(d);
            for (unsigned i = 0; i < BLOCKS; i++)
                OK(fill(blocks[d][i], 1000 * round + 100 * d + i, WORDS, streams[d]));
            OK(cuStreamSynchronize(streams[d]));
        }
        if (round == 1)
            tamper(argv[1]);
        for (int d = 0; d < devices; d++) {
            use(d);
            for (unsigned i = 1; i < BLOCKS; i += 2)
                check(d, i, 1000 * round + 100 * d + i);
            for (unsigned i = 0; i < BLOCKS; i += 2)
                check(d, i, 1000 * round + 100 * d + i);
            // What is dead gives its room to what lives.
            for (unsigned i = 0; i < BLOCKS; i += 2)
                OK(cuMemFree_v2(blocks[d][i]));
            for (unsigned i = 1; i < BLOCKS; i += 2)
                check(d, i, 1000 * round + 100 * d + i);
            for (unsigned i = 0; i < BLOCKS; i += 2)
                blocks[d][i] = block(4 * WORDS);
        }
    }
    puts("every block held what was written to it");
}
