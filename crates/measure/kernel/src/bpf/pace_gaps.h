/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Gap packets: each paced packet that leaves the device is followed by PAUSE frames, as long as
 * cc/pace.h says.
 *
 * The program runs when a packet is about to be queued, on several processors at once. What it queues it
 * clones to the same device, under a lock of its own, so that a packet and its gap are queued as one run
 * and no other paced packet comes between:
 *
 *	lock, packet (a clone), gap frames (clones of what the packet is turned into), unlock
 *
 * Clones enter this program again; `sending` of the processor lets them pass. Nothing else runs on the
 * processor meanwhile that could send, since bottom halves are off (not so under PREEMPT_RT: there a packet
 * of another task may pass unpaced).
 *
 * It comes before the device's other programs, which so see what really leaves: clones and gap frames, each once.
 *
 * What the kernel gave us is the socket's, which waits with more until it is sent (TCP small queues, send
 * buffers). Clones are nobody's. So the packet itself becomes the last of its gap frames, the shortest
 * there is, and is queued after the unlocking: among several processors those 84 bytes may come behind the
 * next packet, never the rest. A gap too short to be divided is queued under the lock as a whole.
 *
 * Not paced, and passed as they come: what no rule matches, what TCP sends without payload, and all while the
 * targets' sum is the line's rate. A packet without gap does no harm between another and its gap, and keeps
 * its socket and its priority.
 */
#ifndef PACE_GAPS_H
#define PACE_GAPS_H

#include "pace_frames.h"
#include "pace_state.h"

#define MAX_FRAMES (1u << 16)	/* of one gap */
#define NOWHERE 0		/* no device's number */

/* Queues a copy of the packet as it is; 0: done. */
static __always_inline long queue_copy(struct __sk_buff *skb, struct pace_work *mine)
{
	long result;

	mine->sending = 1;
	result = bpf_clone_redirect(skb, skb->ifindex, 0);
	mine->sending = 0;
	return result;
}

struct gap {
	struct __sk_buff *skb;
	struct pace_wire *wire;
	struct pace_work *mine;
	u32 overhead;
	u32 length;		/* that the frame has now */
	u32 bytes;		/* queued */
};

static long queue_frame(u32 n, struct gap *gap)
{
	u32 bytes = pace_frame(gap->wire), length;

	if (!bytes)
		return 1;
	length = cc_max(bytes - gap->overhead, ETHERNET_MIN);
	if ((length != gap->length && bpf_skb_change_tail(gap->skb, length, 0)) ||
	    queue_copy(gap->skb, gap->mine)) {
		gap->mine->counts.lost_gap_bytes += bytes;
		return 0;
	}
	gap->length = length;
	gap->mine->counts.gap_frames++;
	gap->bytes += bytes;
	return 0;
}

/*
 * The packet has been queued: queues its gap, all but what the packet itself is to become, which is the
 * result, in bytes of the link; 0: nothing.
 */
static __always_inline u32 queue_gap(struct __sk_buff *skb, const struct pace_setup *setup,
				     struct pace_wire *wire, struct pace_work *mine, u32 *bytes)
{
	u32 last = wire->owed >= 2 * wire->min_frame ? wire->min_frame : 0;
	struct gap gap = {skb, wire, mine, setup->overhead, 0, 0};

	if (wire->owed < wire->min_frame)
		return 0;
	gap.length = cc_max(cc_min(wire->owed - last, wire->max_frame) - setup->overhead, ETHERNET_MIN);
	if (become_pause(skb, setup->mac, gap.length)) {
		mine->counts.lost_gap_bytes += wire->owed;
		wire->owed = 0;
		return 0;
	}
	wire->owed -= last;
	bpf_loop(MAX_FRAMES, queue_frame, &gap, 0);
	*bytes = gap.bytes + last;
	return last;
}

static __always_inline void set_up(struct pace_wire *wire, const struct pace_setup *setup)
{
	wire->line = setup->line;
	wire->max_gap = setup->max_gap;
	wire->max_frame = setup->max_frame;
	wire->min_frame = ETHERNET_MIN + setup->overhead;
}

/* Under the lock. What becomes of the packet. */
static __always_inline int send(struct __sk_buff *skb, const struct pace_setup *setup,
				const struct pace_rule *rule, const struct packet *p,
				const struct aim *aim, struct pace_queue *queue,
				struct pace_work *mine, u32 bytes, u64 now_ns, u64 sum)
{
	struct pace_wire *wire = &queue->wire;
	u32 last, gap_bytes = 0;

	set_up(wire, setup);
	if (sum >= wire->line) {
		pace_owe(wire, sum, bytes);
		mine->counts.at_line_rate++;
		count(skb, mine, bytes);
		note(p, rule, aim, now_ns, bytes, 0);
		unlock(queue);
		return TCX_NEXT;
	}
	if (queue_copy(skb, mine)) {
		mine->counts.lost_packets++;
		unlock(queue);
		return TCX_DROP;
	}
	count(skb, mine, bytes);
	pace_owe(wire, sum, bytes);
	last = queue_gap(skb, setup, wire, mine, &gap_bytes);
	mine->counts.gap_bytes += gap_bytes;
	note(p, rule, aim, now_ns, bytes, gap_bytes);
	unlock(queue);
	/* A drop would be told to the socket, as if the packet had not been sent. */
	if (!last || bpf_skb_change_tail(skb, ETHERNET_MIN, 0))
		return bpf_redirect(NOWHERE, 0);
	mine->counts.gap_frames++;
	/* As a new packet, since the old one's length has been noted for the device's queue. */
	return bpf_redirect(skb->ifindex, 0);
}

#endif
