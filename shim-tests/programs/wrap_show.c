// Says what it was started with, and ends as its first argument wants.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    const char *names[] = {"VSHARE_BUDGET", "VSHARE_LIMIT", "VSHARE_POLICY", "LD_PRELOAD"};
#ifndef WRAP_STATIC
    printf("served: %s\n", dlsym(RTLD_DEFAULT, "wrap_library_is_here") ? "yes" : "no");
#endif
    for (int i = 0; i < 4; i++)
        printf("%s=%s\n", names[i], getenv(names[i]) ? getenv(names[i]) : "");
    for (int i = 1; i < argc; i++)
        printf("[%s]", argv[i]);
    printf("\n");
    fflush(stdout);
    if (argc > 2 && !strcmp(argv[1], "code"))
        return atoi(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "signal"))
        raise(atoi(argv[2]));
    return 0;
}
