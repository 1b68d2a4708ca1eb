/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that arrives although either end is killed and started again:
 *
 *   keep receive FILE STATE ADDRESS:PORT
 *   keep send FILE STATE HOST:PORT [BIT/S]
 *
 * STATE holds the session's key, so only its user can read it. It is removed when all is done.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <longhaul/lsl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char *what)
{
    int error = errno;
    fprintf(stderr, "keep: %s: %s (%s)\n", what, lsl_error(), strerror(error));
    return 1;
}

static int number(int fd, int option, uint64_t value)
{
    return lsl_setsockopt(fd, option, &value, sizeof value);
}

/* Sets the state of an earlier process. 1 if there is one, 0 if not, -1 if it is not one. */
static int continued(int fd, const char *path)
{
    char state[LSL_STATE_BYTES];
    ssize_t length;
    int file = open(path, O_RDONLY);

    if (file < 0)
        return errno == ENOENT ? 0 : -1;
    length = read(file, state, sizeof state);
    close(file);
    if (length < 0 || lsl_setsockopt(fd, LSL_STATE, state, (size_t)length) < 0)
        return -1;
    return 1;
}

/* Keeps the session's state: as a whole or not at all. */
static int keep(int fd, const char *path)
{
    char state[LSL_STATE_BYTES], part[4096];
    size_t length = sizeof state;
    int file, is_kept;

    if (lsl_getsockopt(fd, LSL_STATE, state, &length) < 0)
        return -1;
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return -1;
    file = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return -1;
    is_kept = write(file, state, length) == (ssize_t)length && fsync(file) == 0;
    close(file);
    return is_kept ? rename(part, path) : -1;
}

static int send_file(int file, const char *state, const char *to, const char *rate)
{
    int is_later, fd = lsl_socket(LSL_CLOEXEC);

    if (fd < 0 || number(fd, LSL_SEND_FILE, (uint64_t)file) < 0)
        return fail("the file");
    if (rate != NULL && number(fd, LSL_RATE, strtoull(rate, NULL, 10)) < 0)
        return fail(rate);
    is_later = continued(fd, state);
    if (is_later < 0)
        return fail(state);
    if (lsl_connect(fd, to) < 0)
        return fail(to);
    if (!is_later && keep(fd, state) < 0)
        return fail(state);
    if (lsl_wait(fd, LSL_SENT, -1) < 0)
        return fail("not all has arrived");
    lsl_wait(fd, LSL_OVER, 10000);
    unlink(state);
    return close(fd) < 0;
}

static int receive(int file, const char *state, const char *at)
{
    static char buffer[65536];
    ssize_t length;
    int is_later, fd, listener = lsl_socket(LSL_CLOEXEC);

    if (listener < 0 || lsl_bind(listener, at) < 0 || number(listener, LSL_CONFIRM, 1) < 0)
        return fail(at);
    is_later = continued(listener, state);
    if (is_later < 0 || (is_later && number(listener, LSL_RECEIVED_FILE, (uint64_t)file) < 0))
        return fail(state);
    if (!is_later && ftruncate(file, 0) < 0)
        return fail("the file");
    if (lsl_listen(listener, 1) < 0)
        return fail(at);
    fd = lsl_accept(listener, LSL_CLOEXEC);
    if (fd < 0)
        return fail("lsl_accept");
    if (!is_later && keep(fd, state) < 0)
        return fail(state);
    if (lseek(file, 0, SEEK_END) < 0)
        return fail("the file");
    while ((length = read(fd, buffer, sizeof buffer)) > 0)
        if (write(file, buffer, (size_t)length) != length)
            return fail("the file");
    if (length < 0)
        return fail("read");
    if (fsync(file) < 0 || lsl_confirm(fd) < 0 || shutdown(fd, SHUT_WR) < 0)
        return fail("the end");
    lsl_wait(fd, LSL_OVER, 10000);
    unlink(state);
    return close(fd) < 0;
}

int main(int argc, char **argv)
{
    int is_sending = argc > 1 && strcmp(argv[1], "send") == 0, file;

    if (argc < 5 || (!is_sending && strcmp(argv[1], "receive") != 0)) {
        fprintf(stderr, "usage: keep send|receive FILE STATE ADDRESS:PORT [BIT/S]\n");
        return 2;
    }
    file = is_sending ? open(argv[2], O_RDONLY) : open(argv[2], O_RDWR | O_CREAT, 0600);
    if (file < 0) {
        perror(argv[2]);
        return 1;
    }
    if (is_sending)
        return send_file(file, argv[3], argv[4], argc > 5 ? argv[5] : NULL);
    return receive(file, argv[3], argv[4]);
}
