// Runs its arguments in a terminal of their own; once they say "ready", types an interrupt, then
// waits for "signal 2", sends SIGUSR1 and SIGTERM to what it started, and shows all that was said.
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char said[1 << 16];
static int terminal;
static void read_until(const char *what) {
    while (!strstr(said, what)) {
        size_t length = strlen(said);
        ssize_t n = read(terminal, said + length, sizeof said - 1 - length);
        if (n <= 0)
            return;
    }
}
int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    pid_t child = forkpty(&terminal, 0, 0, 0);
    if (child == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    read_until("ready");
    if (write(terminal, "\003", 1) != 1)
        return 3;
    read_until("signal 2");
    kill(child, SIGUSR1); // comes after any second SIGINT
    read_until("signal 10");
    kill(child, SIGTERM);
    read_until("no such text: to the end");
    int status = 0;
    waitpid(child, &status, 0);
    fputs(said, stdout);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
