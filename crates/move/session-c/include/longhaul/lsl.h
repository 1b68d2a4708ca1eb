/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of longhaul for programs in C: two-way streams of bytes through depots that survive their connections
 * and prove what arrived. lsl(3) describes them at length.
 *
 * The calls have the shape of BSD sockets, and descriptors are ordinary ones: after lsl_connect or lsl_accept
 * use read, write, poll, select, epoll, dup, shutdown and close.
 *
 * Unless it says otherwise, a function returns 0, or -1 with errno set and lsl_error() as the reason. All functions
 * may be called by any thread, but not by signal handlers, and not by the child of a fork before it has called exec.
 */
#ifndef LONGHAUL_LSL_H
#define LONGHAUL_LSL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of lsl_socket and lsl_accept: the descriptor is closed by exec; its reads and writes do not wait. */
#define LSL_CLOEXEC 1
#define LSL_NONBLOCK 2

/*
 * Options of lsl_setsockopt, before lsl_connect or lsl_listen. Accepted descriptors have those of the listening one.
 * "text" need not end with a zero byte; all numbers are a uint64_t.
 */
#define LSL_VIA 1             /* text: depots, "HOST[:PORT],HOST[:PORT]", the nearest first; replaces all routes */
#define LSL_ROUTE 2           /* text: the depots of one more route, tried after those before it; "" is the direct one */
#define LSL_SECRET 3          /* bytes: what both ends have to know, at most 4096 */
#define LSL_NOTE 4            /* bytes: what the other program reads as LSL_PEER_NOTE, at most 4096 */
#define LSL_SEND_WINDOW 5     /* number: most bytes written and not acknowledged, from 512 KiB; default 64 MiB */
#define LSL_RECEIVE_WINDOW 6  /* number: most bytes received ahead of the program, from 16 MiB; default 64 MiB */
#define LSL_PATIENCE 7        /* number: milliseconds without a connection until the session fails; default 600 000 */
#define LSL_CONNECT_TIMEOUT 8 /* number: milliseconds that one attempt to connect may take; default 15 000 */
#define LSL_CA_FILE 9         /* text: file of certificates (PEM) to trust, too */
#define LSL_RATE 10           /* number: bit/s that this end sends at most, or 0 for no limit, the default */
#define LSL_WAIT 11           /* number: 1 if lsl_connect waits until both ends have greeted each other; default 0 */
#define LSL_DIGEST 12         /* number: LSL_DIGEST_..., what both ends also compare of the whole; lsl_connect decides */
#define LSL_ENCRYPT 13        /* number: 0 not to encrypt a session with LSL_SECRET from end to end; lsl_connect decides */
#define LSL_SEND_FILE 14      /* number: descriptor of a file to send in place of what is written; write fails with EPIPE */
#define LSL_RECEIVED_FILE 15  /* number: with LSL_STATE: descriptor of a file with all that was received and is kept */
#define LSL_CONFIRM 16        /* number: 1 if LSL_SENT of the other end waits for lsl_confirm; default 0 */
#define LSL_CONNECTIONS 17    /* number: connections that lsl_connect uses at once, over the routes in turn: 1 to 16; default 1 */

/* Further options of lsl_getsockopt. */
#define LSL_ERROR 32      /* number: errno with which the session failed, or 0; reading it changes nothing */
#define LSL_ERROR_TEXT 33 /* text with a zero byte: the reason, or "" */
#define LSL_PEER_NOTE 34  /* bytes: LSL_NOTE of the other program; waits until both ends have greeted each other */
#define LSL_LOCAL 35      /* text with a zero byte: "ADDRESS:PORT" after lsl_bind */
#define LSL_SESSION 36    /* 16 bytes: the session's name, the same at both ends and in the logs of depots; can be set */

#define LSL_SENT_DIGEST 37     /* bytes: LSL_DIGEST of what was sent; none without one, or before LSL_SENT */
#define LSL_RECEIVED_DIGEST 38 /* bytes: of what was received; none without one, or before the end was read */
#define LSL_ENCRYPTED 39       /* number: 1 if the session is encrypted from end to end; waits as LSL_PEER_NOTE does */
#define LSL_STATE 40           /* bytes, at most LSL_STATE_BYTES: with which another process continues; waits likewise */

/*
 * LSL_STATE can be set, too: lsl_connect then continues that session, and so does the first lsl_accept. Anyone who has it can
 * do that: keep it in a file that no one else can read. Bytes that were written and not read at the other end have gone
 * with their process: only LSL_SEND_FILE can send them again. The session must not have expired at the other end
 * (LSL_PATIENCE there).
 */
#define LSL_STATE_BYTES 1024

/* Values of LSL_DIGEST: none, 32 bytes, 16 bytes. BLAKE3 is always compared. */
#define LSL_DIGEST_NONE 0
#define LSL_DIGEST_SHA256 1
#define LSL_DIGEST_MD5 2

/* Events of lsl_wait. */
#define LSL_GREETED 1 /* both ends have greeted each other */
#define LSL_SENT 2    /* the other program has read everything that was written; shutdown(fd, SHUT_WR) comes before */
#define LSL_OVER 3    /* both streams have arrived as a whole, and both ends know it */

/* Values of lsl_info.state. */
#define LSL_STATE_NEW 0        /* after lsl_socket */
#define LSL_STATE_LISTENING 1  /* after lsl_listen */
#define LSL_STATE_CONNECTING 2 /* there is no connection, or not yet; the session continues when there is one */
#define LSL_STATE_CONNECTED 3
#define LSL_STATE_OVER 4   /* both streams have arrived as a whole */
#define LSL_STATE_FAILED 5 /* lsl_info.error says why */

/* How far a session is. Later versions of the library may add fields at the end. */
struct lsl_info {
    uint32_t state;              /* LSL_STATE_... */
    uint32_t connections;        /* connections so far; more than LSL_CONNECTIONS if the session was continued */
    uint32_t depots;             /* depots on the route of the latest connection */
    uint32_t error;              /* errno with which the session failed, or 0 */
    uint64_t sent_bytes;         /* sent, without what was sent again */
    uint64_t acknowledged_bytes; /* of those, what the other end has */
    uint64_t received_bytes;     /* received and verified */
};

/*
 * A new descriptor. flags is 0, or LSL_CLOEXEC and LSL_NONBLOCK.
 * Errors: EINVAL, EMFILE, ENFILE, ENOBUFS, EAGAIN (no more threads).
 */
int lsl_socket(int flags);

/*
 * Sets an option of a descriptor that is neither connected nor listening.
 * Errors: EINVAL (the value), ENOPROTOOPT (the option), EFAULT, EISCONN, EBADF, ENOTSOCK.
 */
int lsl_setsockopt(int fd, int option, const void *value, size_t length);

/*
 * Reads an option. *length is the size of value, and then that of the option; if it is too small: ERANGE.
 * Options that are set can be read if they are numbers, until there is a session.
 * Errors: ERANGE, ENOPROTOOPT, EINVAL, EFAULT, ENOTCONN, EBADF, ENOTSOCK.
 */
int lsl_getsockopt(int fd, int option, void *value, size_t *length);

/*
 * Begins a session with "HOST:PORT", where somebody listens for sessions, or "tcp:HOST:PORT", a plain TCP server
 * behind at least one depot. "meet:" is a meeting with the end that has bound that: at the last depot of LSL_VIA, by the same
 * LSL_SESSION. It returns at once and the program may write, unless LSL_WAIT is set. A session that fails later gives ECONNRESET to read, and the reason as LSL_ERROR.
 * Errors: EINVAL, EFAULT, EISCONN, EOPNOTSUPP, EBADF, ENOTSOCK; with LSL_WAIT also ECONNREFUSED, ETIMEDOUT,
 * EHOSTUNREACH, EACCES (refused by a depot, or by the other end for its secret), ECONNRESET, EBADMSG.
 */
int lsl_connect(int fd, const char *destination);

/*
 * Takes an address to listen at, "HOST:PORT". Port 0 takes a free one, see LSL_LOCAL. With "meet:" lsl_listen goes to the
 * last depot of LSL_VIA, where the other end comes with lsl_connect and the same LSL_SESSION. A name of 16 random bytes and
 * LSL_SECRET keep others out.
 * Errors: EADDRINUSE, EADDRNOTAVAIL, EACCES, EINVAL, EFAULT, EBADF, ENOTSOCK.
 */
int lsl_bind(int fd, const char *address);

/*
 * Listens for sessions. The descriptor becomes readable for poll when one waits. At most backlog sessions wait.
 * After close of the descriptor, accepted sessions continue, and use the port until they are over. A meeting has one session.
 * Errors: EDESTADDRREQ (lsl_bind is missing), EOPNOTSUPP (LSL_STATE with a meeting), EINVAL, EISCONN, EBADF, ENOTSOCK.
 */
int lsl_listen(int fd, int backlog);

/*
 * The descriptor of a session that waits, or of the next one; with LSL_NONBLOCK or O_NONBLOCK on fd it does not wait.
 * Errors: EAGAIN, EINTR, ECONNABORTED (also after the session of a meeting), EINVAL (it does not listen), EMFILE, ENFILE,
 * EBADF, ENOTSOCK; of a meeting also those of lsl_connect with LSL_WAIT.
 */
int lsl_accept(int fd, int flags);

/*
 * Says, with LSL_CONFIRM, that everything received is safe. It comes after the end was read. Without it the other end is told
 * so when the program has read everything. A program that has not said it within LSL_PATIENCE fails its session.
 * Errors: those of the session, as for lsl_connect; ENOTCONN, EBADF, ENOTSOCK.
 */
int lsl_confirm(int fd);

/*
 * Waits for LSL_GREETED, LSL_SENT or LSL_OVER, at most timeout_ms milliseconds, or for any time if that is negative.
 * Signals do not interrupt it. Background threads do the work, so what is on its way ends with the process: wait for
 * LSL_SENT before exit if this end has written, and some seconds for LSL_OVER so that the other end is not left waiting.
 * Errors: those of the session, as for lsl_connect; ETIMEDOUT, EINVAL, ENOTCONN, EBADF, ENOTSOCK.
 */
int lsl_wait(int fd, int event, int timeout_ms);

/*
 * Says how far a session is. size is sizeof(struct lsl_info).
 * Errors: EINVAL, EFAULT, EBADF, ENOTSOCK.
 */
int lsl_getinfo(int fd, struct lsl_info *info, size_t size);

/* Why the latest failed call of this thread failed, one sentence in English, valid until its next failure. */
const char *lsl_error(void);

/* The library's version, such as "0.1.0". */
const char *lsl_version(void);

#ifdef __cplusplus
}
#endif

#endif
