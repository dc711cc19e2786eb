// Opens the library it is given, lets a thread use it, and closes it before the thread ends.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *library;
static pthread_barrier_t used, closed;

static void *use(void *unused) {
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    printf("%d\n", init(0));
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 2 || !(library = dlopen(argv[1], RTLD_NOW))) return 2;
    pthread_barrier_init(&used, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    pthread_create(&thread, NULL, use, NULL);
    pthread_barrier_wait(&used);
    dlclose(library);
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
    puts("alive");
    return 0;
}
