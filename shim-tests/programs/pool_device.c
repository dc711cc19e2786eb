// What a program learns of its devices, one by one. Arguments: what it asks for; how it takes memory, or a device.
#include "pool_check.h"

enum { MOST = 8 };
static CUcontext contexts[MOST];

static int count(void) {
    int devices;
    OK(cuDeviceGetCount(&devices));
    HOLDS(devices <= MOST);
    return devices;
}

// Every attribute there is, and some that there are not.
static void attributes(void) {
    for (int device = 0; device < count(); device++) {
        char name[64], uuid[33] = "";
        CUuuid id;
        OK(cuDeviceGetName(name, sizeof name, device));
        OK(cuDeviceGetUuid_v2(&id, device));
        for (int i = 0; i < 16; i++)
            sprintf(uuid + 2 * i, "%02x", (unsigned char)id.bytes[i]);
        printf("%s %s\n", name, uuid);
        for (int which = -1; which < 400; which++) {
            int value = -77;
            CUresult answer = cuDeviceGetAttribute(&value, which, device);
            printf("%d:%d:%d ", which, answer, value);
        }
        printf("\n%d\n", cuDeviceGetAttribute(NULL, 1, device));
    }
    int value = -77;
    printf("%d %d\n", cuDeviceGetAttribute(&value, 1, count()), value);
}

static size_t free_on(int device) {
    size_t free, total;
    OK(cuCtxSetCurrent(contexts[device]));
    OK(cuMemGetInfo_v2(&free, &total));
    return free;
}

// What is taken from one device is missing there and nowhere else, by whatever call it was taken, and is there again afterwards.
static void change(const char *what, int on, const size_t *before) {
    printf("%s on %d:", what, on);
    for (int device = 0; device < count(); device++)
        printf(" %ld", (long)(before[device] - free_on(device)) / (long)MIB);
    puts("");
}

static void shares(const char *how) {
    size_t before[MOST];
    CUdeviceptr at[MOST];
    CUmemGenericAllocationHandle handles[MOST];
    int created = !strcmp(how, "created"), in_order = !strcmp(how, "in-order");
    for (int device = 0; device < count(); device++) {
        OK(cuCtxCreate_v2(&contexts[device], 0, device));
        before[device] = free_on(device);
    }
    for (int device = 0; device < count(); device++) {
        size_t bytes = 2 * MIB * (device + 1);
        CUmemAllocationProp prop = {CU_MEM_ALLOCATION_TYPE_PINNED, 0, {CU_MEM_LOCATION_TYPE_DEVICE, device}, NULL, {0}};
        free_on(device);
        if (created)
            OK(cuMemCreate(&handles[device], bytes, &prop, 0));
        else if (in_order)
            OK(cuMemAllocAsync(&at[device], bytes, NULL));
        else
            at[device] = block(bytes);
        change(how, device, before);
    }
    for (int device = 0; device < count(); device++) {
        free_on(device);
        if (created)
            OK(cuMemRelease(handles[device]));
        else if (in_order)
            OK(cuMemFreeAsync(at[device], NULL));
        else
            OK(cuMemFree_v2(at[device]));
        OK(cuCtxSynchronize());
        change("freed", device, before);
    }
}

// How much each device gives, the others having given all.
static void limits(void) {
    for (int device = 0; device < count(); device++) {
        CUdeviceptr at;
        int blocks = 0;
        OK(cuCtxCreate_v2(&contexts[device], 0, device));
        while (blocks < 1000 && cuMemAlloc_v2(&at, 2 * MIB) == CUDA_SUCCESS)
            blocks++;
        printf("%d ", 2 * blocks);
    }
    puts("MiB");
}

// Uses one device only, for more than the budget.
static void only(int device) {
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, device));
    OK(cuModuleLoadData(&module, "any image"));
    CUdeviceptr blocks[12];
    for (int i = 0; i < 12; i++)
        OK(fill(blocks[i] = block(2 * MIB), i, MIB / 2, NULL));
    for (int i = 0; i < 12; i++)
        ANSWERS(i, word_at(blocks[i] + 2 * MIB - 4));
    puts("used");
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    OK(cuInit(0));
    if (!strcmp(argv[1], "attributes"))
        attributes();
    else if (!strcmp(argv[1], "shares") && argc == 3)
        shares(argv[2]);
    else if (!strcmp(argv[1], "limits"))
        limits();
    else if (!strcmp(argv[1], "only") && argc == 3)
        only(atoi(argv[2]));
    else
        return 2;
}
