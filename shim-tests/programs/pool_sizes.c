// Sizes that are odd, nothing, or absurd; results that are not asked for. Prints the codes, and checks that nothing is held after.
#include "pool_check.h"

int main(void) {
    size_t before, after, total, pitch = 77;
    start();
    OK(cuMemFree_v2(block(1)));
    OK(cuMemGetInfo_v2(&before, &total));
    CUdeviceptr at = 99;
    size_t huge[] = {0, SIZE_MAX, SIZE_MAX - 511, SIZE_MAX / 2, (size_t)1 << 63, (size_t)1 << 50, (size_t)-(2 * MIB), total * 100000};
    for (unsigned i = 0; i < LENGTH(huge); i++) {
        int code = cuMemAlloc_v2(&at, huge[i]);
        printf("alloc %u %d %llu\n", i, code, at);
        code = cuMemAllocAsync(&at, huge[i], NULL);
        printf("in order %u %d %llu\n", i, code, at);
        code = cuMemAllocPitch_v2(&at, &pitch, huge[i], 2, 4);
        printf("pitch %u %d %llu %zu\n", i, code, at, pitch);
        code = cuMemAllocPitch_v2(&at, &pitch, 512, huge[i], 4);
        printf("rows %u %d %llu %zu\n", i, code, at, pitch);
    }
    printf("null %d %d %d\n", cuMemAlloc_v2(NULL, 10), cuMemAllocAsync(NULL, 10, NULL), cuMemAllocPitch_v2(&at, NULL, 10, 10, 4));
    for (unsigned element = 0; element <= 20; element++) {
        int code = cuMemAllocPitch_v2(&at, &pitch, 1000, 3, element);
        printf("element %u %d %zu\n", element, code, pitch);
        if (!code)
            OK(cuMemFree_v2(at));
    }
    OK(cuMemGetInfo_v2(&after, &total));
    ANSWERS(before, after);
    // Sizes around every edge: each block is its own, aligned, and can be written to its last byte.
    size_t sizes[] = {1, 2, 255, 256, 257, 511, 512, 513, 4095, 4096, 65536, MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB};
    CUdeviceptr blocks[LENGTH(sizes)], base;
    size_t size;
    for (unsigned i = 0; i < LENGTH(sizes); i++) {
        blocks[i] = block(sizes[i]);
        HOLDS(blocks[i] % 512 == 0);
        OK(cuMemsetD8_v2(blocks[i], (unsigned char)(i + 1), sizes[i]));
    }
    for (unsigned i = 0; i < LENGTH(sizes); i++) {
        unsigned char first, last;
        OK(cuMemcpyDtoH_v2(&first, blocks[i], 1));
        OK(cuMemcpyDtoH_v2(&last, blocks[i] + sizes[i] - 1, 1));
        ANSWERS(i + 1, first);
        ANSWERS(i + 1, last);
        OK(cuMemGetAddressRange_v2(&base, &size, blocks[i] + sizes[i] - 1));
        HOLDS(base == blocks[i] && size == sizes[i]);
    }
    // A pitched block: rows are their own.
    OK(cuMemAllocPitch_v2(&at, &pitch, 700, 5, 8));
    printf("pitch %zu aligned %d\n", pitch, (int)(at % 512));
    OK(cuMemGetAddressRange_v2(&base, &size, at));
    printf("range %zu\n", size);
    for (int row = 0; row < 5; row++)
        OK(cuMemsetD8_v2(at + row * pitch, (unsigned char)row, 700));
    OK(cuMemFree_v2(at));
    for (unsigned i = 0; i < LENGTH(sizes); i++)
        OK(cuMemFree_v2(blocks[i]));
    OK(cuMemGetInfo_v2(&after, &total));
    ANSWERS(before, after);
}
