/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program in the kernel and the one outside it share: one entry for each direction. */
#ifndef RELAY_H
#define RELAY_H

#define MOST_SOCKETS 8192		/* two for each connection that is relayed; a power of two */

/*
 * The bytes that came in at one socket, counted since it was put into the map. The program outside
 * writes `allowed` and `taken_away`, the kernel's the rest, under the socket's lock.
 */
struct direction {
	unsigned long long redirected;	/* bytes queued for the other socket, in the kernel */
	unsigned long long passed;	/* bytes left to the program outside */
	unsigned long long taken_away;	/* bytes of those that it has put into the other socket */
	unsigned long long allowed;	/* as far as `redirected` may grow */
	unsigned long long told_of;	/* the `allowed` that the program outside was told is short */
};

#endif
