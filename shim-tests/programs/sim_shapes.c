// Copies and memsets of rectangles and boxes reach what they should and nothing beside it.
#include "sim_check.h"

struct end2d { size_t x, y; int type; const void *host; CUdeviceptr device; void *array; size_t pitch; };
struct copy2d { struct end2d from, to; size_t width, height; };
struct end3d { size_t x, y, z, level; int type; const void *host; CUdeviceptr device; void *array, *reserved; size_t pitch, rows; };
struct copy3d { struct end3d from, to; size_t width, height, depth; };
extern CUresult cuMemcpy2D_v2(const struct copy2d *copy);
extern CUresult cuMemcpy2DAsync_v2(const struct copy2d *copy, CUstream stream);
extern CUresult cuMemcpy3D_v2(const struct copy3d *copy);
extern CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height);

int main(void) {
    start();
    CUdeviceptr d;
    size_t pitch;
    unsigned char from[4][8], back[4][8], plane[2][4][8];
    for (int i = 0; i < 32; i++)
        from[i / 8][i % 8] = i;
    OK(cuMemAllocPitch_v2(&d, &pitch, 8, 8, 4));
    ANSWERS(512, pitch);
    struct copy2d in = {{0, 0, CU_MEMORYTYPE_HOST, from, 0, NULL, 8}, {0, 1, CU_MEMORYTYPE_DEVICE, NULL, d, NULL, pitch}, 8, 4};
    OK(cuMemcpy2D_v2(&in));
    OK(cuMemsetD2D8_v2(d + pitch + 2, pitch, 0xEE, 2, 2));
    struct copy2d out = {{0, 1, CU_MEMORYTYPE_DEVICE, NULL, d, NULL, pitch}, {0, 0, CU_MEMORYTYPE_HOST, back, 0, NULL, 8}, 8, 4};
    OK(cuMemcpy2DAsync_v2(&out, NULL));
    for (int i = 0; i < 32; i++) {
        int set = i / 8 < 2 && (i % 8 == 2 || i % 8 == 3);
        ANSWERS(set ? 0xEE : i, back[i / 8][i % 8]);
    }
    struct copy3d box = {{0, 0, 0, 0, CU_MEMORYTYPE_DEVICE, NULL, d, NULL, NULL, pitch, 4},
                         {0, 0, 0, 0, CU_MEMORYTYPE_HOST, plane, 0, NULL, NULL, 8, 4}, 8, 4, 2};
    OK(cuMemcpy3D_v2(&box));
    ANSWERS(16, plane[0][3][0]);
    ANSWERS(24, plane[1][0][0]);
    in.to.y = 5; // the last row leaves the allocation
    ANSWERS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&in));
    in.to.type = 3;
    ANSWERS(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy2D_v2(&in));
    return 0;
}
