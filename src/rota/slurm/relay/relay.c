/* The Slurm commands on PATH, compiled: the same as relay.py, started in a small part of its time.
 * Sends what was typed to Rota's local socket and prints what comes back. Where Rota is reached
 * over a network, relay.py does it: this program then becomes that one. It is linked with bare.c
 * where that is possible, so it uses no more of a C library than is there. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifndef DEFAULT_SOCKET
#define DEFAULT_SOCKET ""
#endif
#ifndef PYTHON
#define PYTHON "/usr/bin/python3"
#endif
#ifndef SCRIPT
#define SCRIPT ""
#endif

enum { PART = 65536, PATIENCE_MS = 1500, PAUSE_MS = 50 };

extern char **environ;
static int line = -1;
static const char *program;

/* ---- the buffer that a request is built in ---- */

static char *out;
static size_t out_size, out_room;

static void put(const void *bytes, size_t count) {
    if (out_size + count >= out_room) {
        out_room = (out_size + count) * 2 + PART;
        out = realloc(out, out_room);
        if (out == NULL)
            exit(1);
    }
    memcpy(out + out_size, bytes, count);
    out_size += count;
}

static void put_text(const char *text) { put(text, strlen(text)); }

static void put_word(const char *text) { put(text, strlen(text) + 1); }

static int write_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

static void complain(const char *text) {
    dprintf(2, "%s: error: %s\n", program, text);
    exit(1);
}

/* One frame as one chunk of the request's body, behind what is in `before`. */
static void send_frame(char kind, const char *body, size_t count, const char *before) {
    char head[32];
    unsigned char frame[5] = {(unsigned char)kind, (unsigned char)(count >> 24),
                              (unsigned char)(count >> 16), (unsigned char)(count >> 8),
                              (unsigned char)count};
    char *saved = out;
    size_t saved_size = out_size, saved_room = out_room;
    out = NULL;
    out_size = out_room = 0;
    put_text(before);
    snprintf(head, sizeof head, "%zx\r\n", count + sizeof frame);
    put_text(head);
    put(frame, sizeof frame);
    put(body, count);
    put_text("\r\n");
    int failed = write_all(line, out, out_size);
    free(out);
    out = saved;
    out_size = saved_size;
    out_room = saved_room;
    if (failed)
        complain("the line to the controller broke");
}

/* ---- reading the answer ---- */

static char in[PART];
static size_t in_begin, in_end;
static size_t chunk_left;
static int chunk_first = 1;

static int next_byte(void) {
    if (in_begin == in_end) {
        ssize_t count;
        do
            count = read(line, in, sizeof in);
        while (count < 0 && errno == EINTR);
        if (count <= 0)
            complain("the line to the controller broke");
        in_begin = 0;
        in_end = (size_t)count;
    }
    return (unsigned char)in[in_begin++];
}

/* A line of the head, without its end. */
static void read_line(char *text, size_t room) {
    size_t used = 0;
    int byte;
    while ((byte = next_byte()) != '\n')
        if (byte != '\r' && used + 1 < room)
            text[used++] = (char)byte;
    text[used] = 0;
}

static int read_head(size_t *length) {
    char text[1024];
    read_line(text, sizeof text);
    const char *space = strchr(text, ' ');
    if (strncmp(text, "HTTP/", 5) != 0 || space == NULL)
        complain("this is not Rota");
    int status = (int)strtoul(space, NULL, 10);
    for (read_line(text, sizeof text); text[0]; read_line(text, sizeof text))
        if (strncasecmp(text, "content-length:", 15) == 0)
            *length = strtoul(text + 15, NULL, 10);
    return status;
}

static void read_body(char *bytes, size_t count) {
    char text[64];
    while (count > 0) {
        if (chunk_left == 0) {
            if (!chunk_first)
                read_line(text, sizeof text);
            chunk_first = 0;
            read_line(text, sizeof text);
            chunk_left = strtoul(text, NULL, 16);
            if (chunk_left == 0)
                complain("the answer ended early");
        }
        if (in_begin == in_end) {
            *bytes++ = (char)next_byte();
            count--, chunk_left--;
            continue;
        }
        size_t part = in_end - in_begin;
        part = part < count ? part : count;
        part = part < chunk_left ? part : chunk_left;
        memcpy(bytes, in + in_begin, part);
        bytes += part, in_begin += part;
        count -= part, chunk_left -= part;
    }
}

/* ---- finding the server ---- */

static int dial(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path[0] != '/' || strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* Whether the Rota that we belong to is merely down: nobody else must answer in its place. */
static int is_away(const char *path) {
    char folder[512];
    int why = errno;
    const char *end = strrchr(path, '/');
    if (end == NULL || why == ECONNREFUSED)
        return end != NULL;
    snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    return why == ENOENT && access(folder, F_OK) == 0;
}

static int try_places(void) {
    char path[512], cwd[256];
    const char *url = getenv("ROTA_URL"), *state = getenv("ROTA_STATE_DIR");
    const char *home = getenv("XDG_STATE_HOME");
    if (url && url[0])
        return dial(strncmp(url, "unix://", 7) == 0 ? url + 7 : url);
    if (state && state[0]) {
        if (state[0] == '/' || getcwd(cwd, sizeof cwd) == NULL)
            cwd[0] = 0;
        snprintf(path, sizeof path, "%s%s%s/rota.sock", cwd, cwd[0] ? "/" : "", state);
        return dial(path);
    }
    int fd = dial(DEFAULT_SOCKET);
    if (fd >= 0 || is_away(DEFAULT_SOCKET))
        return fd;
    if (home && home[0] == '/') {
        snprintf(path, sizeof path, "%s/rota/rota.sock", home);
    } else {
        home = getenv("HOME");
        snprintf(path, sizeof path, "%s/.local/state/rota/rota.sock", home && *home ? home : "");
    }
    fd = dial(path);
    return fd >= 0 ? fd : dial("/run/rota/rota.sock");
}

static void connect_or_complain(void) {
    static const char *leads[][2] = {
        {"sbatch", "sbatch: error: Batch job submission failed: "},
        {"scancel", "scancel: error: "},
        {"sinfo", "slurm_load_partitions: "},
        {"sacct", "sacct: error: "},
        {"sacctmgr", "sacctmgr: error: "},
        {"sdiag", "slurm_get_statistics: "},
        {"sprio", "sprio: error: "},
        {"sshare", "sshare: error: "},
        {"sstat", "sstat: error: "},
    };
    const char *lead = "slurm_load_jobs error: ";
    struct timespec pause = {0, PAUSE_MS * 1000000L};
    for (int waited = 0; waited <= PATIENCE_MS; waited += PAUSE_MS) {
        line = try_places();
        if (line >= 0)
            return;
        nanosleep(&pause, NULL);
    }
    for (size_t n = 0; n < sizeof leads / sizeof leads[0]; n++)
        if (strcmp(program, leads[n][0]) == 0)
            lead = leads[n][1];
    dprintf(2, "%sUnable to contact slurm controller (connect failure)\n", lead);
    exit(1);
}

/* ---- the conversation ---- */

static void send_request(int argc, char **argv) {
    char text[64], cwd[4096];
    struct winsize window;
    struct utsname machine;
    mode_t mask = umask(022);
    umask(mask);
    put_word("1");
    put_word(program);
    put_word(getcwd(cwd, sizeof cwd) ? cwd : "/");
    snprintf(text, sizeof text, "%o", (unsigned)mask);
    put_word(text);
    /* A terminal that nobody sized is one, too. */
    snprintf(text, sizeof text, "%d",
             ioctl(1, TIOCGWINSZ, &window) ? 0 : window.ws_col ? window.ws_col : 80);
    put_word(text);
    put_word(uname(&machine) == 0 ? machine.nodename : "");
    snprintf(text, sizeof text, "%d", argc - 1);
    put_word(text);
    for (int n = 1; n < argc; n++)
        put_word(argv[n]);
    for (char **pair = environ; *pair; pair++)
        put_word(*pair);
    char head[1024];
    const char *token = getenv("ROTA_TOKEN");
    int shown = token ? (int)strcspn(token, ".") : 0;
    snprintf(head, sizeof head,
             "POST /api/v1/slurm/run HTTP/1.1\r\nHost: rota\r\n"
             "Transfer-Encoding: chunked\r\n%s%.*s%s\r\n",
             shown ? "Authorization: Bearer " : "", shown, shown ? token : "",
             shown ? "\r\n" : "");
    send_frame('R', out, out_size, head);
}

static void send_file(const char *path) {
    unsigned char number[4] = {0, 0, 0, 0};
    char part[PART];
    ssize_t count = -1;
    int fd = open(path, O_RDONLY);
    out_size = 0;
    put(number, sizeof number);
    while (fd >= 0 && (count = read(fd, part, sizeof part)) > 0)
        put(part, (size_t)count);
    if (count < 0)
        out[3] = (char)errno, out_size = 4;
    if (fd >= 0)
        close(fd);
    send_frame('F', out, out_size, "");
}

/* A path, a NUL and a content: a file that the server makes here. */
static void write_file(const char *path, size_t count) {
    char number[4] = {0, 0, 0, 0};
    const char *body = path + strlen(path) + 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    if (fd < 0 || write_all(fd, body, count - (size_t)(body - path)))
        number[3] = (char)errno;
    if (fd >= 0)
        close(fd);
    send_frame('F', number, sizeof number, "");
}

static void send_input(void) {
    char part[PART];
    ssize_t count;
    do {
        count = read(0, part, sizeof part);
        if (count < 0 && errno == EINTR)
            continue;
        send_frame('I', part, count > 0 ? (size_t)count : 0, "");
    } while (count > 0);
}

/* One line of what is typed: the answer to a question. */
static void send_line(void) {
    char text[4096];
    size_t used = 0;
    while (used < sizeof text && read(0, text + used, 1) == 1)
        if (text[used++] == '\n')
            break;
    send_frame('I', text, used, "");
}

static int converse(void) {
    for (;;) {
        unsigned char head[5];
        read_body((char *)head, sizeof head);
        size_t count = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        char *body = malloc(count + 1);
        if (body == NULL)
            complain("out of memory");
        read_body(body, count);
        body[count] = 0;
        if (head[0] == 'x')
            return (unsigned char)body[0];
        if ((head[0] == 'o' && write_all(1, body, count)) ||
            (head[0] == 'e' && write_all(2, body, count)))
            return 141;
        if (head[0] == 'g')
            send_file(body);
        if (head[0] == 'p')
            write_file(body, count);
        if (head[0] == 'I')
            send_input();
        if (head[0] == 'l')
            send_line();
        free(body);
    }
}

/* A problem document instead of frames: its field "detail" says it in a line. */
static int refusal(size_t length) {
    char *body = malloc(length + 1);
    if (body == NULL)
        return 1;
    chunk_first = 0;
    chunk_left = length;
    read_body(body, length);
    body[length] = 0;
    char *text = strstr(body, "\"detail\":\"");
    text = text ? text + strlen("\"detail\":\"") : "the server refused";
    dprintf(2, "%s: error: %.*s\n", program, (int)strcspn(text, "\""), text);
    return 1;
}

int main(int argc, char **argv) {
    const char *url = getenv("ROTA_URL"), *slash = strrchr(argv[0], '/');
    size_t length = 0;
    char own[4096];
    ssize_t own_size = readlink("/proc/self/exe", own, sizeof own - 1);
    if (own_size > 0) {
        /* Where the commands are: jobs shall find these, however this one was called. */
        own[own_size] = 0;
        *strrchr(own, '/') = 0;
        setenv("ROTA_SLURM_FOLDER", own, 1);
    }
    program = slash ? slash + 1 : argv[0];
    if (url && strncmp(url, "http", 4) == 0 && SCRIPT[0]) {
        char **words = calloc((size_t)argc + 4, sizeof *words);
        words[0] = PYTHON;
        words[1] = "-ISE";
        words[2] = SCRIPT;
        words[3] = (char *)program;
        memcpy(words + 4, argv + 1, sizeof *words * (size_t)argc);
        execve(PYTHON, words, environ);
        complain("no Python to reach the controller with");
    }
    connect_or_complain();
    send_request(argc, argv);
    if (read_head(&length) != 200)
        return refusal(length);
    return converse();
}
