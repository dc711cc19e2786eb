// What the pool_ programs share beyond sim_check.h: the simulated driver's own exports, random numbers, sums of blocks.
#ifndef POOL_CHECK_H
#define POOL_CHECK_H

#include "sim_check.h"
#include <dlfcn.h>
#include <pthread.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// A counter of the simulated driver, or how often a function of its was called; all ones elsewhere.
static inline uint64_t stat_of(const char *name) {
    uint64_t (*stat)(const char *) = (uint64_t(*)(const char *))dlsym(RTLD_DEFAULT, "simcuda_stat");
    return stat ? stat(name) : UINT64_MAX;
}

// Lets the kernels go that the test holds.
static inline void let_go(void) {
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "simcuda_release");
    if (release)
        release(1);
}

static inline uint64_t next_random(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static inline CUdeviceptr block(size_t bytes) {
    CUdeviceptr at = 0;
    OK(cuMemAlloc_v2(&at, bytes));
    return at;
}

static inline CUstream new_stream(unsigned flags) {
    CUstream stream;
    OK(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUresult mix(CUdeviceptr at, uint64_t n, unsigned rounds, CUstream stream) {
    void *params[] = {&at, &n, &rounds};
    return launch("mix", stream, params);
}

// *out, a 64-bit number, becomes the sum of n numbers of 32 bits.
static inline CUresult sum(CUdeviceptr from, CUdeviceptr out, uint64_t n, CUstream stream) {
    void *params[] = {&from, &out, &n};
    return launch("sum_u64", stream, params);
}

static inline CUresult spin(uint64_t micros, CUstream stream) {
    void *params[] = {&micros};
    return launch("spin_us", stream, params);
}

static inline uint64_t wide_at(CUdeviceptr at) {
    uint64_t word;
    OK(cuMemcpyDtoH_v2(&word, at, sizeof word));
    return word;
}

// What both ends of a block sum to, where all of it is `value`.
#define END_WORDS 64
static inline uint64_t fill_ends(CUdeviceptr at, size_t bytes, unsigned value, CUstream stream) {
    uint64_t words = bytes / 4, end = words < END_WORDS ? words : END_WORDS;
    OK(fill(at, value, end, stream));
    OK(fill(at + (words - end) * 4, value, end, stream));
    return end * value;
}
static inline void sum_ends(CUdeviceptr at, size_t bytes, CUdeviceptr out, CUstream stream) {
    uint64_t words = bytes / 4, end = words < END_WORDS ? words : END_WORDS;
    OK(sum(at, out, end, stream));
    OK(sum(at + (words - end) * 4, out + 8, end, stream));
}
#endif
