// Does the driver answer cuGetProcAddress with the very addresses that it exports? vshare maps the driver's answer to its own function
// by that identity, so this must hold for every name it intercepts, on every driver it is to run on.
//
//   cc -O2 -o /tmp/driver-identity ci/driver-identity.c -ldl
//   nm -D --defined-only target/release/libvshare.so | /tmp/driver-identity        on a real GPU, WITHOUT the preload
//
// Names come one a line (the last word of a line counts), from the file given or from standard input; those not starting with "cu" are
// passed over. For every base name, flag and version, by both cuGetProcAddress and cuGetProcAddress_v2, before and after cuInit: a
// non-null answer must be the address of exactly one exported name of libcuda. No two names of the list may share an address.
// Ends with 1 when something is violated. Answers that are an export outside the list are printed: lookups that would pass vshare by.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int VERSIONS[] = {2000,  2020,  3000,  3010,  3020,  4000,  4010,  5000,  5050,  6000,  6050,  7000,  7050,  8000,  9000,  9020,  10000, 10010,
                               10020, 11000, 11010, 11020, 11030, 11040, 11060, 11070, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000};
enum { VERSION_COUNT = sizeof VERSIONS / sizeof *VERSIONS, FLAG_COUNT = 3, NAME_ROOM = 128 };

struct name {
    char text[NAME_ROOM];
    void *address; // NULL: the driver does not export it
};

struct names {
    struct name *rows;
    size_t count, room;
};

static void add(struct names *names, const char *text, void *address) {
    if (strlen(text) >= NAME_ROOM) return;
    if (names->count == names->room) {
        names->room = names->room ? 2 * names->room : 1024;
        names->rows = realloc(names->rows, names->room * sizeof *names->rows);
        if (!names->rows) abort();
    }
    struct name *row = &names->rows[names->count++];
    memset(row, 0, sizeof *row);
    memcpy(row->text, text, strlen(text));
    row->address = address;
}

static const struct name *find_text(const struct names *names, const char *text) {
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->rows[i].text, text)) return &names->rows[i];
    return NULL;
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const struct name *)a)->address, y = (uintptr_t)((const struct name *)b)->address;
    return (x > y) - (x < y);
}

// The rows of `sorted` at this address: the first of them, and how many.
static const struct name *find_address(const struct names *sorted, void *address, size_t *matches) {
    size_t low = 0, high = sorted->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)sorted->rows[middle].address < (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    *matches = 0;
    while (low + *matches < sorted->count && sorted->rows[low + *matches].address == address) ++*matches;
    return *matches ? &sorted->rows[low] : NULL;
}

// How many symbols the table has: from the GNU hash table (its last chain ends with an odd word), else from the old one.
static size_t symbol_count(const uint32_t *gnu_hash, const uint32_t *old_hash) {
    if (!gnu_hash) return old_hash ? old_hash[1] : 0;
    uint32_t buckets = gnu_hash[0], first = gnu_hash[1], bloom_words = gnu_hash[2];
    const uint32_t *bucket = gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while (!(chain[last - first] & 1)) last++;
    return last + 1;
}

// Every function that the loaded driver exports, read from its own dynamic symbol table, with the address that dlsym gives.
static struct names exported_by(void *driver) {
    struct link_map *map = NULL;
    struct names exported = {0};
    if (dlinfo(driver, RTLD_DI_LINKMAP, &map) != 0) {
        fprintf(stderr, "dlinfo: %s\n", dlerror());
        exit(2);
    }
    printf("driver: %s\n", map->l_name);
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *gnu_hash = NULL, *old_hash = NULL;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        uintptr_t address = entry->d_un.d_ptr;
        if (address < map->l_addr) address += map->l_addr; // some loaders leave the table as it is in the file
        if (entry->d_tag == DT_SYMTAB) symbols = (const void *)address;
        if (entry->d_tag == DT_STRTAB) strings = (const void *)address;
        if (entry->d_tag == DT_GNU_HASH) gnu_hash = (const void *)address;
        if (entry->d_tag == DT_HASH) old_hash = (const void *)address;
    }
    if (!symbols || !strings) {
        fprintf(stderr, "no dynamic symbols in %s\n", map->l_name);
        exit(2);
    }
    for (size_t i = 0, count = symbol_count(gnu_hash, old_hash); i < count; i++) {
        unsigned type = ELF64_ST_TYPE(symbols[i].st_info), bind = ELF64_ST_BIND(symbols[i].st_info);
        const char *text = strings + symbols[i].st_name;
        bool function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
        if (!function || symbols[i].st_shndx == SHN_UNDEF || (bind != STB_GLOBAL && bind != STB_WEAK) || find_text(&exported, text)) continue;
        void *address = dlsym(driver, text);
        if (address) add(&exported, text, address);
    }
    return exported;
}

static struct names read_list(FILE *file, void *driver) {
    struct names list = {0};
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        char *word = NULL;
        for (char *next = strtok(line, " \t\r\n"); next; next = strtok(NULL, " \t\r\n")) word = next;
        if (!word || strncmp(word, "cu", 2)) continue;
        word[strcspn(word, "@")] = 0;
        if (!find_text(&list, word)) add(&list, word, dlsym(driver, word));
    }
    return list;
}

// cuMemcpyHtoDAsync_v2_ptsz -> cuMemcpyHtoDAsync
static void base_name(char *out, const char *name) {
    snprintf(out, NAME_ROOM, "%s", name);
    size_t length = strlen(out);
    if (length > 5 && (!strcmp(out + length - 5, "_ptsz") || !strcmp(out + length - 5, "_ptds"))) out[length -= 5] = 0;
    if (length > 3 && out[length - 3] == '_' && out[length - 2] == 'v' && out[length - 1] >= '2' && out[length - 1] <= '9') out[length - 3] = 0;
}

typedef int (*lookup_v1)(const char *, void **, int, uint64_t);
typedef int (*lookup_v2)(const char *, void **, int, uint64_t, int *);

struct outcome {
    size_t lookups, answered, unmapped, shared, outside;
    struct names told, outside_names; // each is printed once
};

static bool first_time(struct names *told, const char *text, void *answer) {
    for (size_t i = 0; i < told->count; i++)
        if (told->rows[i].address == answer && !strcmp(told->rows[i].text, text)) return false;
    add(told, text, answer);
    return true;
}

static void check(const char *how, const char *base, int version, uint64_t flag, void *answer, const struct names *sorted, const struct names *list,
                  struct outcome *outcome) {
    outcome->lookups++;
    if (!answer) return;
    outcome->answered++;
    size_t matches;
    const struct name *found = find_address(sorted, answer, &matches);
    if (matches == 0) {
        outcome->unmapped++;
        if (!first_time(&outcome->told, base, answer)) return;
        Dl_info info = {0};
        dladdr(answer, &info);
        printf("UNMAPPED %s(%s, %d, %d) -> %p (near %s in %s)\n", how, base, version, (int)flag, answer, info.dli_sname ? info.dli_sname : "?",
               info.dli_fname ? info.dli_fname : "?");
    } else if (matches > 1) {
        outcome->shared++;
        if (!first_time(&outcome->told, base, answer)) return;
        printf("SHARED %s(%s, %d, %d) -> %p, the address of", how, base, version, (int)flag, answer);
        for (size_t i = 0; i < matches; i++) printf(" %s", found[i].text);
        printf("\n");
    } else if (!find_text(list, found->text)) {
        outcome->outside++;
        if (first_time(&outcome->outside_names, found->text, answer))
            printf("outside the list: %s(%s, %d, %d) -> %s\n", how, base, version, (int)flag, found->text);
    }
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!file || !driver) {
        fprintf(stderr, "cannot open %s\n", file ? dlerror() : argv[1]);
        return 2;
    }
    if (getenv("LD_PRELOAD")) fprintf(stderr, "warning: LD_PRELOAD is set; this check is about the driver alone\n");
    struct names exported = exported_by(driver), list = read_list(file, driver);
    struct names sorted = exported;
    sorted.rows = malloc((exported.count + 1) * sizeof *sorted.rows);
    if (!sorted.rows) return 2;
    memcpy(sorted.rows, exported.rows, exported.count * sizeof *sorted.rows);
    qsort(sorted.rows, sorted.count, sizeof *sorted.rows, by_address);

    size_t aliases = 0;
    for (size_t i = 1; i < sorted.count; i++) aliases += sorted.rows[i].address == sorted.rows[i - 1].address;
    printf("%zu functions exported, %zu of them at the address of another\n", exported.count, aliases);

    struct outcome outcome = {0};
    for (size_t i = 0; i < list.count; i++) {
        if (!list.rows[i].address) printf("not exported by this driver: %s\n", list.rows[i].text);
        for (size_t k = 0; k < i; k++)
            if (list.rows[i].address && list.rows[i].address == list.rows[k].address) {
                printf("SHARED in the list: %s and %s\n", list.rows[k].text, list.rows[i].text);
                outcome.shared++;
            }
    }
    struct names bases = {0};
    for (size_t i = 0; i < list.count; i++) {
        char base[NAME_ROOM];
        base_name(base, list.rows[i].text);
        if (!find_text(&bases, base)) add(&bases, base, NULL);
    }

    lookup_v1 get_v1 = (lookup_v1)(uintptr_t)dlsym(driver, "cuGetProcAddress");
    lookup_v2 get_v2 = (lookup_v2)(uintptr_t)dlsym(driver, "cuGetProcAddress_v2");
    int (*init)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(driver, "cuInit");
    if (!get_v1 && !get_v2) {
        fprintf(stderr, "this driver has no cuGetProcAddress\n");
        return 2;
    }
    for (int initialised = 0; initialised < 2; initialised++) {
        if (initialised && init) {
            int result = init(0);
            if (result) printf("cuInit -> %d\n", result);
        }
        for (size_t b = 0; b < bases.count; b++)
            for (int v = 0; v < VERSION_COUNT; v++)
                for (uint64_t flag = 0; flag < FLAG_COUNT; flag++) {
                    const char *base = bases.rows[b].text;
                    void *answer = NULL;
                    int status = 0;
                    if (get_v2) {
                        if (get_v2(base, &answer, VERSIONS[v], flag, &status)) answer = NULL;
                        check("cuGetProcAddress_v2", base, VERSIONS[v], flag, answer, &sorted, &list, &outcome);
                    }
                    answer = NULL;
                    if (get_v1) {
                        if (get_v1(base, &answer, VERSIONS[v], flag)) answer = NULL;
                        check("cuGetProcAddress", base, VERSIONS[v], flag, answer, &sorted, &list, &outcome);
                    }
                }
        printf("%s cuInit: %zu lookups so far, %zu answered\n", initialised ? "after" : "before", outcome.lookups, outcome.answered);
    }
    printf("%zu answers are exports outside the list (%zu names)\n", outcome.outside, outcome.outside_names.count);
    printf("%zu lookups, %zu names, %zu unmapped, %zu shared\n", outcome.lookups, list.count, outcome.unmapped, outcome.shared);
    if (list.count == 0 || outcome.answered == 0) {
        printf("nothing was checked\n");
        return 1;
    }
    return outcome.unmapped || outcome.shared ? 1 : 0;
}
