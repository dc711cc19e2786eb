// Looks functions up as its arguments say, and prints whose they are. An argument is a command, a
// colon, and what to apply it to:
//   open: global: deep: new:    dlopen of a file: local, RTLD_GLOBAL, RTLD_DEEPBIND, or dlmopen
//   sym:NAME                    dlsym in what was opened last; at first in everything
//   all:NAME                    dlsym in everything
//   vsym:NAME@VERSION           dlvsym
//   again:NAME                  dlsym(RTLD_NEXT) on eight threads, 40000 times in all
//   call:NAME                   dlsym, and a call with zeros
//   ask:NAME                    dlsym, a call without arguments, and whose the pointer is that it returns
//   gpa1: gpa2:NAME@VERSION     cuGetProcAddress found by dlsym; a p behind the version is flags = 2
//   gpa3:NAME@VERSION           cuGetProcAddress found by cuGetProcAddress
//   error:                      dlerror
//   there:FILE                  whether that library is loaded
// Built with EARLY, all of this happens before main.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "loader_whose.h"

typedef int (*gpa1_t)(const char *, void **, int, uint64_t);
typedef int (*gpa2_t)(const char *, void **, int, uint64_t, int *);
typedef int (*call_t)(long, long, long, long);
typedef void *(*ask_t)(void);

static void *handle = RTLD_DEFAULT;
static const char *wanted;
static void *first;

static void *look_often(void *wrong) {
    for (int i = 0; i < 5000; i++)
        if (dlsym(RTLD_NEXT, wanted) != first) *(int *)wrong = 1;
    return NULL;
}

static void often(const char *name) {
    pthread_t threads[8];
    int wrong[8] = {0}, sum = 0;
    wanted = name;
    first = dlsym(RTLD_NEXT, name);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, look_often, &wrong[i]);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL), sum += wrong[i];
    printf("%s %s\n", first ? "found" : "missing", sum ? "differs" : "always");
}

static void gpa(int kind, char *what) {
    int flags = strchr(what, 'p') > strchr(what, '@') ? 2 : 0;
    char *at = strchr(what, '@');
    int version = atoi(at + 1), result, status = 77;
    void *pfn = (void *)0x5a, *found = dlsym(handle, kind == 1 ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    *at = 0;
    if (kind == 3) ((gpa2_t)found)("cuGetProcAddress", &found, 12000, 0, NULL);
    if (kind == 1) result = ((gpa1_t)found)(what, &pfn, version, flags);
    else result = ((gpa2_t)found)(what, &pfn, version, flags, &status);
    *at = '@';
    printf("%s=%s result=%d", what, whose(pfn), result);
    if (kind != 1) printf(" status=%d", status);
    puts("");
}

static void open_file(const char *file, int flags) {
    handle = dlopen(file, RTLD_NOW | flags);
    if (!handle) printf("%s\n", dlerror()), exit(2);
}

static void obey(char *command) {
    char *what = strchr(command, ':');
    *what++ = 0;
#define IF(name) if (!strcmp(command, name))
    IF("open") open_file(what, RTLD_LOCAL);
    IF("global") open_file(what, RTLD_GLOBAL);
    IF("deep") open_file(what, RTLD_DEEPBIND);
    IF("new") handle = dlmopen(LM_ID_NEWLM, what, RTLD_NOW);
    IF("sym") printf("%s=%s\n", what, whose(dlsym(handle, what)));
    IF("all") printf("%s=%s\n", what, whose(dlsym(RTLD_DEFAULT, what)));
    IF("vsym") {
        char *at = strchr(what, '@');
        *at = 0;
        printf("%s=%s\n", what, whose(dlvsym(handle, what, at + 1)));
    }
    IF("again") often(what);
    IF("call") printf("%s()=%d\n", what, ((call_t)dlsym(handle, what))(0, 0, 0, 0));
    IF("ask") printf("%s()=%s\n", what, whose(((ask_t)dlsym(handle, what))()));
    IF("gpa1") gpa(1, what);
    IF("gpa2") gpa(2, what);
    IF("gpa3") gpa(3, what);
    IF("there") printf("%s is%s there\n", what, dlopen(what, RTLD_NOW | RTLD_NOLOAD) ? "" : " not");
    IF("error") {
        const char *error = dlerror();
        puts(error ? error : "no error");
    }
}

#ifdef EARLY
__attribute__((constructor))
#endif
static void obey_all(int argc, char **argv) {
    for (int i = 1; i < argc; i++) obey(argv[i]);
}

int main(int argc, char **argv) {
#ifdef EARLY
    (void)argc, (void)argv, (void)obey_all;
#else
    obey_all(argc, argv);
#endif
    return 0;
}
