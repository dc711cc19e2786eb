/* Prints all that a segment says, one thing a line: what a reader in C looks like. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vshare.h>

static void text(const char *what, const uint64_t *length, const char *bytes, size_t room) {
    char copy[256];
    uint64_t used = vshare_load(length);
    vshare_copy(copy, bytes, room);
    printf("%s ", what);
    for (size_t i = 0; i < room && i < used; i++) printf("%02x", (unsigned char)copy[i]);
    printf("\n");
}

int main(int argc, char **argv) {
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    struct stat found;
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size < VSHARE_SIZE) {
        fprintf(stderr, "not a segment\n");
        return 1;
    }
    void *map = mmap(NULL, VSHARE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    const struct vshare_segment *segment = map;
    if (!vshare_check(segment)) {
        fprintf(stderr, "of another version, or not a segment\n");
        return 1;
    }
    printf("pid %" PRIu64 " created %" PRIu64 "\n", vshare_load(&segment->pid), vshare_load(&segment->created_ns));
    text("library", &segment->library.length, segment->library.bytes, sizeof segment->library.bytes);
    text("device", &segment->device_name.length, segment->device_name.bytes, sizeof segment->device_name.bytes);
    text("command", &segment->command.length, segment->command.bytes, sizeof segment->command.bytes);
    for (size_t i = 0; i < vshare_counters(segment); i++) {
        char name[33];
        vshare_copy(name, segment->rows[i].name, sizeof segment->rows[i].name);
        printf("counter ");
        for (size_t j = 0; name[j]; j++) printf("%02x", (unsigned char)name[j]);
        printf(" %" PRIu64 "\n", vshare_value(segment, i));
    }
    uint64_t head = vshare_load(&segment->ring_head);
    for (uint64_t ticket = vshare_oldest(segment); ticket < head; ticket++) {
        struct vshare_event event;
        if (vshare_event(segment, ticket, &event) == 1)
            printf("event %" PRIu64 " %u %" PRIu64 " %" PRIu64 "\n", ticket, event.kind, event.time_ns, event.a);
    }
    return 0;
}
