// Managed memory is populated, faulted, prefetched, evicted and discarded in blocks of 2 MiB, and all of it is counted.
// Runs with SIMCUDA_VRAM=64M.
#include "sim_check.h"
#include <sys/mman.h>

static uint64_t last(const char *name) {
    uint64_t value = simcuda_stat(name);
    HOLDS(value != UINT64_MAX);
    return value;
}

// What a counter grew by since it was last asked for in this way.
static uint64_t grew(const char *name) {
    static struct { const char *name; uint64_t value; } seen[32];
    for (int i = 0; i < 32; i++) {
        if (!seen[i].name)
            seen[i].name = name;
        if (strcmp(seen[i].name, name) == 0) {
            uint64_t value = last(name), growth = value - seen[i].value;
            seen[i].value = value;
            return growth;
        }
    }
    abort();
}

static size_t unused(void) {
    size_t free_bytes, total;
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    ANSWERS(64 * MIB, total);
    return free_bytes;
}

int main(void) {
    start();
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0}, gpu = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

    // Nothing is populated by allocating; a kernel's touch faults each block in.
    CUdeviceptr a = managed(40 * MIB);
    ANSWERS(64 * MIB, unused());
    OK(fill(a, 1, 3 * MIB, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(6, grew("faults"));
    ANSWERS(12 * MIB, grew("fault_bytes"));
    ANSWERS(0, grew("fault_migrated_bytes"));
    ANSWERS(12 * MIB, grew("populated_bytes"));
    ANSWERS(52 * MIB, unused());

    // Prefetches move, in the old form and the new; what is there already does not move.
    OK(cuMemPrefetchAsync(a, 8 * MIB, CU_DEVICE_CPU, stream));
    OK(cuMemPrefetchAsync_v2(a, 4 * MIB, gpu, 0, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(8 * MIB, grew("evicted_bytes"));
    ANSWERS(4 * MIB, grew("promoted_bytes"));
    ANSWERS(8 * MIB, last("managed_resident"));
    OK(cuMemPrefetchAsync_v2(a, 4 * MIB, gpu, 0, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(0, grew("promoted_bytes"));
    ANSWERS(2, grew("prefetched_in_place"));
    int place;
    OK(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 4 * MIB));
    ANSWERS(0, place);
    OK(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, a, 8 * MIB));
    ANSWERS(CU_DEVICE_INVALID, place);

    // A touch of what is on the host faults it back, contents and all; also while the program's view is protected.
    OK(mprotect((void *)a, 40 * MIB, PROT_NONE));
    ANSWERS(1, word_at(a + 4 * MIB));
    OK(mprotect((void *)a, 40 * MIB, PROT_READ | PROT_WRITE));
    ANSWERS(1, *(volatile unsigned *)a);
    ANSWERS(1, grew("faults"));
    ANSWERS(2 * MIB, grew("fault_migrated_bytes"));

    // When the GPU is full the driver evicts what was placed longest ago, not what was touched longest ago.
    CUdeviceptr b = managed(60 * MIB);
    OK(cuMemPrefetchAsync(a, 2 * MIB, CU_DEVICE_CPU, stream));
    OK(cuMemPrefetchAsync(a, 2 * MIB, 0, stream));
    OK(cuMemsetD8Async(a + 8 * MIB, 1, 1, stream)); // placed first of all that is left
    OK(cuStreamSynchronize(stream));
    grew("promoted_bytes"), grew("populated_bytes"), grew("evicted_bytes");
    ANSWERS(54 * MIB, unused());
    OK(cuMemPrefetchBatchAsync((CUdeviceptr[]){b, b + 40 * MIB}, (size_t[]){40 * MIB, 16 * MIB}, 2, &gpu, (size_t[]){0}, 1, 0, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(0, unused());
    ANSWERS(1, grew("driver_evictions"));
    OK(cuMemPrefetchAsync(a, 2 * MIB, 0, stream)); // still there, so nothing moves
    OK(cuStreamSynchronize(stream));
    ANSWERS(0, grew("promoted_bytes"));
    ANSWERS(56 * MIB, grew("populated_bytes"));
    grew("faults");
    ANSWERS(1, word_at(a + 10 * MIB)); // as is what was placed after it
    ANSWERS(0, grew("faults"));
    ANSWERS(1, word_at(a + 8 * MIB) & 1); // but this had to come back, and pushed that out
    ANSWERS(1, grew("faults"));
    ANSWERS(1, grew("driver_evictions"));

    // Device memory pushes managed memory out, and managed memory never pushes device memory out.
    CUdeviceptr d;
    OK(cuMemAlloc_v2(&d, 60 * MIB));
    ANSWERS(30, grew("driver_evictions"));
    ANSWERS(0, unused());
    CUdeviceptr e;
    ANSWERS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&e, 5 * MIB));
    OK(fill(b, 3, 4 * MIB, stream)); // 16 MiB of work in 4 MiB of room
    OK(cuStreamSynchronize(stream));
    ANSWERS(3, word_at(b + 16 * MIB - 4));
    HOLDS(last("managed_resident") <= 4 * MIB);
    ANSWERS(64 * MIB, last("managed_resident_peak"));
    OK(cuMemFree_v2(d));

    // Discarded memory has lost its contents; an eviction copies nothing; a write brings it back to life.
    OK(cuMemPrefetchAsync(b, 8 * MIB, 0, stream));
    OK(fill(b, 4, 2 * MIB, stream));
    OK(cuMemDiscardBatchAsync(&b, (size_t[]){8 * MIB}, 1, 0, stream));
    OK(fill(b, 5, 1, stream));
    OK(cuStreamSynchronize(stream));
    grew("evicted_bytes"), grew("discarded_not_copied_bytes");
    OK(cuMemPrefetchAsync_v2(b, 8 * MIB, host, 0, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(2 * MIB, grew("evicted_bytes"));
    ANSWERS(6 * MIB, grew("discarded_not_copied_bytes"));
    ANSWERS(5, word_at(b));
    ANSWERS(0xDBDBDBDB, word_at(b + 4));
    ANSWERS(0xDBDBDBDB, word_at(b + 8 * MIB - 4));

    // With accessed-by advice a host block is reached over the bus: no fault, no move.
    OK(cuMemAdvise(b, 8 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
    OK(cuMemPrefetchAsync(b, 8 * MIB, CU_DEVICE_CPU, stream));
    OK(cuStreamSynchronize(stream));
    grew("faults"), grew("remote_accesses");
    OK(fill(b, 6, 2 * MIB, stream));
    OK(cuStreamSynchronize(stream));
    ANSWERS(0, grew("faults"));
    ANSWERS(4, grew("remote_accesses"));
    ANSWERS(6, word_at(b + 8 * MIB - 4));

    // An eviction of memory that a running kernel uses is a mistake that is seen. The test holds mix.
    uint64_t n = 1024;
    unsigned rounds = 1;
    void *mix[] = {&a, &n, &rounds};
    CUstream side;
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(launch("mix", stream, mix));
    while (last("held") == 0)
        usleep(100);
    OK(cuMemPrefetchAsync(a, 2 * MIB, CU_DEVICE_CPU, side));
    OK(cuStreamSynchronize(side));
    ANSWERS(1, last("evicted_in_use"));
    simcuda_release(1);
    OK(cuStreamSynchronize(stream));
    OK(cuMemPrefetchAsync(a, 2 * MIB, 0, side));
    OK(cuMemPrefetchAsync(a, 2 * MIB, CU_DEVICE_CPU, side));
    OK(cuStreamSynchronize(side));
    ANSWERS(1, last("evicted_in_use"));

    // Pointers behind pointers, and inside a struct passed by value.
    CUdeviceptr table, out;
    OK(cuMemAlloc_v2(&table, 4096));
    OK(cuMemAlloc_v2(&out, 4096));
    CUdeviceptr hidden[2] = {b, b + 4 * MIB};
    OK(cuMemcpyHtoD_v2(table, hidden, sizeof hidden));
    struct { uint64_t count, ptrs[16]; unsigned value; uint64_t n; } by_value = {2, {b, b + 4 * MIB}, 11, 100};
    void *table_fill[] = {&by_value};
    OK(launch("table_fill", stream, table_fill));
    uint64_t two = 2, each = 100, sums[2];
    void *gather[] = {&table, &two, &each, &out};
    OK(launch("gather_ptrs", stream, gather));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(sums, out, sizeof sums));
    ANSWERS(1100, sums[0]);
    ANSWERS(1100, sums[1]);

    // Wrong ranges, and all is given back at the end.
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(table, 4096, 0, stream));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(a, 41 * MIB, 0, stream));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(a, 0, 0, stream));
    ANSWERS(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(a, MIB, 1, stream));
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(&a, (size_t[]){MIB}, 1, 0, NULL));
    OK(mprotect((void *)a, 40 * MIB, PROT_NONE));
    OK(cuMemFree_v2(a));
    OK(cuMemFree_v2(b));
    ANSWERS(0, last("managed_resident"));
    ANSWERS(0, last("managed_bytes"));
    // The same addresses come back empty and open to the program.
    CUdeviceptr again = managed(2 * MIB);
    ANSWERS(a, again);
    ANSWERS(0, *(volatile unsigned *)again);
    return 0;
}
