/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * relay OBJECT PORT ORIGIN_PORT [CREDIT_KB]
 *
 * A TCP relay on 127.0.0.1 whose bytes go from socket to socket in the kernel: both sockets of a
 * connection are put into a map (relay.bpf.c, compiled to OBJECT) that redirects what one receives
 * to the other. For bench/relay, to see what that costs beside splice(2); no depot.
 *
 * What the map cannot do is done here, by copying, in order:
 * - bytes that were there before a socket was put into the map: reading makes the kernel look at them;
 * - bytes beyond the credit of a direction (CREDIT_KB, 4096; 0: without end), see relay.bpf.c;
 * - connections with an end that had already closed its side: the map refuses their sockets.
 *
 * The end of a stream is passed on when all that was redirected is in the other socket: closing a
 * socket before would throw away what waits for it. The kernel tells nobody when that is, so it is
 * looked up each millisecond. On SIGINT or SIGTERM it ends, and says how many bytes went which way.
 *
 * Exit status: 0 told to end, 1 failed, 2 wrong usage, 3 the kernel lacks it or refuses.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay.h"

#define LISTENER MOST_SOCKETS		/* in epoll's data, where sockets have their place */
#define CREDIT_EVENTS (MOST_SOCKETS + 1)

/* One socket, and the bytes that come in at it. */
struct side {
	int fd;
	__u64 sent_before;		/* sent() when nothing had been relayed */
	bool joined, ended, at_end, waiting;
	size_t from, held;		/* of `bytes`: what is not yet in the other socket */
	char bytes[1 << 16];
};

static struct side *sides[MOST_SOCKETS];	/* 2n: the client's, 2n+1: the origin's */
static struct direction *directions;
static __u64 credit_bytes = 4 << 20, all_redirected, all_passed;
static int sockets_map, places_map, poller, origin_port;
static volatile sig_atomic_t told_to_end;

static void give_up(int status, const char *what, int error)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(error));
	if (status == 3)
		fprintf(stderr, "redirection between sockets needs root, or CAP_BPF and CAP_NET_ADMIN, "
				"and a kernel with CONFIG_BPF_STREAM_PARSER\n");
	exit(status);
}

static void watch(int fd, __u32 what, int operation, __u32 events)
{
	struct epoll_event event = { .events = events, .data.u32 = what };

	if (epoll_ctl(poller, operation, fd, &event))
		give_up(1, "epoll_ctl", errno);
}

/* An error resets both ends, so that neither takes the stream for whole. */
static void close_pair(__u32 place, int error)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (error)
		fprintf(stderr, "relay: the %s's side: %s\n", place & 1 ? "origin" : "client",
			strerror(error));
	for (__u32 each = place & ~1U; each <= (place | 1); each++) {
		struct side *side = sides[each];
		__u64 cookie;
		socklen_t length = sizeof(cookie);

		if (!getsockopt(side->fd, SOL_SOCKET, SO_COOKIE, &cookie, &length))
			bpf_map_delete_elem(places_map, &cookie);
		if (error)
			setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(side->fd);
		all_redirected += directions[each].redirected;
		all_passed += directions[each].passed;
		free(side);
		sides[each] = NULL;
	}
}

/*
 * The bytes that were ever put into a socket, and a constant. Too few if some are acknowledged in
 * between, never too many.
 */
static __u64 sent(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);
	int queued = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || ioctl(fd, SIOCOUTQ, &queued))
		return 0;
	return info.tcpi_bytes_acked + queued;
}

/* Bytes that were redirected and are not yet in the other socket. */
static __u64 backlog(__u32 place)
{
	const struct direction *way = &directions[place];
	const struct side *other = sides[place ^ 1];
	__u64 redirected = __atomic_load_n(&way->redirected, __ATOMIC_ACQUIRE);

	return redirected + way->taken_away - (sent(other->fd) - other->sent_before);
}

/* Copies what was passed, until there is no more or the other socket is full. 0, or an error. */
static int copy(__u32 place)
{
	struct side *side = sides[place], *other = sides[place ^ 1];

	for (;;) {
		ssize_t done;

		if (!side->held) {
			/* Makes the kernel look at what lies in the receive queue, too. */
			done = recv(side->fd, side->bytes, sizeof(side->bytes), MSG_DONTWAIT);
			if (done <= 0) {
				side->at_end = !done;
				return done && errno != EAGAIN ? errno : 0;
			}
			side->from = 0;
			side->held = done;
		}
		if (backlog(place))
			return 0;
		done = send(other->fd, side->bytes + side->from, side->held,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done < 0)
			return errno != EAGAIN ? errno : 0;
		side->from += done;
		side->held -= done;
		__atomic_fetch_add(&directions[place].taken_away, done, __ATOMIC_SEQ_CST);
	}
}

/* Does what there is to do for one direction, and notes whether it has to be looked at again. */
static void step(__u32 place)
{
	struct side *side = sides[place], *other;
	struct direction *way = &directions[place];
	__u64 redirected, behind;
	bool in_kernel;
	int error;

	if (!side || !side->joined || side->ended)
		return;
	other = sides[place ^ 1];
	error = copy(place);
	if (error) {
		close_pair(place, error);
		return;
	}
	behind = backlog(place);
	redirected = __atomic_load_n(&way->redirected, __ATOMIC_ACQUIRE);
	in_kernel = way->allowed;
	if (in_kernel && credit_bytes && behind <= redirected)
		__atomic_store_n(&way->allowed, redirected - behind + credit_bytes, __ATOMIC_RELEASE);
	if (side->at_end && !side->held && !behind && (!in_kernel || way->passed == way->taken_away)) {
		side->ended = true;
		side->waiting = false;
		shutdown(other->fd, SHUT_WR);
		if (other->ended)
			close_pair(place, 0);
		return;
	}
	side->waiting = side->at_end || !in_kernel ||
			__atomic_load_n(&way->passed, __ATOMIC_SEQ_CST) != way->taken_away ||
			way->allowed - redirected < credit_bytes / 2;
}

/*
 * Puts both sockets of a connection into the map. Nothing is redirected before both are there: the
 * kernel drops what it cannot place.
 */
static void join(__u32 place)
{
	bool both = true;
	__u32 each, first = place & ~1U;

	for (each = first; each <= (first | 1); each++) {
		struct side *side = sides[each];
		__u64 cookie, fd = side->fd;
		socklen_t length = sizeof(cookie);

		memset(&directions[each], 0, sizeof(directions[each]));
		side->sent_before = sent(side->fd);
		if (getsockopt(side->fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) ||
		    bpf_map_update_elem(places_map, &cookie, &each, BPF_ANY) ||
		    bpf_map_update_elem(sockets_map, &each, &fd, BPF_ANY))
			both = false;
		side->joined = true;
	}
	for (each = first; both && each <= (first | 1); each++)
		__atomic_store_n(&directions[each].allowed, credit_bytes ? credit_bytes : ~0ULL,
				 __ATOMIC_RELEASE);
	watch(sides[first]->fd, first, EPOLL_CTL_ADD, EPOLLRDHUP | EPOLLET);
	watch(sides[first | 1]->fd, first | 1, EPOLL_CTL_MOD, EPOLLRDHUP | EPOLLET);
	step(first);
	step(first | 1);
}

static struct side *side_of(int fd)
{
	struct side *side = calloc(1, sizeof(*side));

	if (!side)
		give_up(1, "memory", ENOMEM);
	side->fd = fd;
	return side;
}

static void accept_all(int listener)
{
	struct sockaddr_in origin = { .sin_family = AF_INET, .sin_port = htons(origin_port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int client, upstream;
	__u32 place = 0;

	while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		while (place < MOST_SOCKETS && sides[place])
			place += 2;
		upstream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (place == MOST_SOCKETS || upstream < 0 ||
		    (connect(upstream, (void *)&origin, sizeof(origin)) && errno != EINPROGRESS)) {
			fprintf(stderr, "relay: a connection is refused: %s\n", strerror(errno));
			close(upstream);
			close(client);
			continue;
		}
		sides[place] = side_of(client);
		sides[place | 1] = side_of(upstream);
		watch(upstream, place | 1, EPOLL_CTL_ADD, EPOLLOUT);
	}
}

static void on_event(__u32 place, __u32 events)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (!sides[place])
		return;
	if (events & EPOLLERR) {
		getsockopt(sides[place]->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		close_pair(place, error ? error : EIO);
	} else if (!sides[place]->joined)
		join(place);
	else
		step(place);
}

static int on_short_of_credit(void *context, void *place, size_t length)
{
	(void)context;
	(void)length;
	step(*(__u32 *)place);
	return 0;
}

static bool step_those_waiting(void)
{
	bool any = false;

	for (__u32 place = 0; place < MOST_SOCKETS; place++) {
		if (sides[place] && sides[place]->waiting)
			step(place);
		any |= sides[place] && sides[place]->waiting;
	}
	return any;
}

static struct ring_buffer *load(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_map *constants = object ? bpf_object__find_map_by_name(object, ".rodata") : NULL;
	struct ring_buffer *ring;
	int program;

	if (!constants)
		give_up(1, path, errno);
	bpf_map__set_initial_value(constants, &credit_bytes, sizeof(credit_bytes));
	if (bpf_object__load(object))
		give_up(3, "the kernel does not load the program", errno);
	sockets_map = bpf_object__find_map_fd_by_name(object, "sockets");
	places_map = bpf_object__find_map_fd_by_name(object, "places");
	directions = mmap(NULL, sizeof(*directions) * MOST_SOCKETS, PROT_READ | PROT_WRITE, MAP_SHARED,
			  bpf_object__find_map_fd_by_name(object, "directions"), 0);
	program = bpf_program__fd(bpf_object__find_program_by_name(object, "relay"));
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "short_of_credit"),
				on_short_of_credit, NULL, NULL);
	if (directions == MAP_FAILED || !ring ||
	    bpf_prog_attach(program, sockets_map, BPF_SK_SKB_STREAM_VERDICT, 0))
		give_up(3, "the kernel does not redirect", errno);
	return ring;
}

static int listen_on(int port)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(listener, (void *)&own, sizeof(own)) || listen(listener, 1024))
		give_up(1, "listening", errno);
	return listener;
}

static void on_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

int main(int argc, char **argv)
{
	struct sigaction end = { .sa_handler = on_signal };
	sigset_t ends, none;
	struct epoll_event events[128];
	struct ring_buffer *ring;
	int listener;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: relay OBJECT PORT ORIGIN_PORT [CREDIT_KB]\n");
		return 2;
	}
	if (argc == 5)
		credit_bytes = strtoull(argv[4], NULL, 10) << 10;
	origin_port = atoi(argv[3]);
	/* Let in only while it waits, so that none comes between the look at the flag and the wait. */
	sigemptyset(&none);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	poller = epoll_create1(EPOLL_CLOEXEC);
	ring = load(argv[1]);
	listener = listen_on(atoi(argv[2]));
	watch(listener, LISTENER, EPOLL_CTL_ADD, EPOLLIN);
	watch(ring_buffer__epoll_fd(ring), CREDIT_EVENTS, EPOLL_CTL_ADD, EPOLLIN);

	puts("listening");
	fflush(stdout);
	while (!told_to_end) {
		int timeout_ms = step_those_waiting() ? 1 : -1;
		int count = epoll_pwait(poller, events, 128, timeout_ms, &none);
		bool newcomers = false;

		for (int i = 0; i < count; i++) {
			if (events[i].data.u32 == LISTENER)
				newcomers = true;
			else if (events[i].data.u32 == CREDIT_EVENTS)
				ring_buffer__consume(ring);
			else
				on_event(events[i].data.u32, events[i].events);
		}
		/* Last, so that no event meant for a closed connection meets a new one in its place. */
		if (newcomers)
			accept_all(listener);
	}
	for (__u32 place = 0; place < MOST_SOCKETS; place += 2)
		if (sides[place])
			close_pair(place, ECANCELED);
	fprintf(stderr, "relay: %llu bytes redirected, %llu passed\n", all_redirected, all_passed);
	return 0;
}
