/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sends back what each session says, many at a time with poll: echo ADDRESS:PORT */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <longhaul/lsl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 64

static int fail(const char *what)
{
    int error = errno;
    fprintf(stderr, "echo: %s: %s (%s)\n", what, lsl_error(), strerror(error));
    return 1;
}

/* Passes on what is there; 0 once the session is over. For simplicity it waits until all is written. */
static int serve(int fd)
{
    static char buffer[65536];
    ssize_t length = read(fd, buffer, sizeof buffer), at = 0;

    if (length == 0)
        shutdown(fd, SHUT_WR);
    while (at < length) {
        ssize_t written = send(fd, buffer + at, (size_t)(length - at), MSG_NOSIGNAL);
        if (written < 0)
            return 0;
        at += written;
    }
    return length > 0;
}

int main(int argc, char **argv)
{
    struct pollfd all[MOST];
    char local[64];
    size_t size = sizeof local;
    nfds_t count = 1, i;

    if (argc < 2) {
        fprintf(stderr, "usage: echo ADDRESS:PORT\n");
        return 2;
    }
    all[0].fd = lsl_socket(LSL_CLOEXEC | LSL_NONBLOCK);
    all[0].events = POLLIN;
    if (all[0].fd < 0 || lsl_bind(all[0].fd, argv[1]) < 0 || lsl_listen(all[0].fd, MOST) < 0)
        return fail(argv[1]);
    if (lsl_getsockopt(all[0].fd, LSL_LOCAL, local, &size) < 0)
        return fail("LSL_LOCAL");
    fprintf(stderr, "listening at %s\n", local);
    for (;;) {
        if (poll(all, count, -1) < 0)
            return fail("poll");
        for (i = count - 1; i > 0; i--) {
            if (all[i].revents && !serve(all[i].fd)) {
                close(all[i].fd);
                all[i] = all[--count];
            }
        }
        if (all[0].revents && count < MOST) {
            all[count].fd = lsl_accept(all[0].fd, LSL_CLOEXEC);
            all[count].events = POLLIN;
            all[count].revents = 0;
            if (all[count].fd >= 0)
                count++;
            else if (errno != EAGAIN && errno != ECONNABORTED)
                return fail("lsl_accept");
        }
    }
}
