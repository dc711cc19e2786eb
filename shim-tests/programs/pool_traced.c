// Known work on blocks of different sizes, for a recording that is compared with it. Argument: how.
#define _GNU_SOURCE
#include "pool_check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static CUstream stream;

// A block of so many pages: no two have the same number, and none has that of a chunk of small ones.
static CUdeviceptr paged(unsigned pages) { return block(pages * 2 * MIB - 100); }

static void on_host(void *nothing) { (void)nothing; }

static void known(void) {
    uint64_t n = 1000;
    CUdeviceptr five = paged(5), six = paged(6), seven = paged(7), small = block(100), ten;
    OK(fill(five, 1, n, stream));
    OK(cuMemcpyDtoDAsync_v2(six, five, 4096, stream));
    OK(cuMemsetD32Async(seven, 2, n, stream));
    OK(cuStreamSynchronize(stream));
    unsigned word = 7;
    OK(cuMemcpyHtoD_v2(small, &word, sizeof word));
    ANSWERS(7, word_at(small));
    void *adds[] = {&seven, &six, &five, &n}, *same[] = {&five, &five, &five, &n};
    OK(launch("add_u32", stream, adds));
    OK(launch("add_u32", stream, same));
    OK(cuLaunchHostFunc(stream, on_host, NULL));
    // Others have had work, so that this does not wait for all.
    OK(cuStreamSynchronize(stream));
    // Refused, and so never done.
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function("nop"), 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(six));
    OK(cuMemAllocAsync(&ten, 20 * MIB, stream));
    OK(fill(ten, 3, n, stream));
    OK(cuMemFreeAsync(ten, stream));
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(fill(five, 4, n, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuCtxSynchronize());
    ANSWERS(4, word_at(five));
}

// Waits until the trace names a function.
static void wait_for(const char *path, const char *name) {
    static char bytes[1 << 20];
    for (;;) {
        int fd = open(path, O_RDONLY);
        ssize_t length = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
        if (fd >= 0)
            close(fd);
        if (length > 0 && memmem(bytes, length, name, strlen(name)))
            return;
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    if (!strcmp(how, "known")) {
        known();
    } else if (!strcmp(how, "quits") || !strcmp(how, "dies")) {
        CUdeviceptr five = paged(5);
        OK(fill(five, 1, 10, stream));
        OK(mix(five, 10, 1, stream));
        OK(cuCtxSynchronize());
        wait_for(path, "mix");
        if (*how == 'q')
            _exit(3);
        raise(SIGKILL);
    } else if (!strcmp(how, "closes")) {
        // As a daemon does with descriptors that it knows nothing of.
        CUdeviceptr five = paged(5);
        OK(fill(five, 1, 10, stream));
        OK(cuCtxSynchronize());
        wait_for(argv[3], "fill_u32");
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        int own = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int fd = own; fd >= 0 && fd < 16; fd = dup(own))
            ;
        HOLDS(write(own, "mine", 4) == 4);
        OK(mix(five, 10, 1, stream));
        OK(cuCtxSynchronize());
    } else if (!strcmp(how, "spins")) {
        CUdeviceptr five = paged(5);
        OK(fill(five, 1, 10, stream));
        OK(spin(3000, stream));
        OK(cuCtxSynchronize());
    } else if (!strcmp(how, "chunks")) {
        // Two chunks of small blocks, which go when work that could use them has ended: but one, which is kept for the next.
        CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr all[16];
        for (int i = 0; i < 16; i++)
            all[i] = block(MIB - 1000);
        OK(fill(all[0], 1, 10, stream));
        OK(fill(all[1], 1, 10, other));
        OK(fill(all[0], 1, 10, stream));
        for (int i = 0; i < 16; i++)
            OK(cuMemFree_v2(all[i]));
        OK(cuCtxSynchronize());
        OK(cuCtxSynchronize());
    } else if (!strcmp(how, "moves")) {
        HOLDS(!chdir("/"));
        OK(fill(paged(5), 1, 10, stream));
        OK(cuCtxSynchronize());
    } else if (!strcmp(how, "forks")) {
        OK(fill(paged(5), 1, 10, stream));
        OK(cuCtxSynchronize());
        pid_t child = fork();
        if (!child) {
            // It has nothing to wait for at its end.
            alarm(5);
            exit(7);
        }
        int status;
        HOLDS(waitpid(child, &status, 0) == child);
        HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        OK(mix(paged(6), 10, 1, stream));
        OK(cuCtxSynchronize());
    } else if (!strcmp(how, "contexts")) {
        // Blocks of two contexts have the same numbers there; those of the first go with it.
        CUdeviceptr five = paged(5);
        CUcontext first = context;
        CUstream in_first = stream;
        OK(fill(five, 1, 10, in_first));
        start();
        stream = new_stream(CU_STREAM_NON_BLOCKING);
        CUdeviceptr six = paged(6);
        OK(fill(six, 1, 10, stream));
        OK(cuCtxSynchronize());
        OK(cuCtxDestroy_v2(first));
        OK(fill(six, 1, 10, stream));
        OK(cuCtxSynchronize());
    } else {
        return 2;
    }
    puts("done");
}
