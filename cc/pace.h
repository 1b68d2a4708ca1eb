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
 * for the simulator; netmodel's `pacing` is its Rust face.
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
	u32 factor;	/* 1/1024 of cwnd / RTT */
};

/* What TCP knows when a packet leaves. */
struct pace_flow {
	u32 cwnd;	/* segments */
	u32 ssthresh;	/* segments */
	u32 mss;	/* bytes of payload in a full segment */
	u32 packet;	/* bytes of a full segment on the link */
	u32 srtt_us;	/* smoothed RTT; 0: not known */
	u32 min_rtt_us;	/* smallest RTT; 0: not known */
	u32 recovering;	/* 1: losses are being repaired */
};

#define PACE_US_PER_S 1000000ull
#define PACE_NS_PER_US 1000ull

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
	rate = cc_max64(rate * p->factor >> 10, 1);
	return p->max_rate ? cc_min64(rate, p->max_rate) : rate;
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
