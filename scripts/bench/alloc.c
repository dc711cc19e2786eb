// What allocations and launches cost the calling thread, in the driver API: run it natively and under the preload (alloc.sh does both).
//
//   cc -O2 -o /tmp/alloc scripts/bench/alloc.c -ldl && /tmp/alloc [seconds per phase, default 15]
//
// One line per measurement, separated by tabs: name, samples, p50, p90, p99, p99.9, max, mean, all in nanoseconds. The clock's own cost
// (first line) is in every sample, once per timed call. The sequence of sizes is the same in every run. Never holds more than CAP bytes.
#include "cu.h"

#include <stdbool.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define CAP (2048 * MIB)
#define CHURN_LIVE (1536 * MIB)
#define BACKGROUND (512 * MIB)

enum { PAIRS = 100000, USED_PAIRS = 20000, LAUNCHES = 20000, PARAMETERS = 20, LIVE_ROOM = 4096 };

// A mix as uncached training has it: most requests small, most bytes in large blocks.
static const struct bucket {
    const char *name;
    size_t least, most;
    unsigned percent;
} BUCKETS[] = {
    {"512 B-4 KiB", 512, 4 * KIB, 30},      {"4-64 KiB", 4 * KIB, 64 * KIB, 20},    {"64 KiB-1 MiB", 64 * KIB, MIB, 18},
    {"1-16 MiB", MIB, 16 * MIB, 20},        {"16-64 MiB", 16 * MIB, 64 * MIB, 9},   {"64-256 MiB", 64 * MIB, 256 * MIB, 3},
};
enum { BUCKET_COUNT = sizeof BUCKETS / sizeof *BUCKETS };

struct series {
    const char *what;
    double *samples;
    unsigned char *bucket;
    size_t count;
};

struct block {
    CUdeviceptr address;
    size_t bytes;
    size_t sample; // of its allocation
};

static double seconds_per_phase = 15;
static unsigned long long state;

static unsigned long long random_word(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dULL;
}

static size_t random_below(size_t limit) { return (size_t)((random_word() >> 11) % limit); }

static size_t random_size(unsigned *bucket) {
    size_t roll = random_below(100);
    unsigned b = 0;
    while (roll >= BUCKETS[b].percent) roll -= BUCKETS[b++].percent;
    *bucket = b;
    // about as many in each octave of the bucket: a power of two between its ends, then up to twice that
    size_t octaves = 0;
    while (BUCKETS[b].least << (octaves + 1) <= BUCKETS[b].most) octaves++;
    size_t base = BUCKETS[b].least << random_below(octaves);
    size_t bytes = base + random_below(base / 512 + 1) * 512;
    return bytes < BUCKETS[b].most ? bytes : BUCKETS[b].most;
}

static struct series new_series(const char *what, size_t room) {
    struct series series = {what, calloc(room, sizeof(double)), calloc(room, 1), 0};
    if (!series.samples || !series.bucket) abort();
    // touched now, so that no page fault falls into a timed region
    memset(series.samples, 1, room * sizeof(double));
    memset(series.bucket, 1, room);
    return series;
}

static void add(struct series *series, unsigned bucket, double ns) {
    series->bucket[series->count] = (unsigned char)bucket;
    series->samples[series->count++] = ns;
}

static void line(const char *what, const char *part, double *samples, size_t count) {
    double sum = 0;
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) sum += samples[i];
    sort_samples(samples, count);
    printf("%s %s\t%zu\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n", what, part, count, quantile(samples, count, .5), quantile(samples, count, .9),
           quantile(samples, count, .99), quantile(samples, count, .999), samples[count - 1], sum / (double)count);
    fflush(stdout);
}

static void report(struct series *series) {
    double *part = malloc((series->count + 1) * sizeof *part);
    if (!part) abort();
    for (unsigned b = 0; b < BUCKET_COUNT; b++) {
        size_t count = 0;
        for (size_t i = 0; i < series->count; i++)
            if (series->bucket[i] == b) part[count++] = series->samples[i];
        line(series->what, BUCKETS[b].name, part, count);
    }
    line(series->what, "all sizes", series->samples, series->count);
    free(part);
    free(series->samples);
    free(series->bucket);
}

// ---- what is held, so that the cap can be kept

static struct block live[LIVE_ROOM];
static size_t live_count, held;

static double timed_alloc(struct block *block, size_t bytes) {
    block->bytes = bytes;
    held += bytes;
    if (held > CAP) {
        fprintf(stderr, "the cap of %zu MiB would be passed\n", CAP / MIB);
        exit(3);
    }
    double start = now_ns();
    CUresult result = cuMemAlloc(&block->address, bytes);
    double taken = now_ns() - start;
    CHECK(result);
    return taken;
}

static double timed_free(const struct block *block) {
    double start = now_ns();
    CUresult result = cuMemFree(block->address);
    double taken = now_ns() - start;
    CHECK(result);
    held -= block->bytes;
    return taken;
}

static struct block take_random(void) {
    size_t index = random_below(live_count);
    struct block block = live[index];
    live[index] = live[--live_count];
    return block;
}

static void free_all(void) {
    while (live_count) timed_free(&live[--live_count]);
}

static void hold_background(void) {
    unsigned bucket;
    while (live_count < LIVE_ROOM) {
        size_t bytes = random_size(&bucket);
        if (held + bytes > BACKGROUND) break;
        timed_alloc(&live[live_count++], bytes);
    }
}

static bool in_time(double start) { return now_ns() - start < 1e9 * seconds_per_phase; }

// ---- phases

static void measure_clock(void) {
    struct series clock = new_series("clock", PAIRS);
    for (size_t i = 0; i < PAIRS; i++) {
        double start = now_ns();
        add(&clock, 0, now_ns() - start);
    }
    line("clock", "itself", clock.samples, clock.count);
}

// Allocated and freed at once, beside a background of live blocks.
static void measure_pairs(void) {
    struct series pairs = new_series("pair", PAIRS);
    hold_background();
    double start = now_ns();
    for (size_t i = 0; i < PAIRS + 1000 && in_time(start); i++) {
        struct block block;
        unsigned bucket;
        double taken = timed_alloc(&block, random_size(&bucket));
        taken += timed_free(&block);
        if (i >= 1000) add(&pairs, bucket, taken);
    }
    free_all();
    report(&pairs);
}

// The same few sizes again and again, timed as a whole: the cost without the clock.
static void measure_loops(void) {
    size_t sizes[] = {512, 64 * KIB, MIB, 4 * MIB, 64 * MIB, 256 * MIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double samples[50];
        size_t count = 0;
        char part[32];
        double begin = now_ns();
        for (int round = 0; round < 50 && now_ns() - begin < 2e9; round++) {
            double start = now_ns();
            for (int i = 0; i < 100; i++) {
                CUdeviceptr p;
                CHECK(cuMemAlloc(&p, sizes[s]));
                CHECK(cuMemFree(p));
            }
            samples[count++] = (now_ns() - start) / 100;
        }
        snprintf(part, sizeof part, sizes[s] < MIB ? "%zu B" : "%zu MiB", sizes[s] < MIB ? sizes[s] : sizes[s] / MIB);
        line("pair, mean of 100,", part, samples, count);
    }
}

// Blocks live for a while: the heap fills, then each allocation is preceded by frees of random blocks until it has room.
static void measure_churn(void) {
    struct series allocs = new_series("churn alloc", PAIRS), frees = new_series("churn free", PAIRS), pairs = new_series("churn pair", PAIRS);
    static unsigned char bucket_of[PAIRS];
    static double alloc_of[PAIRS];
    double start = now_ns();
    size_t index = 0;
    while (index < PAIRS && in_time(start)) {
        unsigned bucket;
        size_t bytes = random_size(&bucket);
        while (live_count && (held + bytes > CHURN_LIVE || live_count == LIVE_ROOM)) {
            struct block block = take_random();
            double taken = timed_free(&block);
            add(&frees, bucket_of[block.sample], taken);
            add(&pairs, bucket_of[block.sample], taken + alloc_of[block.sample]);
        }
        struct block *block = &live[live_count++];
        bucket_of[index] = (unsigned char)bucket;
        alloc_of[index] = timed_alloc(block, bytes);
        block->sample = index;
        add(&allocs, bucket, alloc_of[index++]);
    }
    free_all();
    report(&allocs);
    report(&frees);
    report(&pairs);
}

static CUfunction kernel;

static void load_kernel(void) {
    char ptx[4096];
    CUmodule module;
    size_t at = (size_t)snprintf(ptx, sizeof ptx, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry many(");
    for (int i = 0; i < PARAMETERS; i++) at += (size_t)snprintf(ptx + at, sizeof ptx - at, "%s.param .u64 p%d", i ? ", " : "", i);
    snprintf(ptx + at, sizeof ptx - at, ") { ret; }\n");
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&kernel, module, "many"));
}

static CUresult launch(CUstream stream, CUdeviceptr *pointers) {
    void *parameters[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) parameters[i] = &pointers[i];
    return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

// A kernel is launched on the block between its allocation and its free, as an uncached framework does it.
static void measure_used_pairs(CUstream stream) {
    struct series allocs = new_series("used alloc", USED_PAIRS), frees = new_series("used free", USED_PAIRS);
    hold_background();
    double start = now_ns();
    for (size_t i = 0; i < USED_PAIRS + 200 && in_time(start); i++) {
        struct block block;
        unsigned bucket;
        CUdeviceptr pointers[PARAMETERS];
        double alloc = timed_alloc(&block, random_size(&bucket));
        for (int k = 0; k < PARAMETERS; k++) pointers[k] = block.address;
        CHECK(launch(stream, pointers));
        double freed = timed_free(&block);
        if (i >= 200) add(&allocs, bucket, alloc), add(&frees, bucket, freed);
    }
    free_all();
    report(&allocs);
    report(&frees);
}

// Empty kernels of 20 pointers: all into one block, and into 20 blocks.
static void measure_launches(CUstream stream, const char *what) {
    char text[64];
    struct block blocks[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) timed_alloc(&blocks[i], (size_t)(i % 4 + 1) * MIB);
    for (int distinct = 0; distinct < 2; distinct++) {
        static double samples[LAUNCHES];
        CUdeviceptr pointers[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) pointers[i] = blocks[distinct ? i : 0].address + 512;
        for (int i = 0; i < 200; i++) CHECK(launch(stream, pointers));
        CHECK(cuStreamSynchronize(stream));
        for (int i = 0; i < LAUNCHES; i++) {
            double start = now_ns();
            CUresult result = launch(stream, pointers);
            samples[i] = now_ns() - start;
            CHECK(result);
            if (i % 128 == 127) CHECK(cuStreamSynchronize(stream));
        }
        snprintf(text, sizeof text, "%s, 20 pointers,", what);
        line(text, distinct ? "20 blocks" : "1 block", samples, LAUNCHES);
        double loops[100];
        for (int round = 0; round < 100; round++) {
            double start = now_ns();
            for (int i = 0; i < 100; i++) CHECK(launch(stream, pointers));
            loops[round] = (now_ns() - start) / 100;
            CHECK(cuStreamSynchronize(stream));
        }
        snprintf(text, sizeof text, "%s, mean of 100,", what);
        line(text, distinct ? "20 blocks" : "1 block", loops, 100);
    }
    for (int i = 0; i < PARAMETERS; i++) timed_free(&blocks[i]);
}

// A program that has pinned memory and often frees: cuMemFree waits for work that may write it, so somebody has to look at what launches name.
static void pin_and_free(void) {
    enum { FREES = 200 };
    void *pinned;
    CHECK(cuMemHostAlloc(&pinned, MIB, 0));
    for (int i = 0; i < FREES; i++) {
        struct block block;
        timed_alloc(&block, MIB);
        timed_free(&block);
    }
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    if (argc > 1) seconds_per_phase = atof(argv[1]);
    state = 0x9e3779b97f4a7c15ULL;
    cu_load();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
    load_kernel();
    measure_clock();
    measure_loops();
    measure_pairs();
    measure_churn();
    measure_used_pairs(stream);
    measure_launches(stream, "launch");
    pin_and_free();
    measure_launches(stream, "watched launch");
    return 0;
}
