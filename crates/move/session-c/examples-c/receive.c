/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes one session to standard output: receive ADDRESS:PORT */
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
    fprintf(stderr, "receive: %s: %s (%s)\n", what, lsl_error(), strerror(error));
    return 1;
}

int main(int argc, char **argv)
{
    static char buffer[65536];
    char local[64];
    size_t size = sizeof local;
    ssize_t length;
    int listener, fd;

    if (argc < 2) {
        fprintf(stderr, "usage: receive ADDRESS:PORT\n");
        return 2;
    }
    listener = lsl_socket(LSL_CLOEXEC);
    if (listener < 0 || lsl_bind(listener, argv[1]) < 0 || lsl_listen(listener, 8) < 0)
        return fail(argv[1]);
    if (lsl_getsockopt(listener, LSL_LOCAL, local, &size) < 0)
        return fail("LSL_LOCAL");
    fprintf(stderr, "listening at %s\n", local);
    fd = lsl_accept(listener, LSL_CLOEXEC);
    if (fd < 0)
        return fail("lsl_accept");
    while ((length = read(fd, buffer, sizeof buffer)) > 0)
        if (fwrite(buffer, 1, (size_t)length, stdout) != (size_t)length)
            return 1;
    if (length < 0)
        return fail("read");
    if (fflush(stdout) != 0 || shutdown(fd, SHUT_WR) < 0)
        return fail("the end");
    /* All is here. The sender has to hear so; whether it confirms that does not matter. */
    lsl_wait(fd, LSL_OVER, 10000);
    close(fd);
    close(listener);
    return 0;
}
