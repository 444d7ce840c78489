/* The starter, compiled: the same as starter.py, at a fraction of its cost.
 *
 *     starter KEEPER_PID OOM_SCORE_ADJ FOLDER
 *
 * Orders come over the socket 3, reports go into the pipe 4; ``packed.py`` describes both. Each
 * order becomes a child of the keeper (not of this process), which does all that may hang, first as
 * the job's user and then as nobody else. This process itself waits for nothing but orders. */

#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#define MARK "ROTA_ATTEMPT_UID="
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

enum { ORDERS = 3, REPORTS = 4, PART = 1 << 16, GROUPS_TOLD_MAX = 900 };
enum { KNOWN = 1, OWN_IN = 2, OWN_OUT = 4, OWN_ERR = 8, FOLDERS = 16, TRUNCATE = 32 };
enum { BORN = 1, EXECUTED, FAILED, NO_PROCESS, ACCOUNT };
enum { USER = 1, NOT_ROOT, CPUS, CGROUP, LIMIT, CWD, STDIN, STDOUT, STDERR, EXEC, BECOME };
enum { TERMINAL = BECOME + 1 };
enum { NOT_FOUND, NO_INTERPRETER, CANNOT };

struct head {
    uint32_t size, flags;
    uint64_t id;
    uint32_t umask, uid, gid, limits, groups, cpus, words, entries;
};

struct limit {
    uint32_t number, pad;
    uint64_t soft;
};

struct order {
    const struct head *head;
    const struct limit *limits;
    const uint32_t *groups, *cpus;
    char *uid, *user, *cwd, *in, *out, *err, *spare_out, *spare_err, *cgroup, *terminal,
        *elsewhere;
    char **argv, **env;
};

struct report {
    uint64_t id;
    uint32_t kind, stage;
    int32_t value;
    uint32_t extra;
};

/* One that was born and has not executed yet: the pipe ends when it does, or when it dies. */
struct birth {
    int fd;
    uint64_t id;
};

extern char **environ;
static pid_t keeper;
static char *surface;
static size_t surface_size;
static int poll_fd;

/* ---- reports ---- */

static void tell(const struct report *report, const void *rest, size_t rest_size) {
    char bytes[sizeof *report + GROUPS_TOLD_MAX * sizeof(uint32_t)];
    memcpy(bytes, report, sizeof *report);
    if (rest_size > 0)
        memcpy(bytes + sizeof *report, rest, rest_size);
    while (write(REPORTS, bytes, sizeof *report + rest_size) < 0 && errno == EINTR)
        ;
}

static void tell_plain(uint64_t id, uint32_t kind, uint32_t stage, int value, uint32_t extra) {
    struct report report = {id, kind, stage, value, extra};
    tell(&report, NULL, 0);
}

static _Noreturn void fail(const struct order *order, uint32_t stage, int error, uint32_t extra) {
    tell_plain(order->head->id, FAILED, stage, error, extra);
    _exit(127);
}

/* ---- orders ---- */

static char *next_word(char **at, char *end) {
    char *word = *at, *stop = word < end ? memchr(word, 0, (size_t)(end - word)) : NULL;
    if (stop == NULL) {
        fprintf(stderr, "starter: an order that ends too early\n");
        exit(2);
    }
    *at = stop + 1;
    return word;
}

static char **next_words(char **at, char *end, uint32_t count) {
    char **words = calloc((size_t)count + 1, sizeof *words);
    if (words == NULL)
        exit(1);
    for (uint32_t each = 0; each < count; each++)
        words[each] = next_word(at, end);
    return words;
}

/* The strings stay where they are, in the buffer. */
static struct order unpack(char *bytes) {
    struct order order;
    order.head = (const struct head *)bytes;
    char *end = bytes + sizeof order.head->size + order.head->size;
    order.limits = (const struct limit *)(bytes + sizeof *order.head);
    order.groups = (const uint32_t *)(order.limits + order.head->limits);
    order.cpus = order.groups + order.head->groups;
    char *at = (char *)(order.cpus + order.head->cpus);
    char **fixed[] = {&order.uid,       &order.user,      &order.cwd,    &order.in,
                      &order.out,       &order.err,       &order.spare_out,
                      &order.spare_err, &order.cgroup,    &order.terminal, &order.elsewhere};
    for (size_t each = 0; each < sizeof fixed / sizeof *fixed; each++)
        *fixed[each] = next_word(&at, end);
    order.argv = next_words(&at, end, order.head->words);
    order.env = next_words(&at, end, order.head->entries);
    return order;
}

/* ---- the child, while it is root ---- */

static uint32_t find_user(const struct order *order, gid_t *gid, gid_t **groups, int *count) {
    errno = 0;
    struct passwd *entry = getpwnam(order->user);
    if (entry == NULL)
        fail(order, USER, errno, 0);
    *gid = entry->pw_gid;
    for (*count = 64;; ) {
        int room = *count;
        *groups = realloc(*groups, (size_t)room * sizeof **groups);
        if (*groups == NULL)
            fail(order, USER, ENOMEM, 0);
        if (getgrouplist(order->user, entry->pw_gid, *groups, count) >= 0)
            break;
        if (*count <= room)
            *count = room * 2;
    }
    if (*count <= GROUPS_TOLD_MAX) {
        struct report report = {order->head->id, ACCOUNT, entry->pw_gid, (int)entry->pw_uid,
                                (uint32_t)*count};
        tell(&report, *groups, (size_t)*count * sizeof **groups);
    }
    return entry->pw_uid;
}

static void pin(const struct order *order) {
    uint32_t count = order->head->cpus, highest = 0;
    if (count == 0)
        return;
    for (uint32_t each = 0; each < count; each++)
        highest = order->cpus[each] > highest ? order->cpus[each] : highest;
    cpu_set_t *set = CPU_ALLOC(highest + 1);
    size_t size = CPU_ALLOC_SIZE(highest + 1);
    if (set == NULL)
        fail(order, CPUS, ENOMEM, 0);
    CPU_ZERO_S(size, set);
    for (uint32_t each = 0; each < count; each++)
        CPU_SET_S(order->cpus[each], size, set);
    if (sched_setaffinity(0, size, set) < 0)
        fail(order, CPUS, errno, 0);
    CPU_FREE(set);
}

static void join(const struct order *order) {
    char path[4200];
    snprintf(path, sizeof path, "%s/cgroup.procs", order->cgroup);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "0", 1) < 0)
        fail(order, CGROUP, errno, 0);
    close(fd);
}

/* Nobody gets more than the keeper has, which root could lift. They are set last: a low one could
 * hinder us. */
static void find_limits(const struct order *order, struct rlimit *limits) {
    for (uint32_t each = 0; each < order->head->limits; each++) {
        const struct limit *asked = &order->limits[each];
        int number = (int)asked->number;
        struct rlimit now;
        if (getrlimit(number, &now) < 0)
            fail(order, LIMIT, errno, each);
        limits[each] = (struct rlimit){asked->soft, now.rlim_max};
        if (asked->soft > now.rlim_max)
            fail(order, LIMIT, EPERM, each);
    }
}

/* Files of the agent, in folders where no user can plant a link. */
static int open_own(const struct order *order, const char *path, const char *spare, uint32_t stage,
                    uid_t uid, gid_t gid) {
    int output = stage != STDIN;
    if (*spare)
        renameat2(AT_FDCWD, spare, AT_FDCWD, path, RENAME_NOREPLACE);
    int flags = output ? O_WRONLY | O_APPEND | O_CREAT : O_RDONLY;
    int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || (output && uid != geteuid() && fchown(fd, uid, gid) < 0))
        fail(order, stage, errno, 0);
    return fd;
}

/* ---- the child, with the rights of the user ---- */

static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

static int open_file(const char *path, int flags) {
    /* A pipe without a reader fails at once. What is made is for its owner alone. */
    mode_t before = umask(0);
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    int error = errno;
    umask(before);
    errno = error;
    return fd;
}

static int open_named(const struct order *order, char *path, uint32_t stage) {
    int flags = stage == STDIN ? O_RDONLY : O_WRONLY | O_APPEND | O_CREAT;
    uint32_t asked = stage == STDIN ? 0 : order->head->flags;
    if ((asked & TRUNCATE) && strncmp(path, "/dev/", 5) != 0)
        flags |= O_TRUNC;
    int fd = open_file(path, flags);
    if (fd < 0 && errno == ENOENT && (asked & FOLDERS)) {
        make_folders(path);
        fd = open_file(path, flags);
    }
    if (fd < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0)
        fail(order, stage, errno, 0);
    return fd;
}

static _Noreturn void not_executed(const struct order *order, int error, uint32_t how) {
    const char *name = order->argv[0];
    char reason[128], line[8192];
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    snprintf(reason, sizeof reason, "%s", strerror(error));
    for (char *letter = reason; *letter; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    if (how == NOT_FOUND)
        snprintf(line, sizeof line, "rota: command not found: %s\n", name);
    else if (how == NO_INTERPRETER)
        snprintf(line, sizeof line, "rota: command not found: the interpreter that %s names\n",
                 name);
    else
        snprintf(line, sizeof line, "rota: cannot execute %s: %s\n", name, reason);
    if (write(2, line, strlen(line)) < 0)
        error = error ? error : EIO;
    fail(order, EXEC, error, how);
}

static int is_program(const char *path, int *exists) {
    struct stat found;
    if (stat(path, &found) < 0)
        return 0;
    *exists = 1;
    if (!S_ISREG(found.st_mode)) {
        errno = EACCES;
        return 0;
    }
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* Where a shell would look, and what it would take. */
static char *find_program(const struct order *order) {
    char *name = order->argv[0];
    int exists = 0, saved = ENOENT;
    if (strchr(name, '/') != NULL) {
        if (is_program(name, &exists))
            return name;
        not_executed(order, errno, exists ? CANNOT : NOT_FOUND);
    }
    const char *list = DEFAULT_PATH;
    for (char **entry = order->env; *entry != NULL; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0) {
            list = (*entry)[5] ? *entry + 5 : list;
            break;
        }
    char *path = malloc(strlen(list) + strlen(name) + 3);
    if (path == NULL)
        not_executed(order, ENOMEM, CANNOT);
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ":");
        sprintf(path, "%.*s/%s", length ? (int)length : 1, length ? at : ".", name);
        if (is_program(path, &exists))
            return path;
        saved = errno == ENOENT || errno == ENOTDIR ? saved : errno;
        at += length;
        if (*at == 0)
            break;
    }
    not_executed(order, saved, exists ? CANNOT : NOT_FOUND);
}

/* A keeper that has died knows nothing of this process: it must not live. A change of rights
 * takes the wish back, so it is made again after each. */
static void die_with_keeper(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(127);
}

static int is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/')
        length--;
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Why the folder of a job that may begin elsewhere is none; its output is not there. */
static int enter(const struct order *order) {
    if (chdir(order->cwd) == 0)
        return 0;
    int error = errno;
    if (!*order->elsewhere || is_below(order->out, order->cwd) || is_below(order->err, order->cwd))
        fail(order, CWD, error, 0);
    if (chdir("/tmp") < 0)
        fail(order, CWD, errno, 0);
    return error;
}

static _Noreturn void child(const struct order *order, int inside) {
    const struct head *head = order->head;
    struct rlimit limits[64];
    gid_t gid = head->gid, *groups = NULL;
    uid_t uid = head->uid;
    int count = (int)head->groups;
    die_with_keeper();
    tell_plain(head->id, BORN, 0, (int)getpid(), 0);
    setsid();
    if (head->limits > sizeof limits / sizeof *limits)
        fail(order, LIMIT, EINVAL, 0);
    if (*order->terminal)
        fail(order, TERMINAL, ENOSYS, 0);
    if (!*order->user)
        uid = geteuid();
    else if (!(head->flags & KNOWN))
        uid = find_user(order, &gid, &groups, &count);
    int another = uid != geteuid();
    if (another && geteuid() != 0)
        fail(order, NOT_ROOT, 0, 0);
    pin(order);
    if (*order->cgroup && !inside)
        join(order);
    find_limits(order, limits);
    umask(0);
    int in = -1, out = -1, err = -1;
    if (head->flags & OWN_IN)
        in = open_own(order, order->in, "", STDIN, uid, gid);
    if (head->flags & OWN_OUT)
        out = open_own(order, order->out, order->spare_out, STDOUT, uid, gid);
    int shared = strcmp(order->out, order->err) == 0;
    if ((head->flags & OWN_ERR) && !shared)
        err = open_own(order, order->err, order->spare_err, STDERR, uid, gid);
    if (another) {
        /* The real user stays root until the end: nobody else can stop or signal us so long. */
        prctl(PR_SET_DUMPABLE, 0);
        if (syscall(SYS_setgroups, count, groups ? groups : (const gid_t *)order->groups) < 0 ||
            syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, -1, uid, -1) < 0)
            fail(order, BECOME, errno, 0);
        die_with_keeper();
    }
    int missing = enter(order);
    umask(head->umask);
    if (in < 0 && *order->in)
        in = open_named(order, order->in, STDIN);
    else if (in < 0)
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (out < 0)
        out = open_named(order, order->out, STDOUT);
    if (shared)
        err = out;
    else if (err < 0)
        err = open_named(order, order->err, STDERR);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        fail(order, STDERR, errno, 0);
    if (missing)
        dprintf(2, "%s: %s: going to /tmp instead\n", order->elsewhere, strerror(missing));
    char *program = find_program(order);
    for (uint32_t each = 0; each < head->limits; each++)
        if (setrlimit((int)order->limits[each].number, &limits[each]) < 0)
            fail(order, LIMIT, errno, each);
    if (another && syscall(SYS_setresuid, uid, uid, uid) < 0)
        fail(order, BECOME, errno, 0);
    /* From here on the mark in our environment is how the next keeper would find us. */
    prctl(PR_SET_PDEATHSIG, 0);
    if (getppid() != keeper)
        _exit(127);
    execve(program, order->argv, order->env);
    not_executed(order, errno, errno == ENOENT ? NO_INTERPRETER : CANNOT);
}

/* ---- this process ---- */

/* What /proc shows as our environment: whose process the next child is, from its first moment. */
static void mark(const char *uid) {
    memset(surface, 0, surface_size);
    if (*uid && strlen(MARK) + strlen(uid) < surface_size)
        sprintf(surface, MARK "%s", uid);
}

static pid_t bear(int group) {
    struct clone_args request = {.flags = CLONE_PARENT};
    if (group >= 0) {
        request.flags |= CLONE_INTO_CGROUP;
        request.cgroup = (uint64_t)group;
    }
    pid_t pid = (pid_t)syscall(SYS_clone3, &request, sizeof request);
    if (pid < 0 && errno == ENOSYS && group < 0)
        pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    return pid;
}

static int is_short(int error) { return error == EAGAIN || error == ENOMEM; }

static void start(char *bytes) {
    struct order order = unpack(bytes);
    struct birth *birth = malloc(sizeof *birth);
    int ends[2], inside = 0;
    if (birth == NULL || pipe2(ends, O_CLOEXEC) < 0) {
        tell_plain(order.head->id, NO_PROCESS, 0, errno, 0);
        free(birth);
    } else {
        int group = *order.cgroup ? open(order.cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        mark(order.uid);
        pid_t pid = bear(group);
        inside = group >= 0 && pid >= 0;
        /* Not a group of version 2, or a kernel that cannot do that: the child goes there. */
        if (pid < 0 && group >= 0 && !is_short(errno))
            pid = bear(-1);
        if (pid == 0)
            child(&order, inside);
        int error = errno;
        mark("");
        if (group >= 0)
            close(group);
        close(ends[1]);
        *birth = (struct birth){ends[0], order.head->id};
        struct epoll_event wish = {.events = EPOLLIN, .data.ptr = birth};
        if (pid < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, ends[0], &wish) < 0) {
            if (pid < 0)
                tell_plain(order.head->id, NO_PROCESS, 0, error, 0);
            close(ends[0]);
            free(birth);
        }
    }
    free(order.argv);
    free(order.env);
}

static void take_orders(void) {
    static char *buffer;
    static size_t room, filled;
    if (room - filled < PART) {
        room = filled * 2 + 2 * PART;
        buffer = realloc(buffer, room);
        if (buffer == NULL)
            exit(1);
    }
    ssize_t count = read(ORDERS, buffer + filled, room - filled);
    if (count <= 0) {
        if (count < 0 && errno == EINTR)
            return;
        free(buffer);
        exit(0);
    }
    filled += (size_t)count;
    size_t used = 0, whole;
    uint32_t size;
    while (filled - used >= sizeof(struct head)) {
        memcpy(&size, buffer + used, sizeof size);
        whole = size + sizeof size;
        if (filled - used < whole)
            break;
        start(buffer + used);
        used += whole;
    }
    filled -= used;
    memmove(buffer, buffer + used, filled);
}

static void prepare(char **argv) {
    keeper = (pid_t)atoi(argv[1]);
    fcntl(ORDERS, F_SETFD, FD_CLOEXEC);
    fcntl(REPORTS, F_SETFD, FD_CLOEXEC);
    /* The keeper is spared when memory is short, its jobs are not. */
    int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score >= 0 && write(score, argv[2], strlen(argv[2])) < 0)
        fprintf(stderr, "starter: oom_score_adj: %s\n", strerror(errno));
    close(score);
    /* Quick on a busy machine, if we may; children begin with the ordinary priority. */
    struct sched_param plain = {0};
    if (getpriority(PRIO_PROCESS, 0) == 0 &&
        sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &plain) == 0)
        setpriority(PRIO_PROCESS, 0, -10);
    surface = environ[0];
    for (char **entry = environ; *entry != NULL; entry++)
        surface_size = (size_t)(*entry + strlen(*entry) + 1 - surface);
    static char *nothing[] = {NULL};
    environ = nothing;
    mark("");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        exit(0);
}

int main(int argc, char **argv) {
    if (argc < 3 || environ[0] == NULL) {
        fprintf(stderr, "usage: starter KEEPER_PID OOM_SCORE_ADJ FOLDER, with an environment\n");
        return 2;
    }
    prepare(argv);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ready[64], wish = {.events = EPOLLIN, .data.ptr = NULL};
    if (poll_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, ORDERS, &wish) < 0)
        return 1;
    for (;;) {
        int count = epoll_wait(poll_fd, ready, 64, -1);
        for (int each = 0; each < count; each++) {
            struct birth *birth = ready[each].data.ptr;
            if (birth == NULL) {
                take_orders();
                continue;
            }
            /* Children that were born meanwhile have this end, too: closing does not end it. */
            epoll_ctl(poll_fd, EPOLL_CTL_DEL, birth->fd, NULL);
            close(birth->fd);
            tell_plain(birth->id, EXECUTED, 0, 0, 0);
            free(birth);
        }
    }
}
