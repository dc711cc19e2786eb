// Works on more memory than fits, and prints what is in it at the end: the same wherever it lay meanwhile.
// Arguments: how work names its memory (see `step`), MiB in all.
#include "pool_check.h"

enum { MOST = 256, BLOCK_MIB = 3 };
static CUdeviceptr blocks[MOST], out, table;
static unsigned count;
static uint64_t words = BLOCK_MIB * MIB / 4;
static CUstream stream;
static char *host;

static void by_extra(CUdeviceptr at, unsigned value, int ex) {
    struct { CUdeviceptr at; unsigned value; uint64_t n; } args = {at, value, words};
    size_t size = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, NULL, 0};
    if (ex)
        OK(cuLaunchKernelEx(&config, function("fill_u32"), NULL, extra));
    else
        OK(cuLaunchKernel(function("fill_u32"), 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
}

// Up to 16 blocks named in a struct that is passed by value.
static void by_struct(unsigned first, unsigned many, unsigned value) {
    struct { uint64_t count; uint64_t at[16]; unsigned value; uint64_t n; } args = {.count = many, .value = value, .n = words};
    for (unsigned i = 0; i < many; i++)
        args.at[i] = blocks[(first + i) % count];
    void *params[] = {&args};
    OK(launch("table_fill", stream, params));
}

// Blocks that no parameter names: their addresses are in memory.
static void by_table(unsigned first, unsigned many) {
    uint64_t at[16], n = words / 64, entries = many;
    for (unsigned i = 0; i < many; i++)
        at[i] = blocks[(first + i) % count];
    OK(cuMemcpyHtoD_v2(table, at, sizeof at));
    void *params[] = {&table, &entries, &n, &out};
    OK(launch("gather_ptrs", stream, params));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(at, out, 8 * many));
    for (unsigned i = 0; i < many; i++)
        printf("%lx%c", (long)at[i], i + 1 < many ? ' ' : '\n');
}

static void step(const char *how, unsigned round, unsigned i) {
    CUdeviceptr at = blocks[i], other = blocks[(i + 7) % count], third = blocks[(i + 13) % count];
    unsigned value = round * 1000 + i;
    uint64_t n = words / 16;
    void *adds[] = {&at, &other, &third, &n}, *copies[] = {&at, &other, &n};
    if (!strcmp(how, "kernels")) {
        OK(mix(at, words / 16, 2, stream));
        if (i % 3 == 0)
            OK(launch("add_u32", stream, adds));
        if (i % 5 == 0)
            OK(launch("copy_u8", stream, copies));
    } else if (!strcmp(how, "copies")) {
        OK(cuMemsetD32Async(at + 4096, value, words / 2, stream));
        OK(cuMemcpyDtoDAsync_v2(other + MIB, at, MIB, stream));
        OK(cuMemcpyDtoHAsync_v2(host, other, MIB, stream));
        OK(cuStreamSynchronize(stream));
        host[i] = (char)value;
        OK(cuMemcpyHtoDAsync_v2(third + 2 * MIB, host, MIB, stream));
        OK(cuMemsetD8_v2(at, (unsigned char)value, 1000));
        OK(cuMemcpy(third, at, 5000));
    } else if (!strcmp(how, "interior")) {
        // Pointers into the last page of a block.
        OK(mix(at + 2 * MIB + 512, MIB / 8, 1, stream));
        OK(mix(at + BLOCK_MIB * MIB - 4, 1, 1, stream));
    } else if (!strcmp(how, "struct")) {
        if (i % 4 == 0)
            by_struct(i, 2, value);
        OK(mix(at, 1000, 1, stream));
    } else if (!strcmp(how, "extra")) {
        by_extra(at, value, i % 2);
        OK(mix(other, 1000, 1, stream));
    } else if (!strcmp(how, "hidden")) {
        OK(mix(at, 1000, 1, stream));
        if (i % 4 == 0)
            by_table(i, 8);
    } else if (!strcmp(how, "huge")) {
        // One launch that names more than fits.
        by_struct(i, 16, value);
        OK(mix(at, 1000, 1, stream));
    } else if (!strcmp(how, "two")) {
        static CUstream streams[2];
        if (!streams[0])
            streams[0] = new_stream(CU_STREAM_NON_BLOCKING), streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
        // Each stream keeps to its own half.
        OK(mix(blocks[i / 2 * 2 % count], words / 16, 1, streams[0]));
        OK(mix(blocks[(i / 2 * 2 + 1) % count], words / 16, 1, streams[1]));
    } else {
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    count = atoi(argv[2]) / BLOCK_MIB;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    out = block(4096), table = block(4096), host = calloc(1, BLOCK_MIB * MIB);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = block(BLOCK_MIB * MIB);
        OK(fill(blocks[i], i, words, stream));
    }
    OK(cuStreamSynchronize(stream));
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < count; i++)
            step(argv[1], round, i);
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < count; i++) {
        OK(cuMemcpyDtoH_v2(host, blocks[i], BLOCK_MIB * MIB));
        uint64_t hash = 0xcbf29ce484222325;
        for (uint64_t w = 0; w < words; w++)
            hash = (hash ^ ((unsigned *)host)[w]) * 0x100000001b3;
        printf("%u %016lx\n", i, (long)hash);
    }
    for (unsigned i = 0; i < count; i++)
        OK(cuMemFree_v2(blocks[i]));
}
