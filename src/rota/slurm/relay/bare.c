/* What relay.c needs of a C library, for Linux on two kinds of processors; see its head.
 *
 * A library's own start takes three times as long as all that a relay does: it asks the processor
 * what it can, which on a virtual machine stops the machine each time. Every function does what its
 * namesake does, for the arguments that it is given in relay.c. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { LINE_ROOM = 8192, DIGITS = 24, GRAIN = 16 };

char **environ;

int *__errno_location(void) {
    static int number;
    return &number;
}

/* ---- system calls ---- */

#if defined(__x86_64__) && defined(__LP64__)

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");

#elif defined(__aarch64__) && defined(__LP64__)

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

__asm__(".globl _start\n_start:\n mov x29, #0\n mov x30, #0\n mov x0, sp\n bl begin\n");

#else
#error "this processor needs a C library"
#endif

static long call(long number, long a, long b, long c, long d) {
    long result = raw(number, a, b, c, d, 0, 0);
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

#define CALL(number, a, b, c, d) call((number), (long)(a), (long)(b), (long)(c), (long)(d))

void exit(int code) {
    for (;;)
        CALL(SYS_exit_group, code, 0, 0, 0);
}

ssize_t read(int fd, void *bytes, size_t count) { return CALL(SYS_read, fd, bytes, count, 0); }

ssize_t write(int fd, const void *bytes, size_t count) {
    return CALL(SYS_write, fd, bytes, count, 0);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    return (int)CALL(SYS_openat, AT_FDCWD, path, flags, mode);
}

int close(int fd) { return (int)CALL(SYS_close, fd, 0, 0, 0); }

int socket(int family, int kind, int protocol) {
    return (int)CALL(SYS_socket, family, kind, protocol, 0);
}

int connect(int fd, const struct sockaddr *address, socklen_t size) {
    return (int)CALL(SYS_connect, fd, address, size, 0);
}

int access(const char *path, int mode) {
    return (int)CALL(SYS_faccessat, AT_FDCWD, path, mode, 0);
}

char *getcwd(char *path, size_t room) {
    /* Where we are may not be reached from the root: then it is no path. */
    return CALL(SYS_getcwd, path, room, 0, 0) > 0 && path[0] == '/' ? path : NULL;
}

ssize_t readlink(const char *path, char *target, size_t room) {
    return CALL(SYS_readlinkat, AT_FDCWD, path, target, room);
}

mode_t umask(mode_t mask) { return (mode_t)CALL(SYS_umask, mask, 0, 0, 0); }

int ioctl(int fd, unsigned long what, ...) {
    va_list more;
    va_start(more, what);
    void *where = va_arg(more, void *);
    va_end(more);
    return (int)CALL(SYS_ioctl, fd, what, where, 0);
}

int uname(struct utsname *machine) { return (int)CALL(SYS_uname, machine, 0, 0, 0); }

int nanosleep(const struct timespec *time, struct timespec *left) {
    return (int)CALL(SYS_nanosleep, time, left, 0, 0);
}

int execve(const char *path, char *const *words, char *const *variables) {
    return (int)CALL(SYS_execve, path, words, variables, 0);
}

/* ---- bytes and texts ---- */

/* The barriers keep the compiler from making calls of these very functions out of the loops. */
#define BARRIER __asm__ volatile("" ::: "memory")

void *memcpy(void *to, const void *from, size_t count) {
    typedef unsigned long __attribute__((may_alias, aligned(1))) word;
    char *place = to;
    const char *bytes = from;
    for (; count >= sizeof(word); place += sizeof(word), bytes += sizeof(word)) {
        *(word *)place = *(const word *)bytes;
        count -= sizeof(word);
        BARRIER;
    }
    for (; count > 0; count--) {
        *place++ = *bytes++;
        BARRIER;
    }
    return to;
}

void *memset(void *to, int byte, size_t count) {
    for (char *place = to; count > 0; count--) {
        *place++ = (char)byte;
        BARRIER;
    }
    return to;
}

size_t strlen(const char *text) {
    size_t count = 0;
    for (; text[count]; count++)
        BARRIER;
    return count;
}

char *strcpy(char *to, const char *from) { return memcpy(to, from, strlen(from) + 1); }

static int lower(char byte) { return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte; }

int strncmp(const char *one, const char *other, size_t count) {
    for (; count > 0; one++, other++, count--)
        if (*one != *other || *one == 0)
            return (unsigned char)*one - (unsigned char)*other;
    return 0;
}

int strncasecmp(const char *one, const char *other, size_t count) {
    for (; count > 0; one++, other++, count--)
        if (lower(*one) != lower(*other) || *one == 0)
            return lower(*one) - lower(*other);
    return 0;
}

int strcmp(const char *one, const char *other) { return strncmp(one, other, (size_t)-1); }

char *strchr(const char *text, int byte) {
    for (; *text != (char)byte; text++)
        if (*text == 0)
            return NULL;
    return (char *)text;
}

char *strrchr(const char *text, int byte) {
    const char *found = NULL;
    for (; (text = strchr(text, byte)) != NULL && *text; text++)
        found = text;
    return (char *)found;
}

char *strstr(const char *text, const char *part) {
    for (; *text; text++)
        if (strncmp(text, part, strlen(part)) == 0)
            return (char *)text;
    return NULL;
}

size_t strcspn(const char *text, const char *ends) {
    size_t count = 0;
    while (text[count] && strchr(ends, text[count]) == NULL)
        count++;
    return count;
}

unsigned long strtoul(const char *text, char **end, int base) {
    static const char digits[] = "0123456789abcdef";
    unsigned long number = 0;
    const char *found;
    (void)end;
    for (text += strspn(text, " \t"); *text; text++, number += (unsigned long)(found - digits)) {
        found = strchr(digits, lower(*text));
        if (found == NULL || found >= digits + base)
            break;
        number *= (unsigned long)base;
    }
    return number;
}

size_t strspn(const char *text, const char *among) {
    size_t count = 0;
    while (text[count] && strchr(among, text[count]) != NULL)
        count++;
    return count;
}

/* ---- memory: each block is a map of its own, with its size in front ---- */

static void *mapped(long place, size_t room) {
    if (place < 0 && place > -4096)
        return NULL;
    *(size_t *)place = room;
    return (char *)place + GRAIN;
}

void *malloc(size_t count) {
    const long ways = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    size_t room = count + GRAIN;
    return mapped(raw(SYS_mmap, 0, (long)room, ways, kind, -1, 0), room);
}

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void free(void *block) {
    if (block != NULL) {
        size_t *begin = (size_t *)((char *)block - GRAIN);
        CALL(SYS_munmap, begin, *begin, 0, 0);
    }
}

void *realloc(void *block, size_t count) {
    if (block == NULL)
        return malloc(count);
    size_t *begin = (size_t *)((char *)block - GRAIN), room = count + GRAIN;
    return mapped(raw(SYS_mremap, (long)begin, (long)*begin, (long)room, MREMAP_MAYMOVE, 0, 0), room);
}

/* ---- variables ---- */

char *getenv(const char *name) {
    size_t length = strlen(name);
    for (char **pair = environ; *pair; pair++)
        if (strncmp(*pair, name, length) == 0 && (*pair)[length] == '=')
            return *pair + length + 1;
    return NULL;
}

/* In the place of what is there; `over` says that it may be. */
int setenv(const char *name, const char *value, int over) {
    size_t length = strlen(name), count = 0, place = 0;
    while (environ[count])
        count++;
    char **pairs = calloc(count + 2, sizeof *pairs);
    char *made = malloc(length + strlen(value) + 2);
    if (pairs == NULL || made == NULL || !over)
        return -1;
    memcpy(made, name, length);
    made[length] = '=';
    strcpy(made + length + 1, value);
    memcpy(pairs, environ, count * sizeof *pairs);
    while (place < count && strncmp(pairs[place], made, length + 1) != 0)
        place++;
    pairs[place] = made;
    environ = pairs;
    return 0;
}

/* ---- formats: %s, %.*s, %d, %o and %zx ---- */

static const char *digits_of(char *end, unsigned long number, unsigned base) {
    *--end = 0;
    do
        *--end = "0123456789abcdef"[number % base];
    while (number /= base);
    return end;
}

int vsnprintf(char *text, size_t room, const char *format, va_list values) {
    char digits[DIGITS];
    size_t used = 0;
    for (; *format; format++) {
        const char *part = format;
        size_t most = 1;
        if (*format == '%') {
            format++;
            most = (size_t)-1;
            if (*format == '.') {
                most = (size_t)va_arg(values, int);
                format += 2;
            }
            if (*format == 'z')
                part = digits_of(digits + sizeof digits, va_arg(values, size_t), 16), format++;
            else if (*format == 's')
                part = va_arg(values, const char *);
            else
                part = digits_of(digits + sizeof digits, va_arg(values, unsigned),
                                 *format == 'o' ? 8 : 10);
        }
        for (; most > 0 && *part; most--, part++, used++)
            if (used + 1 < room)
                text[used] = *part;
    }
    text[used < room ? used : room - 1] = 0;
    return (int)used;
}

int snprintf(char *text, size_t room, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int count = vsnprintf(text, room, format, values);
    va_end(values);
    return count;
}

int dprintf(int fd, const char *format, ...) {
    char text[LINE_ROOM];
    va_list values;
    va_start(values, format);
    int count = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return (int)write(fd, text, count < LINE_ROOM ? (size_t)count : LINE_ROOM - 1);
}

/* ---- the beginning ---- */

int main(int argc, char **argv);

/* What the kernel put on the stack: the number of words, the words, NULL, the variables. */
__attribute__((used)) void begin(long *stack) {
    char **words = (char **)(stack + 1);
    environ = words + stack[0] + 1;
    exit(main((int)stack[0], words));
}
