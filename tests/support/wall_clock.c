/* Preloaded into a process: Python's wall clock is off by as many seconds as the file says that WALL_CLOCK_OFFSET
 * names (8 bytes, read again each time). Every other clock is the kernel's, and so is the wall clock of other code:
 * absolute waits of C++ libraries would compare the two. libfaketime 0.9.10 breaks clock_nanosleep, which
 * time.sleep of Python 3.11 uses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;

__attribute__((constructor)) static void open_offset(void)
{
    const char *path = getenv("WALL_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_s = mapped;
}

static int asked_of_python(void *caller)
{
    Dl_info where;
    if (!dladdr(caller, &where) || !where.dli_fname)
        return 0;
    const char *slash = strrchr(where.dli_fname, '/');
    const char *name = slash ? slash + 1 : where.dli_fname;
    return !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9);
}

/* Ray asks for the time so often that dladdr would take a fifth of the CPU: the answer is kept, in the lowest bit. */
static int of_python(void *caller)
{
    static volatile uintptr_t kept[1024];
    uintptr_t place = (uintptr_t)caller << 1;
    volatile uintptr_t *of_caller = &kept[(place >> 3) % 1024];
    uintptr_t known = *of_caller;
    if ((known & ~(uintptr_t)1) != place)
        *of_caller = known = place | (uintptr_t)asked_of_python(caller);
    return known & 1;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, id, now);
    if (!failed && id == CLOCK_REALTIME && offset_s && of_python(__builtin_return_address(0)))
        now->tv_sec += *offset_s;
    return failed;
}
