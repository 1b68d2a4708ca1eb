/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FAST TCP: paper 002 section 3.3; Jin, Wei and Low, Infocom 2004; Wei, Jin, Low and Hegde, IEEE/ACM
 * Transactions on Networking 14(6), 2006.
 *
 *	each round trip	cwnd = min(2 cwnd, (1 - g) cwnd + g (cwnd baseRTT / RTT + alpha))
 *	loss		cwnd / 2
 *
 * In equilibrium cwnd (1 - baseRTT / RTT) = alpha: the flow has alpha segments in queues, whatever
 * its rate and its RTT, so flows with equal alpha that know their baseRTT share equally.
 *
 * Readings:
 * - RTT is the average of Infocom 2004, section IV-B: each sample weighs min(3 / cwnd, 1/4), so that it
 *   looks back about a third of a window. An acknowledgement of n segments weighs n samples, 1 at most.
 * - baseRTT is the smallest RTT ever seen of the connection, and never forgotten: an older minimum is
 *   what separates queue from path. So where the path grows longer by d, FAST takes d for a queue and
 *   settles at alpha / d segments/s, until a new connection (the papers name this limit); where it
 *   grows shorter, the first sample mends it. A flow that starts while others have filled the queue
 *   counts theirs as path, keeps alpha on top of it, and so gets more than its share: that is FAST's
 *   and not mended.
 * - The window moves once a round trip, in one step; Infocom 2004 does so every other round trip
 *   because RTT lags the window by one. With g = 1/2 that lag is stable: near equilibrium, where
 *   baseRTT / RTT is nearly 1, the poles of z^2 - z + 1/2 have modulus 0.71.
 * - alpha is a constant, as in paper 002. Infocom 2004's alpha proportional to cwnd while there is no
 *   queueing delay at all is left out: on a real clock and path there is always some. So after a loss
 *   the window grows by g alpha a round trip.
 * - Slow start ends at ssthresh, or when more than `start_queue` segments are queued (the rule of
 *   2006, section II; its threshold isn't given, here it is alpha). Their number is cwnd (1 - baseRTT
 *   / RTT), as above.
 * - Growth needs a window that was full at some time of the round trip.
 * - A loss takes half of the window, as in Reno: over one window of acknowledgements (see
 *   cc_recovery_ack), and it rests until recovery is over.
 * - Burst control (paper 002) is pacing at `pacing` x cwnd / RTT. Not quite at cwnd / RTT, because a
 *   sender held back by its pacing never fills the window; 1.2 is Linux's factor. Slow start needs 2,
 *   or it would not double.
 *
 * Range: cwnd below 2^22 segments, RTT below 2^23 us (8 s).
 */
#ifndef CC_FAST_H
#define CC_FAST_H

#include "rate.h"

#define cc_fast_title "FAST"
#define cc_fast_rule "cwnd = min(2 cwnd, (1-g) cwnd + g (cwnd baseRTT/RTT + alpha)); on a loss x 1/2"
#define cc_fast_source "Jin, Wei, Low 2004; paper 002 section 3.3"
#define cc_fast_param_list(P) \
	P(alpha, "segments", "what the flow keeps in queues") \
	P(gain, "1/1024", "g: share of the way to its goal that the window moves in a round trip") \
	P(beta, "1/1024", "share of cwnd kept on a loss") \
	P(start_queue, "segments", "what it has in queues when slow start ends") \
	P(start_pacing, "1/1024", "pacing rate in slow start, of cwnd / RTT") \
	P(pacing, "1/1024", "pacing rate after it, of cwnd / RTT")
#define cc_fast_set_list(S) \
	S(paper, "paper 002 section 3.3; alpha of ns-2's FAST test", .alpha = 200, .gain = 512, \
	  .beta = 512, .start_queue = 200, .start_pacing = 2048, .pacing = 1229)
CC_PARAMS(fast);

#define CC_FAST_MAX_CWND (1u << 22)
#define CC_FAST_MAX_RTT_US ((1u << 23) - 1)

struct cc_fast {
	u64 rtt_q32;	/* average RTT, us in Q32: a sample weighs as little as 3 / 2^22; 0: none */
	u32 base_us;	/* smallest RTT; 0: none */
	u32 round_end;	/* see cc_round_over */
	u32 fraction;	/* of a segment, Q10, that cwnd lacks */
	u32 limited;	/* the window was full in this round */
	struct cc_recovery recovery;
};

#define cc_fast_kind rate
#define cc_fast_uses_rtt 1
#define cc_fast_uses_event 1

CC_INLINE void cc_fast_base(struct cc_fast *s, u32 rtt_us)
{
	if (rtt_us && (!s->base_us || rtt_us < s->base_us))
		s->base_us = rtt_us;
}

CC_INLINE void cc_fast_pace(struct cc_fast *s, const struct cc_fast_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 rtt_us = s->rtt_q32 ? s->rtt_q32 >> 32 : s->base_us;

	d->pacing_rate = cc_window_rate(d->cwnd, ack->mss, rtt_us,
					cc_in_slow_start(d) ? p->start_pacing : p->pacing);
}

CC_INLINE void cc_fast_init(struct cc_fast *s, const struct cc_fast_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	s->round_end = ack->delivered;
	cc_fast_base(s, cc_min(ack->min_rtt_us, CC_FAST_MAX_RTT_US));
	cc_fast_pace(s, p, ack, d);
}

/* Share n / window, at most 1, of the way to the sample; by parts, which stay below 2^55. */
CC_INLINE void cc_fast_rtt(struct cc_fast *s, const struct cc_fast_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	u32 rtt_us = cc_min(ack->rtt_us, CC_FAST_MAX_RTT_US);
	u64 sample = (u64)rtt_us << 32, way, step;
	u64 window = cc_max(d->cwnd, 12);	/* 3 / 12 is the largest weight of one segment */
	u64 n = cc_min64(3ull * cc_max(ack->acked, 1), window);

	cc_fast_base(s, rtt_us);
	if (!s->rtt_q32) {
		s->rtt_q32 = sample;
		return;
	}
	way = sample > s->rtt_q32 ? sample - s->rtt_q32 : s->rtt_q32 - sample;
	step = way / window * n + way % window * n / window;
	s->rtt_q32 = sample > s->rtt_q32 ? s->rtt_q32 + step : s->rtt_q32 - step;
}

/* Whether more than start_queue of the window's segments are in queues. */
CC_INLINE int cc_fast_queued(const struct cc_fast *s, const struct cc_fast_params *p,
			     const struct cc_decision *d)
{
	u64 rtt = s->rtt_q32 >> 24, base = (u64)s->base_us << 8;	/* Q8 */

	return rtt > base && d->cwnd * (rtt - base) > p->start_queue * rtt;
}

/*
 * The equation, in Q10 segments. cwnd below 2^32 times baseRTT below 2^23 is below 2^55, and has room
 * for the 8 bits by which RTT is finer than baseRTT.
 */
CC_INLINE void cc_fast_update(struct cc_fast *s, const struct cc_fast_params *p,
			      struct cc_decision *d)
{
	u64 cwnd = ((u64)cc_min(d->cwnd, CC_FAST_MAX_CWND - 1) << 10) + s->fraction;
	u64 goal = (cwnd * s->base_us << 8) / (s->rtt_q32 >> 24) + ((u64)p->alpha << 10);
	u32 gain = cc_min(p->gain, 1024);
	u64 next = (cwnd * (1024 - gain) + goal * gain + 512) >> 10;

	next = cc_min64(next, s->limited ? 2 * cwnd : cwnd);
	next = cc_max64(next, CC_MIN_CWND << 10);
	d->cwnd = cc_min64(next >> 10, CC_FAST_MAX_CWND);
	s->fraction = next & 1023;
	d->ssthresh = cc_min(d->ssthresh, d->cwnd);	/* a smaller window is no slow start */
}

CC_INLINE void cc_fast_ack(struct cc_fast *s, const struct cc_fast_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	int round = cc_round_over(&s->round_end, ack);

	if (ack->flags & CC_CWND_LIMITED)
		s->limited = 1;
	if (cc_recovery_ack(&s->recovery, ack, d)) {
		/* the window is set */
	} else if (cc_in_slow_start(d)) {
		if (cc_fast_queued(s, p, d))
			d->ssthresh = d->cwnd;
		else if (ack->flags & CC_CWND_LIMITED)
			cc_slow_start(d, ack->acked);
	} else if (!(ack->flags & CC_RECOVERY) && round && s->rtt_q32) {
		cc_fast_update(s, p, d);
	}
	if (round)
		s->limited = 0;
	cc_fast_pace(s, p, ack, d);
}

CC_INLINE void cc_fast_loss(struct cc_fast *s, const struct cc_fast_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	d->ssthresh = cc_max((u64)d->cwnd * p->beta >> 10, CC_MIN_CWND);
	cc_recovery_begin(&s->recovery, ack, d);
	s->fraction = 0;
}

CC_INLINE void cc_fast_event(struct cc_fast *s, const struct cc_fast_params *p,
			     const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	if (event == CC_TIMEOUT || event == CC_UNDO)
		s->recovery.prior = 0;
}

CC_ALGORITHM(fast);

#endif
