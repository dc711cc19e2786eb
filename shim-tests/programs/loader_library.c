// Libraries that have nothing to do with the driver, chosen by an option.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#ifdef FOO // a function, and the one that comes after it
int foo(void) { return FOO; }
void *next_foo(void) { return dlsym(RTLD_NEXT, "foo"); }
#endif

#ifdef NAMES // names like the driver's, one of them the very same
int cudnnCreate(void) { return 1; }
int cuFoo(void) { return 2; }
int cuMemAlloc_v2(void) { return 3; }
#endif

#ifdef RUNTIME // finds the driver as a runtime does
void *runtime_finds(void) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit"); }
#endif

#ifdef SEARCHES // linked with the driver, it looks for it in everything
void *search_finds(void) { return dlsym(RTLD_DEFAULT, "cuInit"); }
#endif

#ifdef OUTER // opens a sibling that only its own RUNPATH leads to
void *inner_foo(void) {
    void *inner = dlopen("libinner.so", RTLD_NOW);
    return inner ? dlsym(inner, "foo") : NULL;
}
#endif

#ifdef MALLOC // stands in for malloc, and needs dlsym for that
void *malloc(size_t size) {
    static void *(*real)(size_t);
    if (!real) real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return real(size);
}
#endif
