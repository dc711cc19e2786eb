// Several threads ask for memory at once, of which the pool has none yet: one gets an extent from the driver, the others wait for it.
// Argument: which.
#include "pool_check.h"

enum { THREADS = 48 };
// More than an extent of device memory has, unless it is made for one.
static const size_t LARGE = 65 * MIB, SMALL = 100 * MIB;

static pthread_barrier_t together;
static volatile int released;

static void *takes_a_large_one(void *answer) {
    CUdeviceptr at;
    OK(cuCtxSetCurrent(context));
    pthread_barrier_wait(&together);
    *(CUresult *)answer = cuMemAlloc_v2(&at, LARGE);
    return NULL;
}

static void *takes_a_small_one(void *answer) {
    CUdeviceptr at;
    OK(cuCtxSetCurrent(context));
    *(CUresult *)answer = cuMemAlloc_v2(&at, SMALL);
    return NULL;
}

static void *releases(void *nothing) {
    OK(cuDevicePrimaryCtxRelease_v2(0));
    released = 1;
    return nothing;
}

static pthread_t thread(void *(*run)(void *), void *argument) {
    pthread_t id;
    HOLDS(!pthread_create(&id, NULL, run, argument));
    return id;
}

// Until the driver has been called more often than before.
static void called(const char *name, uint64_t before) {
    while (stat_of(name) <= before)
        usleep(100);
}

// Each extent serves one of them: the last has waited for many that others got.
static void many(void) {
    size_t free, total;
    CUresult answers[THREADS];
    pthread_t ids[THREADS];
    OK(cuMemGetInfo_v2(&free, &total));
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        ids[i] = thread(takes_a_large_one, &answers[i]);
    int served = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        served += answers[i] == CUDA_SUCCESS;
    }
    printf("%d of %d\n", served, THREADS);
}

// The driver takes long over an extent, and another thread waits for it.
static void slow(void) {
    CUresult first, second;
    pthread_t id = thread(takes_a_small_one, &first);
    called("cuMemAllocManaged", 0);
    takes_a_small_one(&second);
    pthread_join(id, NULL);
    printf("%d %d\n", first, second);
}

// A reference to the primary context is given back, which is not the last, while memory is on its way to the device. What another thread
// takes meanwhile is of the pool, like all else.
static void release(void) {
    CUresult first;
    pthread_t ids[2];
    OK(cuCtxSetCurrent(context));
    block(4096);
    uint64_t moves = stat_of("cuMemPrefetchAsync_v2"), releases_before = stat_of("cuDevicePrimaryCtxRelease_v2");
    ids[0] = thread(takes_a_small_one, &first);
    called("cuMemPrefetchAsync_v2", moves);
    ids[1] = thread(releases, NULL);
    called("cuDevicePrimaryCtxRelease_v2", releases_before);
    while (!released) {
        block(4096);
        usleep(1000);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    printf("%d, %lu outside the pool\n", first, stat_of("device_allocs"));
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    OK(cuInit(0));
    if (!strcmp(argv[1], "release")) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        return release(), 0;
    }
    OK(cuCtxCreate_v2(&context, 0, 0));
    if (!strcmp(argv[1], "many"))
        return many(), 0;
    if (!strcmp(argv[1], "slow"))
        return slow(), 0;
    return 2;
}
