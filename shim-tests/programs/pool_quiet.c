// Counts its threads: none is added to a program whose memory fits. Argument: whether to go over the budget at the end.
#include "pool_check.h"
#include <dirent.h>

static int named(const char *prefix) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    while ((task = readdir(tasks))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "r");
        if (comm) {
            count += fgets(name, sizeof name, comm) && !strncmp(name, prefix, strlen(prefix));
            fclose(comm);
        }
    }
    closedir(tasks);
    return count;
}

int main(int argc, char **argv) {
    (void)argv;
    start();
    CUdeviceptr blocks[16];
    for (int i = 0; i < 8; i++)
        OK(fill(blocks[i] = block(2 * MIB), i, 100, NULL));
    for (int i = 0; i < 8; i++)
        OK(cuMemFree_v2(blocks[i]));
    OK(cuCtxSynchronize());
    printf("%d\n", named("vshare"));
    if (argc > 1) {
        for (int i = 0; i < 16; i++)
            OK(fill(blocks[i] = block(2 * MIB), i, 100, NULL));
        OK(cuCtxSynchronize());
        printf("%d\n", named("vshare"));
    }
}
