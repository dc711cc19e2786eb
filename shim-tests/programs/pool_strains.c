// Odd moments: a stream that has all the work while another begins to capture, a wait that fails, a context whose end is refused, a primary
// context that comes again, a stream of a device that is not current, a thread that is cancelled. Argument: which.
#include "pool_check.h"

enum { WORDS = 1 << 19, BYTES = 4 * WORDS };
extern CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                    unsigned shared, CUstream stream, void **params, void **extra);
static CUstream captured, other;
static volatile int stop;

// Memory that a held kernel's stream still reads is freed in its order; another stream gets new memory, and writes it.
static void used_in_order(CUstream stream) {
    CUdeviceptr out = block(8), at;
    OK(cuMemAllocAsync(&at, BYTES, stream));
    OK(fill(at, 5, WORDS, stream));
    OK(spin(1, stream)); // held by the test
    OK(sum(at, out, 512, stream));
    OK(cuMemFreeAsync(at, stream));
    OK(fill(block(BYTES), 9, WORDS, other));
    usleep(50000);
    let_go();
    CUgraph graph;
    OK(cuStreamEndCapture(captured, &graph));
    OK(cuCtxSynchronize());
    printf("%lu\n", wide_at(out));
}

static void *begins(void *nothing) {
    OK(cuCtxSetCurrent(context));
    OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED)); // the test makes it slow
    return nothing;
}

static void solo_while_a_capture_begins(void) {
    start();
    captured = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr any = block(4096);
    pthread_t id;
    HOLDS(!pthread_create(&id, NULL, begins, NULL));
    usleep(50000);
    for (int i = 0; i < 100; i++)
        OK(fill(any, i, 4, NULL));
    pthread_join(id, NULL);
    used_in_order(NULL);
}

static void wait_fails(void) {
    start();
    captured = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream solo = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr any = block(4096);
    OK(fill(any, 1, 4, solo));
    OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    used_in_order(solo);
}

static void *churns(void *nothing) {
    OK(cuCtxSetCurrent(context));
    while (!stop) {
        CUdeviceptr at = block(BYTES);
        OK(fill(at, 7, WORDS, NULL));
        ANSWERS(word_at(at + BYTES - 4), 7);
        OK(cuMemFree_v2(at));
    }
    return nothing;
}

static void end_is_refused(void) {
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, "its own"));
    block(BYTES);
    pthread_t ids[2];
    for (int i = 0; i < 2; i++)
        HOLDS(!pthread_create(&ids[i], NULL, churns, NULL));
    for (int i = 0; i < 3000; i++)
        HOLDS(cuCtxDestroy_v2(context));
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    puts("refused");
}

static void primary_again(void) {
    OK(cuInit(0));
    for (int i = 0; i < 3; i++) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, "its own"));
        CUdeviceptr at = block(BYTES);
        OK(fill(at, i, WORDS, NULL));
        printf("%u\n", word_at(at));
        OK(cuDevicePrimaryCtxRelease_v2(0));
    }
}

static void other_device(void) {
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 1));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    block(4096);
    CUmemoryPool pool;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = 1, props.location.type = 1, props.location.id = 1;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuCtxCreate_v2(&context, 0, 0));
    block(4096);
    for (int how = 0; how < 2; how++) {
        CUdeviceptr at = 0;
        OK(how ? cuMemAllocFromPoolAsync(&at, 4096, pool, NULL) : cuMemAllocAsync(&at, 4096, stream));
        int ordinal = -1;
        OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
        printf("device %d\n", ordinal);
    }
}

static pthread_barrier_t turn;
static CUdeviceptr small;

// Its own stream has had work, and gets a kernel that ends when the other thread has allocated.
static void *has_own_stream(void *nothing) {
    OK(cuCtxSetCurrent(context));
    OK(fill(small, 1, 4, CU_STREAM_PER_THREAD));
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, CU_STREAM_PER_THREAD));
    OK(cuEventSynchronize(event));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn); // freed
    OK(spin(1, CU_STREAM_PER_THREAD)); // held by the test
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn); // allocated
    printf("%d\n", cuStreamQuery(CU_STREAM_PER_THREAD));
    let_go();
    return nothing;
}

static void allocation_beside_a_kernel_that_waits_for_it(void) {
    start();
    pthread_barrier_init(&turn, NULL, 2);
    small = block(4096);
    CUdeviceptr big = block(40 * MIB);
    OK(fill(big, 1, 4, NULL));
    OK(cuCtxSynchronize());
    pthread_t id;
    HOLDS(!pthread_create(&id, NULL, has_own_stream, NULL));
    pthread_barrier_wait(&turn);
    OK(cuMemFree_v2(big));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    block(40 * MIB);
    pthread_barrier_wait(&turn);
    pthread_join(id, NULL);
}

static void *works_until_cancelled(void *nothing) {
    OK(cuCtxSetCurrent(context));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (;;) {
        CUdeviceptr at[8];
        for (int i = 0; i < 8; i++)
            OK(cuMemAllocAsync(&at[i], BYTES, stream));
        for (int i = 0; i < 8; i++)
            OK(fill(at[i], 1, WORDS, stream));
        for (int i = 0; i < 8; i++)
            OK(cuMemFreeAsync(at[i], stream));
        OK(cuStreamSynchronize(stream));
        pthread_testcancel();
    }
    return nothing;
}

static void cancelled(void) {
    start();
    uint64_t random = 1;
    for (int i = 0; i < 20; i++) {
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, works_until_cancelled, NULL));
        usleep(next_random(&random) % 20000);
        pthread_cancel(id);
        pthread_join(id, NULL);
        OK(cuCtxSynchronize());
    }
    puts("cancelled");
}

int main(int argc, char **argv) {
    const struct { const char *name; void (*run)(void); } all[] = {
        {"solo", solo_while_a_capture_begins}, {"wait", wait_fails}, {"refused", end_is_refused}, {"again", primary_again},
        {"device", other_device}, {"beside", allocation_beside_a_kernel_that_waits_for_it}, {"cancelled", cancelled}};
    for (size_t i = 0; i < LENGTH(all); i++)
        if (argc == 2 && !strcmp(argv[1], all[i].name))
            return all[i].run(), 0;
    return 2;
}
