/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs rely on: checks NAME [ARGUMENT]. Ends with 1 and the line at the first thing that is not so. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <longhaul/lsl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(so)                                                                                                      \
    do {                                                                                                               \
        int error_ = errno;                                                                                            \
        if (!(so)) {                                                                                                   \
            fprintf(stderr, "line %d: %s (errno %d, now %d, %s)\n", __LINE__, #so, error_, errno, lsl_error());         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define FAILS(call, number) CHECK((call) == -1 && errno == (number) && lsl_error()[0] != 0)

static char local[64];

static void number(int fd, int option, uint64_t value)
{
    CHECK(lsl_setsockopt(fd, option, &value, sizeof value) == 0);
}

static uint64_t error_of(int fd)
{
    uint64_t value = 0;
    size_t size = sizeof value;
    CHECK(lsl_getsockopt(fd, LSL_ERROR, &value, &size) == 0 && size == sizeof value);
    return value;
}

static struct lsl_info info_of(int fd)
{
    struct lsl_info info;
    CHECK(lsl_getinfo(fd, &info, sizeof info) == 0);
    return info;
}

/* Binds; the address is in local. */
static int bound(int flags)
{
    size_t size = sizeof local;
    int fd = lsl_socket(flags);
    CHECK(fd >= 0);
    CHECK(lsl_bind(fd, "127.0.0.1:0") == 0);
    CHECK(lsl_getsockopt(fd, LSL_LOCAL, local, &size) == 0 && strlen(local) + 1 == size);
    return fd;
}

static int listening(int flags)
{
    int fd = bound(flags);
    CHECK(lsl_listen(fd, 8) == 0);
    return fd;
}

static int connected(const char *address)
{
    int fd = lsl_socket(0);
    CHECK(fd >= 0);
    CHECK(lsl_connect(fd, address) == 0);
    return fd;
}

static void pair(int ends[2])
{
    int listener = listening(0);
    ends[0] = connected(local);
    ends[1] = lsl_accept(listener, 0);
    CHECK(ends[1] >= 0);
    close(listener);
}

static short polled(int fd, short events, int wait)
{
    struct pollfd one;
    one.fd = fd;
    one.events = events;
    CHECK(poll(&one, 1, wait) >= 0);
    return one.revents;
}

static int open_descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    CHECK(all != NULL);
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

static void close_early(void)
{
    int before, i;
    close(lsl_socket(0));
    close(bound(0));
    close(listening(0));
    while (usleep(1000), open_descriptors() > 3 + 4 + 16)
        ;
    before = open_descriptors();
    for (i = 0; i < 200; i++) {
        int fd = lsl_socket(i % 2 ? LSL_CLOEXEC : 0);
        CHECK(fd >= 0);
        CHECK(!(fcntl(fd, F_GETFD) & FD_CLOEXEC) == !(i % 2));
        close(fd);
        close(bound(0));
        close(listening(0));
    }
    while (open_descriptors() > before)
        usleep(1000);
}

static void wrong_calls(void)
{
    char scrap[4];
    uint64_t value = 1;
    size_t size = sizeof scrap;
    int fd = lsl_socket(0), plain = socket(AF_INET, SOCK_STREAM, 0), file = open("/dev/null", O_RDWR);
    struct lsl_info info;

    CHECK(fd >= 0 && plain >= 0 && file >= 0);
    FAILS(lsl_socket(64), EINVAL);
    FAILS(lsl_setsockopt(fd, 999, &value, sizeof value), ENOPROTOOPT);
    FAILS(lsl_setsockopt(fd, LSL_RATE, &value, 4), EINVAL);
    FAILS(lsl_setsockopt(fd, LSL_SEND_WINDOW, &value, sizeof value), EINVAL);
    FAILS(lsl_setsockopt(fd, LSL_RATE, NULL, sizeof value), EFAULT);
    FAILS(lsl_setsockopt(fd, LSL_NOTE, &value, (size_t)-1), EINVAL);
    value = 3;
    FAILS(lsl_setsockopt(fd, LSL_DIGEST, &value, sizeof value), EINVAL);
    value = 1;
    FAILS(lsl_setsockopt(fd, LSL_VIA, "a:b:c", 5), EINVAL);
    FAILS(lsl_setsockopt(-1, LSL_RATE, &value, sizeof value), EBADF);
    FAILS(lsl_setsockopt(12345, LSL_RATE, &value, sizeof value), EBADF);
    FAILS(lsl_setsockopt(plain, LSL_RATE, &value, sizeof value), ENOTSOCK);
    FAILS(lsl_setsockopt(file, LSL_RATE, &value, sizeof value), ENOTSOCK);
    FAILS(lsl_getsockopt(fd, LSL_RATE, scrap, &size), ERANGE);
    CHECK(size == sizeof value);
    FAILS(lsl_getsockopt(fd, LSL_RATE, NULL, &size), EFAULT);
    FAILS(lsl_getsockopt(fd, LSL_SESSION, scrap, &size), ENOTCONN);
    FAILS(lsl_connect(fd, NULL), EFAULT);
    FAILS(lsl_connect(fd, "nowhere"), EINVAL);
    FAILS(lsl_connect(fd, "tcp:127.0.0.1:9"), EINVAL);
    FAILS(lsl_bind(fd, "127.0.0.1:no"), EINVAL);
    FAILS(lsl_listen(fd, 1), EDESTADDRREQ);
    FAILS(lsl_accept(fd, 0), EINVAL);
    FAILS(lsl_wait(fd, LSL_SENT, 0), ENOTCONN);
    FAILS(lsl_wait(fd, 99, 0), EINVAL);
    FAILS(lsl_getinfo(fd, &info, 2), EINVAL);
    FAILS(lsl_getinfo(fd, NULL, sizeof info), EFAULT);
    CHECK(info_of(fd).state == LSL_STATE_NEW);
    /* After all that it still works, once. */
    listening(0);
    FAILS(lsl_bind(fd, local), EADDRINUSE);
    CHECK(lsl_connect(fd, local) == 0);
    FAILS(lsl_connect(fd, local), EISCONN);
    FAILS(lsl_setsockopt(fd, LSL_RATE, &value, sizeof value), EISCONN);
    /* The number may be used again by something else. */
    CHECK(dup2(plain, fd) == fd);
    FAILS(lsl_getinfo(fd, &info, sizeof info), ENOTSOCK);
}

static void refused(void)
{
    char text[256], scrap[8];
    size_t size = sizeof text;
    int waits = lsl_socket(0), later = lsl_socket(0);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int nobody = socket(AF_INET, SOCK_STREAM, 0);

    /* Bound and not listening: nobody else takes the port, and connections are refused. */
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(nobody, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(nobody, (struct sockaddr *)&address, &length) == 0);
    sprintf(local, "127.0.0.1:%d", ntohs(address.sin_port));
    number(waits, LSL_WAIT, 1);
    number(waits, LSL_PATIENCE, 0);
    FAILS(lsl_connect(waits, local), ECONNREFUSED);
    number(later, LSL_PATIENCE, 0);
    CHECK(lsl_connect(later, local) == 0);
    CHECK(read(later, scrap, sizeof scrap) == -1 && errno == ECONNRESET);
    CHECK(error_of(later) == ECONNREFUSED);
    CHECK(lsl_getsockopt(later, LSL_ERROR_TEXT, text, &size) == 0 && strstr(text, "refused") != NULL);
    CHECK(info_of(later).state == LSL_STATE_FAILED && info_of(later).error == ECONNREFUSED);
    FAILS(lsl_wait(later, LSL_OVER, -1), ECONNREFUSED);
    CHECK(send(later, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
}

/* Whether a session with a secret is encrypted is what its initiator says. */
static void encrypted(uint64_t wanted)
{
    uint64_t got = 2;
    size_t size = sizeof got;
    int listener = bound(0), fd = lsl_socket(0), accepted;
    CHECK(lsl_setsockopt(listener, LSL_SECRET, "right", 5) == 0 && lsl_listen(listener, 1) == 0);
    CHECK(lsl_setsockopt(fd, LSL_SECRET, "right", 5) == 0);
    number(fd, LSL_ENCRYPT, wanted);
    CHECK(lsl_connect(fd, local) == 0);
    CHECK((accepted = lsl_accept(listener, 0)) >= 0);
    CHECK(lsl_getsockopt(fd, LSL_ENCRYPTED, &got, &size) == 0 && size == sizeof got && got == wanted);
    got = 2;
    CHECK(lsl_getsockopt(accepted, LSL_ENCRYPTED, &got, &size) == 0 && got == wanted);
    close(accepted);
    close(fd);
    close(listener);
}

static void secrets(void)
{
    int listener = bound(0), fd = lsl_socket(0);
    CHECK(lsl_setsockopt(listener, LSL_SECRET, "right", 5) == 0 && lsl_listen(listener, 1) == 0);
    CHECK(lsl_setsockopt(fd, LSL_SECRET, "wrong", 5) == 0);
    number(fd, LSL_WAIT, 1);
    FAILS(lsl_connect(fd, local), EACCES);
    encrypted(1);
    encrypted(0);
}

static void polling(void)
{
    char got[16];
    size_t size = sizeof got;
    int listener = bound(LSL_NONBLOCK), fd = lsl_socket(0), accepted, copy;

    CHECK(lsl_setsockopt(listener, LSL_NOTE, "welcome", 7) == 0 && lsl_listen(listener, 8) == 0);
    CHECK(lsl_setsockopt(fd, LSL_NOTE, "hello", 5) == 0);
    CHECK(polled(listener, POLLIN, 0) == 0 && info_of(listener).state == LSL_STATE_LISTENING);
    FAILS(lsl_accept(listener, 0), EAGAIN);
    CHECK(lsl_connect(fd, local) == 0);
    CHECK(polled(listener, POLLIN, -1) == POLLIN);
    accepted = lsl_accept(listener, LSL_CLOEXEC);
    CHECK(accepted >= 0 && polled(listener, POLLIN, 0) == 0);
    CHECK(lsl_getsockopt(fd, LSL_PEER_NOTE, got, &size) == 0 && size == 7 && memcmp(got, "welcome", 7) == 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(accepted, LSL_PEER_NOTE, got, &size) == 0 && size == 5 && memcmp(got, "hello", 5) == 0);
    CHECK(polled(fd, POLLIN | POLLOUT, 0) == POLLOUT && polled(accepted, POLLIN | POLLOUT, 0) == POLLOUT);
    CHECK(write(fd, "ping", 4) == 4);
    CHECK(polled(accepted, POLLIN, -1) == POLLIN && read(accepted, got, sizeof got) == 4);
    CHECK(polled(accepted, POLLIN, 0) == 0);
    /* One direction ends, and the other goes on; a copy of the descriptor does as well. */
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(polled(accepted, POLLIN, -1) == POLLIN && read(accepted, got, sizeof got) == 0);
    CHECK(lsl_wait(fd, LSL_SENT, -1) == 0);
    copy = dup(accepted);
    close(accepted);
    CHECK(write(copy, "pong!", 5) == 5 && shutdown(copy, SHUT_WR) == 0);
    FAILS(lsl_wait(copy, LSL_SENT, 1), ETIMEDOUT);
    CHECK(read(fd, got, sizeof got) == 5 && read(fd, got, sizeof got) == 0);
    CHECK(lsl_wait(copy, LSL_SENT, -1) == 0 && lsl_wait(copy, LSL_OVER, -1) == 0 && lsl_wait(fd, LSL_OVER, -1) == 0);
    CHECK(info_of(fd).state == LSL_STATE_OVER && info_of(fd).received_bytes == 5 && error_of(fd) == 0);
    CHECK(info_of(copy).acknowledged_bytes == 5 && info_of(copy).connections == 1);
    CHECK(read(copy, got, sizeof got) == 0);
}

/* The connecting end decides on a digest, and both ends have it when all has arrived. */
static void digests(void)
{
    /* As md5sum prints it for "hello". */
    static const unsigned char md5[16] = {0x5d, 0x41, 0x40, 0x2a, 0xbc, 0x4b, 0x2a, 0x76,
                                          0xb9, 0x71, 0x9d, 0x91, 0x10, 0x17, 0xc5, 0x92};
    char got[32], scrap[8];
    size_t size = sizeof got;
    int listener = bound(0), fd = lsl_socket(0), accepted;

    CHECK(lsl_listen(listener, 1) == 0);
    number(fd, LSL_DIGEST, LSL_DIGEST_MD5);
    CHECK(lsl_connect(fd, local) == 0);
    accepted = lsl_accept(listener, 0);
    CHECK(accepted >= 0 && write(fd, "hello", 5) == 5);
    CHECK(lsl_getsockopt(fd, LSL_SENT_DIGEST, got, &size) == 0 && size == 0);
    CHECK(shutdown(fd, SHUT_WR) == 0 && shutdown(accepted, SHUT_WR) == 0);
    CHECK(read(accepted, scrap, sizeof scrap) == 5 && read(accepted, scrap, sizeof scrap) == 0);
    CHECK(lsl_wait(fd, LSL_SENT, -1) == 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(fd, LSL_SENT_DIGEST, got, &size) == 0 && size == 16 && memcmp(got, md5, 16) == 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(accepted, LSL_RECEIVED_DIGEST, got, &size) == 0 && size == 16 && memcmp(got, md5, 16) == 0);
    CHECK(read(fd, scrap, sizeof scrap) == 0 && lsl_wait(accepted, LSL_OVER, -1) == 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(accepted, LSL_RECEIVED_DIGEST, got, &size) == 0 && memcmp(got, md5, 16) == 0);
}

/* Nobody reads: what is taken is bounded, and all of it comes. */
static void pressure(void)
{
    static char buffer[100000];
    int listener = bound(0), fd = lsl_socket(LSL_NONBLOCK), accepted;
    size_t sent = 0, received = 0;
    ssize_t length;

    number(listener, LSL_RECEIVE_WINDOW, 65536);
    CHECK(lsl_listen(listener, 1) == 0);
    number(fd, LSL_SEND_WINDOW, 65536);
    CHECK(lsl_connect(fd, local) == 0);
    accepted = lsl_accept(listener, LSL_NONBLOCK);
    CHECK(accepted >= 0);
    while (polled(fd, POLLOUT, 500)) {
        length = write(fd, buffer, sizeof buffer);
        if (length > 0)
            sent += (size_t)length;
        CHECK(length > 0 || errno == EAGAIN);
        CHECK(sent < (32 << 20));
    }
    while (received < sent) {
        CHECK(polled(accepted, POLLIN, -1) == POLLIN);
        length = read(accepted, buffer, sizeof buffer);
        CHECK(length > 0);
        received += (size_t)length;
    }
    CHECK(polled(fd, POLLOUT, -1) == POLLOUT && received == sent);
}

/* What was not read is no success. */
static void unread(void)
{
    char scrap[16];
    int ends[2];
    pair(ends);
    CHECK(write(ends[0], "for nobody", 10) == 10 && shutdown(ends[0], SHUT_WR) == 0);
    CHECK(polled(ends[1], POLLIN, -1) == POLLIN);
    FAILS(lsl_wait(ends[0], LSL_SENT, 200), ETIMEDOUT);
    CHECK(write(ends[1], "but this", 8) == 8);
    close(ends[1]);
    CHECK(read(ends[0], scrap, sizeof scrap) == 8);
    FAILS(lsl_wait(ends[0], LSL_OVER, -1), ECONNRESET);
}

/* Closed at once, all arrives, as by TCP. */
static void closed(void)
{
    char scrap[16];
    int ends[2];
    pair(ends);
    CHECK(write(ends[0], "all", 3) == 3);
    close(ends[0]);
    CHECK(read(ends[1], scrap, sizeof scrap) == 3 && read(ends[1], scrap, sizeof scrap) == 0);
    close(ends[1]);
}

/* The other end hears that all has arrived when this program says so. */
static void by_hand(void)
{
    char scrap[8];
    int listener = bound(0), fd, accepted;

    number(listener, LSL_CONFIRM, 1);
    CHECK(lsl_listen(listener, 1) == 0);
    fd = connected(local);
    CHECK((accepted = lsl_accept(listener, 0)) >= 0);
    CHECK(write(fd, "all", 3) == 3 && shutdown(fd, SHUT_WR) == 0);
    CHECK(read(accepted, scrap, sizeof scrap) == 3 && read(accepted, scrap, sizeof scrap) == 0);
    FAILS(lsl_wait(fd, LSL_SENT, 200), ETIMEDOUT);
    FAILS(lsl_confirm(listener), ENOTCONN);
    CHECK(lsl_confirm(accepted) == 0 && lsl_wait(fd, LSL_SENT, -1) == 0);
    CHECK(shutdown(accepted, SHUT_WR) == 0 && read(fd, scrap, sizeof scrap) == 0);
    CHECK(lsl_wait(fd, LSL_OVER, -1) == 0 && lsl_wait(accepted, LSL_OVER, -1) == 0);
}

/* One session has several connections at once. */
static void several(void)
{
    enum { LENGTH = 4 << 20 };
    static unsigned char sent[LENGTH], got[LENGTH];
    int listener = listening(0), fd = lsl_socket(0), accepted;
    size_t at;
    ssize_t some;

    for (at = 0; at < LENGTH; at++)
        sent[at] = (unsigned char)(at * 31 + at / 251);
    number(fd, LSL_CONNECTIONS, 3);
    CHECK(lsl_connect(fd, local) == 0);
    CHECK((accepted = lsl_accept(listener, 0)) >= 0);
    while (info_of(fd).connections < 3)
        usleep(1000);
    for (at = 0; at < LENGTH; at += (size_t)some)
        CHECK((some = write(fd, sent + at, LENGTH - at)) > 0);
    CHECK(shutdown(fd, SHUT_WR) == 0 && shutdown(accepted, SHUT_WR) == 0);
    for (at = 0; at < LENGTH; at += (size_t)some)
        CHECK((some = read(accepted, got + at, LENGTH - at)) > 0);
    CHECK(read(accepted, got, 1) == 0 && memcmp(sent, got, LENGTH) == 0);
    CHECK(lsl_wait(fd, LSL_OVER, -1) == 0 && info_of(fd).acknowledged_bytes == LENGTH);
}

/* A file is sent in place of what is written; a state is taken only as it was given. */
static void files(void)
{
    char got[16], state[LSL_STATE_BYTES];
    size_t size = sizeof state;
    FILE *file = tmpfile();
    int listener = listening(0), fd = lsl_socket(0), wrong = lsl_socket(0), accepted;

    CHECK(file != NULL && fputs("content", file) >= 0 && fflush(file) == 0);
    FAILS(lsl_setsockopt(wrong, LSL_STATE, "lhs", 3), EINVAL);
    number(wrong, LSL_RECEIVED_FILE, (uint64_t)fileno(file));
    FAILS(lsl_connect(wrong, local), EINVAL);
    number(fd, LSL_SEND_FILE, (uint64_t)fileno(file));
    fclose(file);
    CHECK(lsl_connect(fd, local) == 0);
    CHECK(send(fd, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK((accepted = lsl_accept(listener, 0)) >= 0);
    CHECK(read(accepted, got, sizeof got) == 7 && memcmp(got, "content", 7) == 0);
    CHECK(lsl_getsockopt(fd, LSL_STATE, state, &size) == 0 && size > 48 && size <= sizeof state);
    CHECK(lsl_setsockopt(wrong, LSL_STATE, state, size) == 0);
    FAILS(lsl_setsockopt(wrong, LSL_STATE, state, size - 1), EINVAL);
    FAILS(lsl_setsockopt(wrong, LSL_SESSION, got, 15), EINVAL);
    CHECK(lsl_setsockopt(wrong, LSL_SESSION, "another session!", 16) == 0);
    FAILS(lsl_connect(wrong, local), EINVAL);
    CHECK(read(accepted, got, sizeof got) == 0 && shutdown(accepted, SHUT_WR) == 0);
    CHECK(lsl_wait(fd, LSL_OVER, -1) == 0);
    size = sizeof state;
    FAILS(lsl_getsockopt(fd, LSL_STATE, state, &size), EINVAL);
}

/* Two ends meet at a depot: meeting ADDRESS. */
static void meeting(const char *depot)
{
    static const char name[] = "sixteen bytes so";
    char got[16], other[16];
    size_t size = sizeof got;
    int waits = lsl_socket(0), comes = lsl_socket(0), accepted;

    /* Without a depot, and without a name. */
    CHECK(lsl_setsockopt(comes, LSL_SESSION, name, 16) == 0);
    FAILS(lsl_connect(comes, "meet:"), EINVAL);
    CHECK(lsl_setsockopt(waits, LSL_VIA, depot, strlen(depot)) == 0 && lsl_bind(waits, "meet:") == 0);
    FAILS(lsl_listen(waits, 1), EINVAL);
    FAILS(lsl_getsockopt(waits, LSL_LOCAL, got, &size), EINVAL);
    FAILS(lsl_bind(waits, "meet:"), EINVAL);
    FAILS(lsl_connect(waits, "meet:"), EOPNOTSUPP);

    CHECK(lsl_setsockopt(waits, LSL_SESSION, name, 16) == 0 && lsl_setsockopt(waits, LSL_SECRET, "right", 5) == 0);
    CHECK(lsl_listen(waits, 1) == 0);
    CHECK(lsl_setsockopt(comes, LSL_VIA, depot, strlen(depot)) == 0);
    CHECK(lsl_setsockopt(comes, LSL_SECRET, "right", 5) == 0 && lsl_setsockopt(comes, LSL_NOTE, "hello", 5) == 0);
    CHECK(lsl_connect(comes, "meet:") == 0);
    CHECK((accepted = lsl_accept(waits, 0)) >= 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(accepted, LSL_PEER_NOTE, got, &size) == 0 && size == 5 && memcmp(got, "hello", 5) == 0);
    size = sizeof got;
    CHECK(lsl_getsockopt(accepted, LSL_SESSION, got, &size) == 0 && memcmp(got, name, 16) == 0);
    size = sizeof other;
    CHECK(lsl_getsockopt(comes, LSL_SESSION, other, &size) == 0 && memcmp(got, other, 16) == 0);
    CHECK(write(comes, "ping", 4) == 4 && read(accepted, got, sizeof got) == 4);
    CHECK(write(accepted, "pong!", 5) == 5 && read(comes, got, sizeof got) == 5);
    CHECK(shutdown(comes, SHUT_WR) == 0 && shutdown(accepted, SHUT_WR) == 0);
    CHECK(read(comes, got, sizeof got) == 0 && read(accepted, got, sizeof got) == 0);
    CHECK(lsl_wait(comes, LSL_OVER, -1) == 0 && lsl_wait(accepted, LSL_OVER, -1) == 0);
    /* It has taken place. */
    FAILS(lsl_accept(waits, 0), ECONNABORTED);
    close(waits);
}

/* An echo server goes away: killed ADDRESS [half]. */
static void killed(const char *address, int is_half)
{
    char scrap[16];
    int fd = lsl_socket(0);
    number(fd, LSL_PATIENCE, 100);
    CHECK(lsl_connect(fd, address) == 0);
    CHECK(write(fd, "ping", 4) == 4 && read(fd, scrap, sizeof scrap) == 4);
    if (is_half) {
        /* The server sends back and ends, and is gone before it has: it is stopped. */
        printf("stop\n");
        fflush(stdout);
        CHECK(getchar() == '\n');
        CHECK(shutdown(fd, SHUT_WR) == 0);
    }
    printf("kill\n");
    fflush(stdout);
    CHECK(read(fd, scrap, sizeof scrap) == -1 && errno == ECONNRESET);
    CHECK(error_of(fd) == ECONNREFUSED || error_of(fd) == ETIMEDOUT || error_of(fd) == ECONNRESET);
    CHECK(read(fd, scrap, sizeof scrap) == 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*check)(void);
    } all[] = {{"close_early", close_early}, {"wrong_calls", wrong_calls}, {"refused", refused},
               {"secrets", secrets},         {"polling", polling},         {"pressure", pressure},
               {"unread", unread},           {"closed", closed},         {"digests", digests},
               {"by_hand", by_hand},       {"files", files},           {"several", several}};
    size_t i;
    /* A check that waits forever fails. */
    alarm(120);
    if (argc > 2 && strcmp(argv[1], "meeting") == 0) {
        meeting(argv[2]);
        return 0;
    }
    if (argc > 2) {
        killed(argv[2], argc > 3);
        return 0;
    }
    for (i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, argv[1]) == 0) {
            all[i].check();
            return 0;
        }
    fprintf(stderr, "there is no such check\n");
    return 2;
}
