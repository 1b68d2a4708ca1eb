/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sends standard input: send HOST:PORT [DEPOT,DEPOT] */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <longhaul/lsl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char *what)
{
    int error = errno;
    fprintf(stderr, "send: %s: %s (%s)\n", what, lsl_error(), strerror(error));
    return 1;
}

int main(int argc, char **argv)
{
    static char buffer[65536];
    struct lsl_info info;
    ssize_t length;
    int fd;

    if (argc < 2) {
        fprintf(stderr, "usage: send HOST:PORT [DEPOT,DEPOT]\n");
        return 2;
    }
    fd = lsl_socket(LSL_CLOEXEC);
    if (fd < 0)
        return fail("lsl_socket");
    if (argc > 2 && lsl_setsockopt(fd, LSL_VIA, argv[2], strlen(argv[2])) < 0)
        return fail("LSL_VIA");
    if (lsl_connect(fd, argv[1]) < 0)
        return fail("lsl_connect");
    while ((length = read(0, buffer, sizeof buffer)) > 0) {
        ssize_t at = 0;
        while (at < length) {
            ssize_t written = write(fd, buffer + at, (size_t)(length - at));
            if (written < 0)
                return fail("write");
            at += written;
        }
    }
    if (shutdown(fd, SHUT_WR) < 0 || lsl_wait(fd, LSL_SENT, -1) < 0)
        return fail("not all has arrived");
    /* The receiver shuts its direction too. It should hear that this has arrived. */
    lsl_wait(fd, LSL_OVER, 10000);
    if (lsl_getinfo(fd, &info, sizeof info) < 0)
        return fail("lsl_getinfo");
    printf("%lu bytes have arrived\n", (unsigned long)info.acknowledged_bytes);
    return close(fd) < 0;
}
