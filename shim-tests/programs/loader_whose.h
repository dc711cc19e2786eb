// Says whose function an address is.
#pragma once
#include <dlfcn.h>
#include <string.h>

static inline const char *whose(void *function) {
    Dl_info info;
    if (!function) return "nobody";
    if (!dladdr(function, &info)) return "unknown";
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash ? slash + 1 : info.dli_fname;
    if (!strcmp(file, "libvshare.so")) return "vshare";
    if (!strncmp(file, "libcuda.so", 10)) return "driver";
    return file;
}
