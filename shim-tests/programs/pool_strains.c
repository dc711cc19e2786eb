// Odd moments: a stream that has all the work while another begins to capture, a wait that fails, a context whose end is refused, a primary
// context that comes again, a stream of a device that is not current, a thread that is cancelled. Argument: which.
#include "pool_check.h"

enum { WORDS = 1 << 19, BYTES = 4 * WORDS };
extern CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                    unsigned shared, CUstream stream, void **params, void **extra);
static CUstream captured, other;
static volatile int stop;

// Memory that a held kernel's stream still reads is freed in its order; another stream gets new memory, and writes it.
static void used_in_order(CUstream stream, int begins_now) {
    CUdeviceptr out = block(8), at;
    OK(cuMemAllocAsync(&at, BYTES, stream));
    OK(fill(at, 5, WORDS, stream));
    OK(spin(1, stream)); // held by the test
    OK(sum(at, out, 512, stream));
    OK(cuMemFreeAsync(at, stream));
    if (begins_now)
        OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(fill(block(BYTES), 9, WORDS, other));
    // What must not run meanwhile would have: no way to ask for that.
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
    used_in_order(NULL, 0);
}

static void wait_fails(void) {
    start();
    captured = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream solo = new_stream(CU_STREAM_NON_BLOCKING);
    used_in_order(solo, 1);
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
    for (int i = 0; i < 300; i++)
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
    CUdeviceptr big = block(100 * MIB);
    OK(fill(big, 1, 4, NULL));
    OK(cuCtxSynchronize());
    pthread_t id;
    HOLDS(!pthread_create(&id, NULL, has_own_stream, NULL));
    pthread_barrier_wait(&turn);
    OK(cuMemFree_v2(big));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    block(100 * MIB);
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

// Two contexts of one device, the second after the first has filled the budget.
static void shared(void) {
    OK(cuInit(0));
    for (int blocks = 8; blocks >= 4; blocks -= 4) {
        OK(cuCtxCreate_v2(&context, 0, 0));
        for (int i = 0; i < blocks; i++)
            OK(cuMemsetD8_v2(block(BYTES), i, BYTES));
    }
    OK(cuCtxSynchronize());
    puts("shared");
}

static void hold_again(void) {
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "simcuda_release");
    if (release)
        release(0);
}

static CUdeviceptr freed;

static void *frees(void *nothing) {
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree_v2(freed)); // waits for the kernel that the test holds
    return nothing;
}

// A reference that is not the last is given back beside a free that waits. Each round would take as long as a wait for the other.
static void reference_beside_a_free(void) {
    start();
    void *pinned;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    CUcontext own;
    OK(cuDevicePrimaryCtxRetain(&own, 0));
    context = own;
    OK(cuCtxSetCurrent(own));
    OK(cuModuleLoadData(&module, "its own"));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 7; i++) {
        hold_again();
        OK(cuDevicePrimaryCtxRetain(&own, 0));
        freed = block(BYTES);
        OK(fill(freed, 1, 4, stream));
        OK(spin(1, stream));
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, frees, NULL));
        usleep(50000);
        OK(cuDevicePrimaryCtxRelease_v2(0));
        let_go();
        pthread_join(id, NULL);
    }
    puts("given back");
}

static void *destroys(void *which) {
    OK(cuCtxDestroy_v2(which));
    return NULL;
}

// Work in one context goes on while another ends, whose kernel the test holds.
static void work_beside_an_end(void) {
    OK(cuInit(0));
    for (int round = 0; round < 4; round++) {
        hold_again();
        CUcontext ends;
        OK(cuCtxCreate_v2(&context, 0, 0));
        ends = context;
        OK(cuModuleLoadData(&module, "its own"));
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
        OK(fill(block(4096), 1, 4, stream));
        OK(fill(block(4096), 1, 4, second));
        OK(spin(1, stream));
        OK(fill(block(4096), 1, 4, second));
        OK(cuCtxCreate_v2(&context, 0, 0));
        OK(cuModuleLoadData(&module, "its own"));
        stream = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
        block(BYTES);
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, destroys, ends));
        usleep(50000);
        for (int i = 0; i < 6; i++) {
            CUdeviceptr at = block(BYTES);
            OK(fill(at, i, WORDS, i % 2 ? stream : second));
            OK(cuMemFree_v2(at));
        }
        let_go();
        pthread_join(id, NULL);
        OK(cuCtxDestroy_v2(context));
    }
    puts("went on");
}

static pthread_key_t key;

// After what languages destroy at a thread's end.
static void at_the_very_end(void *nothing) {
    (void)nothing;
    CUdeviceptr at = block(BYTES);
    OK(fill(at, 1, 4, CU_STREAM_PER_THREAD));
    OK(cuMemFree_v2(at));
}

static void *ends_with_work(void *nothing) {
    OK(cuCtxSetCurrent(context));
    at_the_very_end(NULL);
    pthread_setspecific(key, &key);
    return nothing;
}

// Each such thread would cost a wait for work whose end nobody can know.
static void threads_that_work_at_their_very_end(void) {
    start();
    HOLDS(!pthread_key_create(&key, at_the_very_end));
    new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr blocks[10];
    for (int i = 0; i < 10; i++)
        OK(fill(blocks[i] = block(BYTES), i, WORDS, NULL));
    for (int i = 0; i < 150; i++) {
        pthread_t id;
        HOLDS(!pthread_create(&id, NULL, ends_with_work, NULL));
        pthread_join(id, NULL);
        OK(fill(blocks[i % 10], i, WORDS, NULL));
        OK(cuStreamSynchronize(NULL));
    }
    puts("ended");
}

int main(int argc, char **argv) {
    const struct { const char *name; void (*run)(void); } all[] = {
        {"solo", solo_while_a_capture_begins}, {"wait", wait_fails}, {"refused", end_is_refused}, {"again", primary_again},
        {"device", other_device}, {"beside", allocation_beside_a_kernel_that_waits_for_it}, {"cancelled", cancelled},
        {"shared", shared}, {"reference", reference_beside_a_free}, {"ends", work_beside_an_end}, {"threads", threads_that_work_at_their_very_end}};
    for (size_t i = 0; i < LENGTH(all); i++)
        if (argc == 2 && !strcmp(argv[1], all[i].name))
            return all[i].run(), 0;
    return 2;
}
