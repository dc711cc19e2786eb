// Allocates until it is refused, and goes on with what it has: prints how much it got, and that it could use all of it.
// Argument: bytes that it holds beside.
#include "pool_check.h"

enum { MOST = 4096, WORDS = 1 << 19 };
static CUdeviceptr blocks[MOST];

int main(int argc, char **argv) {
    start();
    if (argc > 1)
        block(atol(argv[1]));
    for (int turn = 0; turn < 2; turn++) {
        int count = 0, in_order = turn;
        CUresult answer = CUDA_SUCCESS;
        CUdeviceptr more = 99;
        while (count < MOST && answer == CUDA_SUCCESS) {
            answer = in_order ? cuMemAllocAsync(&blocks[count], 4 * WORDS, NULL) : cuMemAlloc_v2(&blocks[count], 4 * WORDS);
            count += answer == CUDA_SUCCESS;
        }
        printf("%d MiB, then %d\n", count * 2, answer);
        CUresult at_once = cuMemAlloc_v2(&more, 4 * WORDS), later = cuMemAllocAsync(&more, 4 * WORDS, NULL);
        printf("%d %d %llu\n", at_once, later, more);
        // Refused is not lost: what is there can be used, and freed, and had again.
        for (int i = 0; i < count; i++)
            OK(fill(blocks[i], i, 1000, NULL));
        for (int i = 0; i < count; i++)
            ANSWERS(i, word_at(blocks[i] + 3996));
        if (count) {
            OK(cuMemFree_v2(blocks[0]));
            OK(cuMemAlloc_v2(&blocks[0], 4 * WORDS));
        }
        printf("%d\n", cuMemAlloc_v2(&more, 4 * WORDS));
        for (int i = 0; i < count; i++)
            OK(cuMemFree_v2(blocks[i]));
        OK(cuCtxSynchronize());
    }
}
