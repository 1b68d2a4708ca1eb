/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pacing by gap packets: Takano et al., "Design and Evaluation of Precise Software Pacing Mechanisms
 * for Fast Long-Distance Networks" (paper 001), section II-A.
 *
 *	target = cwnd x packet / RTT					(1)
 *	target = line x packet / (packet + gap)				(2)
 *	gap    = line x packet / target - packet			(3)
 *
 * (3) is the paper's, with what (1) gives put in for RTT / cwnd. One source for the kernel's program and
 * for the simulator; netmodel's `pacing` calls it from Rust.
 *
 * Every size is of the link: what a packet takes of its time, with the headers below IP, preamble, check
 * sequence and inter-frame gap. The set `paper` has it otherwise, see below.
 *
 * Sets, and where they differ:
 * - packet: the paper takes the segment's payload for its size in (1), so a sender whose window fills the
 *   path asks for 1448/1538 of it. `link` counts what it takes of the link.
 * - RTT: the paper's is the kernel's smoothed RTT. That has in it what the packets wait in the sender's own
 *   queue, for the pacing: then (1) holds at any rate (a window more than the path holds waits at the
 *   sender, RTT = cwnd x packet / rate), and what was asked for once stays. `link` takes the smallest RTT.
 * - recovery: while losses are repaired the window is what proportional rate reduction leaves of it at the
 *   moment, often a few segments more than is in flight. `link` paces at ssthresh then, the window
 *   that it is on its way to.
 * - slow start: cwnd / RTT in all sets. Twice that, as Linux has it, would be a burst above the
 *   bottleneck's rate as soon as the window is half of what the path holds.
 *
 * With several flows in one queue, a gap for each of them would be too long by those of the others: the gap
 * after a packet is of the sum of the flows' targets (pace_sum).
 */
#ifndef CC_PACE_H
#define CC_PACE_H

#include "cc.h"

enum pace_rtt { PACE_SMOOTHED, PACE_SMALLEST };

/* How the target is estimated. */
struct pace_params {
	u64 max_rate;	/* bytes/s of the link that the target is cut at; 0: none */
	u32 rtt;	/* enum pace_rtt */
	u32 payload;	/* 1: packets count as their payload */
	u32 recovery;	/* 1: ssthresh paces while losses are repaired */
	u32 find_cap;	/* 1: the target is cut at what the path is found to carry (pace_capped) */
};

/* What TCP knows when a packet leaves. */
struct pace_flow {
	u64 line;	/* bytes/s of the sender's own link; 0: not known */
	u32 cwnd;	/* segments */
	u32 ssthresh;	/* segments */
	u32 mss;	/* bytes of payload in a full segment */
	u32 packet;	/* bytes of a full segment on the link */
	u32 srtt_us;	/* smoothed RTT; 0: not known */
	u32 min_rtt_us;	/* smallest RTT; 0: not known */
	u32 recovering;	/* 1: losses are being repaired */
	u32 in_flight;	/* segments, with this one and what waits at the sender */
	u32 delivered;	/* segments, in all; wraps */
};

#define PACE_US_PER_S 1000000ull
#define PACE_NS_PER_US 1000ull
#define PACE_NS_PER_S 1000000000ull

/* Bytes/s. Below it packet x line stays below 2^63 for packets up to 2^22. */
#define PACE_MAX_RATE (1ull << 40)

/*
 * Equation 1, in bytes/s of the link; 0: not known, as before the first RTT. cwnd below 2^22 segments of
 * 2^16 bytes, times 10^6, is below 2^58.
 */
CC_INLINE u64 pace_target(const struct pace_params *p, const struct pace_flow *f)
{
	u32 rtt_us = p->rtt == PACE_SMALLEST && f->min_rtt_us ? f->min_rtt_us : f->srtt_us;
	u32 cwnd = cc_min(f->cwnd, 1u << 22);
	u32 bytes = cc_min(p->payload ? f->mss : f->packet, 1u << 16);
	u64 rate;

	if (!rtt_us)
		return 0;
	if (p->recovery && f->recovering)
		cwnd = cc_max(cwnd, cc_min(f->ssthresh, 1u << 22));
	rate = cc_min64((u64)cwnd * bytes * PACE_US_PER_S / rtt_us, PACE_MAX_RATE);
	rate = cc_max64(rate, 1);
	return p->max_rate ? cc_min64(rate, p->max_rate) : rate;
}

/*
 * What the path carries, found by the sender itself. A window that grows exponentially is past a small
 * buffer before the first loss tells of it; what its pacing then has to be cut at is known at that moment:
 * what the path delivers while it is full.
 *
 * One packet a round trip is watched: when it left, and when it had been delivered, so that what it waited
 * at the sender for its pacing is no part of it. Several that were acknowledged together are reckoned with,
 * and time in which nothing was sent is never taken for a queue. It has met a queue if it took longer than the
 * smallest RTT by PACE_QUEUE packets' time, or 1/1024 of that RTT where that is more.
 *
 *	a queue, twice or with losses	the path is full: full = what was delivered in that round trip,
 *			cap = full less 1/128, and for one round trip what waits less, so that it drains
 *	no queue	cap += 1 packet a round trip, while the cap and nothing else holds the sender;
 *			beyond `full` more, 1/8 of what it is beyond, but at most 1/64 of the cap (or 4 packets)
 *
 * One packet more in each round trip makes a queue of 1, 3, 6, 10, 15, 21 packets until it is seen twice
 * and the answer is felt, whatever the rate: so 64 KB are enough. A path that has grown is noticed 1/128 of the rate
 * later, and from there on found by a growing share; it overflows once.
 *
 * - The first time, `full` is of the fastest quarter of a round trip: the rest of it was not full yet.
 * - What is known after an answer came too early to tell of it: PACE_SETTLE packets are left out, but more
 *   may have been delivered than was thought.
 * - A queue that did not go, though what was sent arrived as fast: it is others', or the path has become longer.
 *   What was taken back is given again, and waiting for it no longer counts (others_ns). A sender that
 *   answers to delay alone would have nothing left beside one that fills every queue.
 * - Losses alone say nothing, so random ones don't bring the cap down; nor does what the application did
 *   not offer, see `limited`.
 *
 * Left as it is: a queue too short for PACE_QUEUE packets, where nothing is ever found.
 */
#define PACE_QUEUE 8		/* packets */
#define PACE_QUEUE_SHIFT 10	/* of the smallest RTT */
#define PACE_SEEN 2		/* times */
#define PACE_SETTLE 3		/* packets watched */
#define PACE_MARGIN_SHIFT 7	/* of `full` */
#define PACE_BEYOND_SHIFT 3
#define PACE_GROW_SHIFT 6	/* of the cap */
#define PACE_GROW 4		/* packets a round trip */
#define PACE_PART_SHIFT 2	/* of the smallest RTT */
#define PACE_MOST_SEGMENTS (1u << 22)

/* What is known of the path that a flow takes. All zero: nothing. */
struct pace_cap {
	u64 rate;	/* bytes/s of the link that the target is cut at; 0: nothing found */
	u64 full;	/* bytes/s delivered when the path was last full */
	u64 before;	/* `rate` before that, until the answer is judged; 0: none */
	u64 drain;	/* bytes/s less, until the next packet that is watched */
	u64 departs_ns;	/* when the next packet departs at the earliest */
	u64 rest;	/* of the division that gave it */
	u64 last_ns;	/* when the last packet was sent */
	u64 others_ns;	/* what packets wait that is not for this flow's queue */
	u64 sent_ns;	/* when the packet was sent that is watched */
	u64 departed_ns;	/* when it departed */
	u64 part_ns;	/* when the part of a round trip began whose rate is measured */
	u64 peak;	/* bytes/s delivered in the fastest part since the packet was sent */
	u32 part_delivered;	/* when the part began */
	u32 delivered;	/* when the packet was sent */
	u32 goal;	/* delivered when it is */
	u16 watching;	/* 1: a packet is watched */
	u16 busy;	/* 1: something has waited at the sender ever since */
	u16 limited;	/* 1: it was not the application that held the sender then */
	u16 seen;	/* packets in succession that met a queue */
	u16 settle;	/* packets to be left out */
	u16 padding;
};

/* Bytes/s of so many segments in that time. Below 2^58 before it is divided. */
CC_INLINE u64 pace_delivered(const struct pace_flow *f, u32 segments, u64 us)
{
	u64 bytes = (u64)cc_min(segments, PACE_MOST_SEGMENTS) * cc_min(f->packet, 1u << 16);

	return cc_min64(bytes * PACE_US_PER_S / cc_max64(us, 1), PACE_MAX_RATE);
}

/* What the packet that was watched has waited in queues of the path; `more_ns`: see pace_learn. */
CC_INLINE u64 pace_waited(struct pace_cap *c, u64 more_ns, u64 rtt_ns, u64 now_ns)
{
	u64 base_ns = c->departed_ns + rtt_ns;

	if (now_ns >= base_ns) {
		c->others_ns = cc_min64(c->others_ns, now_ns - base_ns);
	} else if (c->busy) {
		/* Nothing arrives before it has left: the sender's link is ahead of this account. */
		c->departs_ns -= cc_min64(c->departs_ns, base_ns - now_ns);
		c->others_ns = 0;
	}
	/* It had not been delivered at last_ns; when it was, nobody looked. */
	base_ns += c->others_ns + more_ns;
	return c->last_ns > base_ns ? c->last_ns - base_ns : 0;
}

CC_INLINE void pace_set_full(struct pace_cap *c, u64 rate)
{
	c->full = rate;
	c->rate = rate - (rate >> PACE_MARGIN_SHIFT);
}

/* There is room on the path; `one`: a packet a round trip. */
CC_INLINE void pace_grow(struct pace_cap *c, u64 one)
{
	u64 beyond = c->rate > c->full ? (c->rate - c->full) >> PACE_BEYOND_SHIFT : 0;
	u64 most = cc_max64(PACE_GROW * one, c->rate >> PACE_GROW_SHIFT);

	c->rate = cc_min64(c->rate + cc_min64(cc_max64(beyond, one), most), PACE_MAX_RATE);
}

/* There is a queue of that length; it took the packet so long to be sent, to wait and to arrive. */
CC_INLINE void pace_meet_queue(struct pace_cap *c, u64 rate, u64 queue_ns, u64 took_ns, u32 follows,
			       u32 recovering)
{
	if (c->before && follows) {
		c->rate = cc_max64(c->rate, c->before);
		c->before = 0;
		c->others_ns += queue_ns;
		return;
	}
	if (++c->seen < PACE_SEEN && !recovering)
		return;
	c->before = c->rate;
	pace_set_full(c, rate);
	/* At most half. */
	c->drain = rate * cc_min64((queue_ns << 10) / took_ns, 512) >> 10;
	c->settle = PACE_SETTLE;
	c->seen = 0;
}

/* The packet that was watched has been delivered; `target` is the one without a cap. */
CC_INLINE void pace_learn(struct pace_cap *c, u64 target, const struct pace_flow *f, u64 now_ns)
{
	u64 took_us = cc_max64((now_ns - c->sent_ns) / PACE_NS_PER_US, 1);
	u64 rtt_ns = f->min_rtt_us * PACE_NS_PER_US, queue_ns, enough_ns, more_ns;
	u64 rate = cc_max64(pace_delivered(f, f->delivered - c->delivered, took_us), 1);
	u64 packet_ns = (u64)cc_min(f->packet, 1u << 16) * PACE_NS_PER_US * PACE_US_PER_S / rate;
	u32 follows, cut = c->rate && target >= c->rate;

	/* Of those that were acknowledged together the last has waited for no other. */
	more_ns = packet_ns * cc_min(f->delivered - c->goal, PACE_MOST_SEGMENTS);
	queue_ns = pace_waited(c, more_ns, rtt_ns, now_ns);
	enough_ns = cc_max64(PACE_QUEUE * packet_ns, rtt_ns >> PACE_QUEUE_SHIFT);
	if (!c->rate || (c->settle && !c->before))
		rate = cc_max64(rate, c->peak);
	if (c->settle && --c->settle) {
		if (rate > c->full)
			pace_set_full(c, rate);
		return;
	}
	follows = rate >= c->rate - (c->rate >> PACE_GROW_SHIFT);
	if (queue_ns >= enough_ns) {
		pace_meet_queue(c, rate, queue_ns, took_us * PACE_NS_PER_US, follows, f->recovering);
		return;
	}
	c->seen = 0;
	c->before = 0;
	if (cut && follows)
		pace_grow(c, pace_delivered(f, 1, took_us));
}

/* Keeps the account of what is sent at `rate`: when this packet departs, and whether it is watched. */
CC_INLINE void pace_account(struct pace_cap *c, const struct pace_flow *f, u64 now_ns, u64 rate, u32 limited)
{
	u64 whole;

	if (c->departs_ns < now_ns) {
		c->departs_ns = now_ns;
		c->rest = 0;
		c->busy = 0;
	}
	if (!c->watching) {
		c->watching = 1;
		c->busy = 1;
		c->limited = limited;
		c->peak = 0;
		c->sent_ns = now_ns;
		c->departed_ns = c->departs_ns;
		c->delivered = f->delivered;
		c->goal = f->delivered + f->in_flight;
	}
	if (f->line)
		rate = cc_min64(rate, f->line);
	whole = (u64)cc_min(f->packet, 1u << 16) * PACE_NS_PER_US * PACE_US_PER_S + c->rest;
	c->departs_ns += whole / rate;
	c->rest = whole % rate;
	c->last_ns = now_ns;
}

/*
 * The target for a full segment that is sent now: that of equation 1, cut at what the path is found to
 * carry where that is asked for.
 */
CC_INLINE u64 pace_capped(const struct pace_params *p, const struct pace_flow *f, struct pace_cap *c,
			  u64 now_ns)
{
	u64 target = pace_target(p, f), rate = target;
	u32 limited;

	if (!p->find_cap || !target || !f->min_rtt_us)
		return target;
	/* A quarter of the window: what is acknowledged at once may be as much. */
	limited = c->departs_ns > now_ns || f->in_flight + (f->cwnd >> 2) + 2 >= f->cwnd || f->recovering;
	if (now_ns - c->part_ns >= f->min_rtt_us * PACE_NS_PER_US >> PACE_PART_SHIFT) {
		u64 us = (now_ns - c->part_ns) / PACE_NS_PER_US;

		c->peak = cc_max64(c->peak, pace_delivered(f, f->delivered - c->part_delivered, us));
		c->part_ns = now_ns;
		c->part_delivered = f->delivered;
	}
	if (c->watching && (s32)(f->delivered - c->goal) >= 0) {
		c->watching = 0;
		c->drain = 0;
		if (limited && c->limited)
			pace_learn(c, target, f, now_ns);
		else
			c->seen = 0;
	}
	if (c->rate)
		rate = cc_min64(rate, c->rate);
	rate = cc_max64(rate - cc_min64(c->drain, rate), 1);
	pace_account(c, f, now_ns, rate, limited);
	return rate;
}

/*
 * What a sender's queue owes to the wire in gaps. A gap frame has a least size, so what is shorter waits
 * for the next packet's gap, and so do fractions of bytes: no rounding accumulates.
 */
struct pace_wire {
	u64 line;	/* bytes/s of the link */
	u64 rest;	/* of the last division, below the rate it was by */
	u32 owed;	/* bytes of gap not yet sent */
	u32 max_gap;	/* bytes of gap at most behind one packet */
	u32 min_frame;	/* bytes of the link that the shortest gap frame takes */
	u32 max_frame;	/* bytes of the link that the longest gap frame takes, at least 2 min_frame */
};

/* Equation 3, for a packet that has just left at this rate in bytes/s; 0: not paced. */
CC_INLINE void pace_owe(struct pace_wire *w, u64 rate, u32 packet)
{
	u64 whole, gap;

	if (!rate || rate >= w->line) {
		w->rest = 0;
		w->owed = 0;
		return;
	}
	whole = cc_min64(w->line, PACE_MAX_RATE) * packet + w->rest;
	gap = whole / rate - packet;
	w->rest = whole % rate;
	w->owed = cc_min64(w->owed + gap, w->max_gap);
}

/* The next gap frame's bytes of the link; 0: none. What is left is enough for a frame, or waits. */
CC_INLINE u32 pace_frame(struct pace_wire *w)
{
	u32 frame = cc_min(w->owed, w->max_frame);

	if (frame < w->min_frame)
		return 0;
	w->owed -= frame;
	if (w->owed && w->owed < w->min_frame && frame == w->max_frame) {
		frame -= w->min_frame - w->owed;
		w->owed = w->min_frame;
	}
	return frame;
}

/*
 * Times of departure in the place of gaps: who holds packets until their time keeps the same rate, and the
 * wire idles between. A packet may leave when those before it have had their time at the rate. What is left
 * of a nanosecond waits for the next packet, so no rounding accumulates; an idle sender saves nothing up.
 */
struct pace_clock {
	u64 next_ns;	/* when the next packet may leave */
	u64 rest;	/* of the last division */
};

/*
 * How far ahead a packet's time may be: below the ten seconds after which fq drops it, and ten full packets,
 * TCP's first window, at 62 kb/s.
 */
#define PACE_HORIZON_NS 2000000000ull

/*
 * When a packet of so many bytes of the link may leave, at this rate in bytes/s (not 0); 0: that would be
 * beyond the horizon, and it has taken no time. Packets are below 2^32 bytes, so times 10^9 below 2^62.
 */
CC_INLINE u64 pace_depart(struct pace_clock *c, u64 now_ns, u64 rate, u32 packet)
{
	u64 at_ns = c->next_ns, whole;

	if (at_ns < now_ns) {
		at_ns = now_ns;
		c->rest = 0;
	}
	if (at_ns - now_ns > PACE_HORIZON_NS)
		return 0;
	/* The rest was by the rate of then, perhaps a much higher one. */
	whole = packet * PACE_NS_PER_S + cc_min64(c->rest, rate - 1);
	c->next_ns = at_ns + whole / rate;
	c->rest = whole % rate;
	return at_ns;
}

/*
 * The targets of those who send into one queue, and their sum. A flow that has sent nothing for its
 * `until` leaves the sum. For each packet the flow's place is looked for among PACE_TRIES, and one other
 * place is looked at for a flow that has gone, so the work is bounded; a flow that finds no place is paced
 * at its own target on top of the sum, which is right for the moment.
 */
#define PACE_FLOWS 512		/* a power of 2 */
#define PACE_TRIES 8

struct pace_place {
	u64 flow;	/* 0: free */
	u64 target;	/* bytes/s */
	u64 until_ns;
};

struct pace_sum {
	u64 total;	/* bytes/s */
	u32 hand;	/* the place that is looked at next */
	u32 flows;
	struct pace_place places[PACE_FLOWS];
};

CC_INLINE void pace_leave(struct pace_sum *s, struct pace_place *place)
{
	s->total -= cc_min64(s->total, place->target);
	s->flows--;
	place->flow = 0;
	place->target = 0;
}

/*
 * A flow (not 0) sends at `now_ns` with that target; it stays in the sum for `stay_ns`. Returns the sum.
 */
CC_INLINE u64 pace_join(struct pace_sum *s, u64 flow, u64 target, u64 now_ns, u64 stay_ns)
{
	u32 hash = (flow * 0x9e3779b97f4a7c15ull) >> 55;	/* 9 bits: PACE_FLOWS */
	struct pace_place *mine = 0, *place = &s->places[s->hand++ & (PACE_FLOWS - 1)];

	if (place->flow && place->flow != flow && place->until_ns < now_ns)
		pace_leave(s, place);
	for (u32 n = 0; n < PACE_TRIES; n++) {
		place = &s->places[(hash + n) & (PACE_FLOWS - 1)];
		if (place->flow == flow) {
			mine = place;
			break;
		}
		if (place->flow && place->until_ns < now_ns)
			pace_leave(s, place);
		if (!place->flow && !mine)
			mine = place;
	}
	if (!mine)
		return s->total + target;
	if (!mine->flow) {
		mine->flow = flow;
		s->flows++;
	}
	s->total = s->total - cc_min64(s->total, mine->target) + target;
	mine->target = target;
	mine->until_ns = now_ns + stay_ns;
	return s->total;
}

#endif
