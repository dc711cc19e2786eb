// A destroyed context is made current, which ends the process. Argument: how.
#include "sim_check.h"

int main(int argc, char **argv) {
    start();
    OK(cuCtxDestroy_v2(context));
    return argc > 1 && !strcmp(argv[1], "push") ? cuCtxPushCurrent_v2(context) : cuCtxSetCurrent(context);
}
