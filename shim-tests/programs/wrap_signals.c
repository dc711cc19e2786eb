// Says which signals arrive, each time one does, until SIGTERM ends it.
#include <signal.h>
#include <stdio.h>
int main(void) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGTERM);
    sigprocmask(SIG_BLOCK, &all, 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int number = 0;
        sigwait(&all, &number);
        printf("signal %d\n", number);
        fflush(stdout);
    }
}
