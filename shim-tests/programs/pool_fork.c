// A fork before CUDA is used, and one after, at the worst moments. Argument: which.
#define _GNU_SOURCE
#include "pool_check.h"
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { BLOCKS = 10, WORDS = 1 << 19 };
static CUdeviceptr blocks[BLOCKS];

static void work(unsigned value) {
    for (int i = 0; i < BLOCKS; i++) {
        if (!blocks[i])
            blocks[i] = block(4 * WORDS);
        OK(fill(blocks[i], value + i, WORDS, NULL));
    }
}

static void is_right(unsigned value) {
    for (int i = 0; i < BLOCKS; i++)
        ANSWERS(value + i, word_at(blocks[i] + 4 * WORDS - 4));
}

static int status_of(pid_t child) {
    int status;
    HOLDS(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static volatile int stop;
static void *storms(void *nothing) {
    OK(cuCtxSetCurrent(context));
    while (!stop) {
        CUdeviceptr at = block(4 * WORDS);
        OK(fill(at, 1, WORDS, CU_STREAM_PER_THREAD));
        OK(cuMemFree_v2(at));
    }
    return nothing;
}

static volatile int ends_now, slept;

// Stands before the C library's: whether anybody sleeps while a child ends.
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    slept += ends_now;
    return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
}

static void says_who_slept(void) {
    if (slept)
        _exit(8);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    pid_t child;
    if (!strcmp(how, "before")) {
        // Both use CUDA, each for itself.
        child = fork();
        start();
        work(child ? 10 : 20);
        is_right(child ? 10 : 20);
        if (!child)
            exit(7);
        printf("child %d\n", status_of(child));
    } else if (!strcmp(how, "room")) {
        // A child that uses CUDA for the first time has room made for it like any other process.
        child = fork();
        if (child) {
            printf("child %d\n", status_of(child));
            return 0;
        }
        start();
        work(20);
        is_right(20);
        printf("evicts %d, resident %lu MiB\n", stat_of("evict_calls") > 0, stat_of("managed_resident_peak") / MIB);
        return 7;
    } else if (!strcmp(how, "after")) {
        start();
        work(10);
        fflush(stdout);
        child = fork();
        if (!child) {
            // What the driver answers in a child, it answers.
            CUdeviceptr at;
            size_t free, total;
            printf("%d %d %d %d %d %d\n", cuMemAlloc_v2(&at, 4096), cuMemFree_v2(blocks[0]), cuCtxSynchronize(),
                   cuMemGetInfo_v2(&free, &total), cuMemAllocAsync(&at, 4096, NULL), cuMemsetD8_v2(blocks[1], 1, 1));
            exit(7);
        }
        printf("child %d\n", status_of(child));
        is_right(10);
        work(30);
        is_right(30);
    } else if (!strcmp(how, "moving")) {
        // While a thread of ours, which the child does not have, is at work: the test holds it.
        atexit(says_who_slept);
        start();
        work(10);
        for (int i = 0; i < 50000 && !stat_of("held"); i++)
            usleep(200);
        HOLDS(stat_of("held"));
        child = fork();
        if (!child) {
            ends_now = 1;
            exit(7);
        }
        printf("child %d\n", status_of(child));
        let_go();
    } else if (!strcmp(how, "exec")) {
        start();
        work(10);
        for (int i = 0; i < 5; i++) {
            child = fork();
            if (!child)
                execlp("sh", "sh", "-c", "exit 3", NULL);
            work(20 + i);
            ANSWERS(3, status_of(child));
        }
        is_right(24);
    } else if (!strcmp(how, "many")) {
        // While other threads are in the middle of everything.
        start();
        pthread_t ids[2];
        for (int i = 0; i < 2; i++)
            HOLDS(!pthread_create(&ids[i], NULL, storms, NULL));
        for (int i = 0; i < 30; i++) {
            child = fork();
            if (!child)
                _exit(5);
            ANSWERS(5, status_of(child));
        }
        stop = 1;
        for (int i = 0; i < 2; i++)
            pthread_join(ids[i], NULL);
        work(1);
        is_right(1);
    } else {
        return 2;
    }
    OK(cuCtxSynchronize());
    puts("done");
}
