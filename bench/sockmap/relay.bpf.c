/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Redirects what a TCP socket receives to the socket beside it in the map: 2n to 2n+1 and back.
 *
 * The kernel takes redirected bytes out of the receive window at once, wherever they wait, so a slow
 * reader would fill memory. Hence credit: beyond `allowed` the bytes are passed to the program
 * outside, and count against the window until it has read them. As bytes must stay in order,
 * nothing is redirected while passed bytes are not yet in the other socket.
 */
#include "../../crates/measure/kernel/src/bpf/types.h"

#include <bpf/bpf_helpers.h>
#include "relay.h"

/* linux/bpf.h, which would need the headers of one architecture */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_SOCKMAP 15
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_F_MMAPABLE 1024
#define SK_PASS 1

struct __sk_buff {
	__u32 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, MOST_SOCKETS);
	__type(key, __u32);
	__type(value, __u64);
} sockets SEC(".maps");

/* From a socket's cookie to its place in the other maps. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_SOCKETS);
	__type(key, __u64);
	__type(value, __u32);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MOST_SOCKETS);
	__type(key, __u32);
	__type(value, struct direction);
} directions SEC(".maps");

/* Places whose credit is short. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MOST_SOCKETS * 16);
} short_of_credit SEC(".maps");

const volatile __u64 credit_bytes;

char LICENSE[] SEC("license") = "GPL";

SEC("sk_skb/stream_verdict")
int relay(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	__u32 *place = bpf_map_lookup_elem(&places, &cookie);
	struct direction *way = place ? bpf_map_lookup_elem(&directions, place) : 0;
	volatile struct direction *seen = way;
	__u64 allowed, after, before;

	/* An end of stream without bytes: redirected, it would break the other socket (EPIPE). */
	if (!way || !skb->len)
		return SK_PASS;
	allowed = seen->allowed;
	after = way->redirected + skb->len;
	if (way->passed != seen->taken_away || after > allowed) {
		/* It adds to one of the two and looks at the other, as copy() and step() do the other way
		 * round: so either it is told, or it sees these bytes. */
		before = __sync_fetch_and_add(&way->passed, skb->len);
		if (before == seen->taken_away)
			bpf_ringbuf_output(&short_of_credit, place, sizeof(*place), 0);
		return SK_PASS;
	}
	way->redirected = after;
	if (after + credit_bytes / 2 > allowed && way->told_of != allowed) {
		way->told_of = allowed;
		bpf_ringbuf_output(&short_of_credit, place, sizeof(*place), 0);
	}
	return bpf_sk_redirect_map(skb, &sockets, *place ^ 1, 0);
}
