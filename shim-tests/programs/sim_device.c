// Prints what the devices say about themselves, for the test to compare with the environment.
#include "sim_check.h"

int main(void) {
    int count, version, value;
    OK(cuDriverGetVersion(&version));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    printf("version %d devices %d\n", version, count);
    CUuuid first;
    for (CUdevice dev = 0; dev < count; dev++) {
        char name[64], cut[4];
        size_t total;
        CUuuid uuid;
        OK(cuDeviceGetName(name, sizeof name, dev));
        OK(cuDeviceGetName(cut, sizeof cut, dev));
        OK(cuDeviceTotalMem_v2(&total, dev));
        OK(cuDeviceGetUuid_v2(&uuid, dev));
        if (dev == 0)
            first = uuid;
        HOLDS((memcmp(&first, &uuid, sizeof uuid) == 0) == (dev == 0));
        printf("%s, %s, %zu bytes", name, cut, total);
        int asked[] = {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                       CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                       CU_DEVICE_ATTRIBUTE_INTEGRATED};
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            OK(cuDeviceGetAttribute(&value, asked[i], dev));
            printf(" %d", value);
        }
        printf("\n");
    }
    start();
    CUdeviceptr a = managed(4096);
    printf("prefetch %d\n", cuMemPrefetchAsync(a, 4096, 0, NULL));
    return 0;
}
