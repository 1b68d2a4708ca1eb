/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the program at a device keeps between packets, whichever way it paces them, and what it tells of
 * them. pace/layout.rs has the structs in Rust.
 */
#ifndef PACE_STATE_H
#define PACE_STATE_H

#include "pace_rules.h"

#define LOCK_TRIES (1u << 22)	/* some 10 ms; it is held for some 10 us */

/* What left by the device. One for each processor. */
struct pace_counts {
	u64 packets;		/* paced */
	u64 bytes;		/* all bytes are of the link */
	u64 gap_frames;
	u64 gap_bytes;
	u64 at_line_rate;	/* paced at the line's rate, without gap: the targets' sum is as much */
	u64 no_rtt;		/* packets of sockets that know no RTT yet */
	u64 lock_failures;	/* packets that went on unpaced for want of the lock */
	u64 super_packets;	/* paced, but several segments in one */
	u64 lost_gap_bytes;	/* that could not be made or queued */
	u64 lost_packets;	/* that could not be queued */
	u64 beyond_horizon;	/* packets dropped because their time was too far ahead */
};

struct pace_work {
	struct pace_counts counts;
	u64 sending;
};

/* The device's queue as it has been filled. Only under the lock. */
struct pace_queue {
	u32 lock;
	u32 padding;
	struct pace_wire wire;
	struct pace_clock clock;
	struct pace_sum sum;
};

/* One sender, for people: a socket, or what else a rule paces. */
struct pace_seen {
	u8 source[16];
	u8 destination[16];
	u16 from_port;
	u16 to_port;
	u32 protocol;
	u32 rule;
	u32 padding;
	u64 target;		/* bytes/s, of the newest packet */
	u64 packets;
	u64 bytes;
	u64 gap_bytes;
	u64 first_ns;
	u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);	/* its values are replaced as a whole */
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_setup);
} setup SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_queue);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_work);
} work SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct pace_seen);
} seen SEC(".maps");

/* What is known of sockets' paths, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct pace_cap);
} caps SEC(".maps");

/* What the device had before, for user space to put back. */
struct pace_before {
	u32 gso_max_segs;	/* 0: left as it was */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_before);
} before SEC(".maps");

struct attempt {
	struct pace_queue *queue;
	u32 taken;
};

static long try_lock(u32 n, struct attempt *attempt)
{
	u32 *lock = &attempt->queue->lock;

	if (*(volatile u32 *)lock || __sync_val_compare_and_swap(lock, 0, 1))
		return 0;
	attempt->taken = 1;
	return 1;
}

static __always_inline int lock(struct pace_queue *queue)
{
	struct attempt attempt = {queue, 0};

	bpf_loop(LOCK_TRIES, try_lock, &attempt, 0);
	return attempt.taken;
}

static __always_inline void unlock(struct pace_queue *queue)
{
	__sync_lock_test_and_set(&queue->lock, 0);
}

static __always_inline void count(struct __sk_buff *skb, struct pace_work *mine, u32 bytes)
{
	mine->counts.packets++;
	mine->counts.bytes += bytes;
	mine->counts.super_packets += skb->gso_segs > 1;
}

static __always_inline void note(const struct packet *p, const struct pace_rule *rule,
				 const struct aim *aim, u64 now_ns, u32 bytes, u32 gap_bytes)
{
	struct pace_seen *one = bpf_map_lookup_elem(&seen, &aim->flow);

	if (!one) {
		struct pace_seen first = {
			.from_port = p->from_port,
			.to_port = p->to_port,
			.protocol = p->protocol,
			.rule = rule->number,
			.first_ns = now_ns,
		};
		__builtin_memcpy(first.source, p->source, 16);
		__builtin_memcpy(first.destination, p->destination, 16);
		bpf_map_update_elem(&seen, &aim->flow, &first, BPF_NOEXIST);
		one = bpf_map_lookup_elem(&seen, &aim->flow);
		if (!one)
			return;
	}
	one->target = aim->target;
	one->packets++;
	one->bytes += bytes;
	one->gap_bytes += gap_bytes;
	one->last_ns = now_ns;
}

#endif
