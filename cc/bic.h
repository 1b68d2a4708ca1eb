/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BIC: L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control (BIC) for fast long-distance
 * networks", INFOCOM 2004, section III; paper 002 section 3.1.
 *
 * `max` is the window at which the last loss came. Growth a round trip, in segments:
 *
 *	cwnd <= low_window		1: Reno
 *	below max, far from it		smax: additive increase
 *	below max, nearer		(max - cwnd) / b: binary search, b = 2 halves the gap
 *	close to max			small: smin, or b / smooth_part
 *	above max			from small, or 1, up to smax with the distance from max: probing
 *	loss				max = cwnd, ssthresh = cwnd x beta
 *
 * Fast convergence: a loss below the last max means that another flow wants room, so max becomes
 * cwnd (1 + beta) / 2, half-way between the windows before and after the loss.
 *
 * Readings
 * - Paper 002 says the window "is reduced by a factor beta" and Xu's beta, 0.125, is the share lost;
 *   here beta is the share kept, as in Linux (819 / 1024).
 * - Close to max the references differ. Xu's search goes on down to smin, in fractions of a segment,
 *   and probing takes steps of 1, 2, 4 ... smax, one a round trip, so that the step follows from the
 *   distance from max: smooth_part = 0. Linux flattens the top: b / smooth_part from where a step
 *   would be below 2 segments up to b above max, then (cwnd - max) / (b - 1). smooth_part is 20
 *   there, 5 in ns-3.
 * - Paper 002 prints the steps of probing as Smin, 2 Smin, 4 Smin ... Smax; taken as a slip, since
 *   Xu's pseudo-code (ss_cwnd) starts with a segment.
 * - That pseudo-code forgets max once it probes, so that the next loss always counts as one below
 *   the last max. Fast convergence is meant for a shrinking window, so max is kept here.
 * - Where no max is known (ssthresh came from elsewhere), growth is that far above max, smax. Linux
 *   then takes at least cwnd / 20; Xu's "default max_win" is smax too.
 * - Growth is never above cwnd a round trip, which smax would be in small windows.
 * - A timeout is a loss like others: max stays known. Linux forgets it. After a spurious loss max
 *   is as before; Linux leaves it.
 * - Linux multiplies growth by an estimate of segments for each acknowledgement; segments are
 *   counted here, which needs no estimate. The estimate begins at 2 and comes down to 31/16 only where
 *   each segment has an acknowledgement of its own: growth is then nearly twice the formula's. That is
 *   `gain` of the set ns2.
 *
 * Growth is in Q16: 1/1024 of a segment would be 0.5 % of it at the flat top, where an epoch spends
 * most of its time, and 10 % of smin. Windows up to 2^31 segments.
 */
#ifndef CC_BIC_H
#define CC_BIC_H

#include "math.h"

#define cc_bic_title "BIC"
#define cc_bic_rule "binary search for the window of the last loss; on a loss cwnd x 0.8"
#define cc_bic_source "Xu, Harfoush, Rhee 2004 section III; paper 002 section 3.1"
#define cc_bic_param_list(P) \
	P(smax, "segments", "most growth a round trip") \
	P(smin, "1/1024 segments", "least growth a round trip") \
	P(b, "1", "binary search: share 1/b of the gap a round trip") \
	P(smooth_part, "1", "growth close to max is b / smooth_part; 0: smin") \
	P(low_window, "segments", "largest window that behaves as Reno's") \
	P(beta, "1/1024", "share of cwnd kept on a loss") \
	P(low_beta, "1/1024", "share kept on a loss up to low_window") \
	P(fast_convergence, "0 or 1", "give way when a loss comes below the last max") \
	P(gain, "1/1024", "growth above low_window is multiplied by this, up to 64")
#define cc_bic_set_list(S) \
	S(linux, "Linux 2.6.13 on", .smax = 16, .smin = 0, .b = 4, .smooth_part = 20, \
	  .low_window = 14, .beta = 819, .low_beta = 512, .fast_convergence = 1, \
	  .gain = 1024) \
	S(paper, "Xu et al. 2004: smax 32, smin 0.01, beta 0.125 lost", .smax = 32, .smin = 10, \
	  .b = 2, .smooth_part = 0, .low_window = 14, .beta = 896, .low_beta = 512, .fast_convergence = 1, \
	  .gain = 1024) \
	S(ns3, "ns-3: smooth part 5", .smax = 16, .smin = 0, .b = 4, .smooth_part = 5, \
	  .low_window = 14, .beta = 819, .low_beta = 512, .fast_convergence = 1, \
	  .gain = 1024) \
	S(ns2, "Linux 2.6.22 as in ns-2.35: 31/16 of the growth", .smax = 16, .smin = 0, .b = 4, \
	  .smooth_part = 20, .low_window = 14, .beta = 819, .low_beta = 512, .fast_convergence = 1, \
	  .gain = 1984)
CC_PARAMS(bic);

struct cc_bic {
	u64 credit;	/* see cc_increase */
	u32 max;	/* window of the last loss; 0: none yet */
	u32 undo_max;	/* max before the last loss */
};

#define cc_bic_uses_rtt 0
#define cc_bic_uses_event 1

CC_NO_INIT(bic)
CC_NO_RTT(bic)

/* Growth a round trip with a flattened top, Q16 segments. */
CC_INLINE u64 cc_bic_smooth(const struct cc_bic *s, const struct cc_bic_params *p, u32 cwnd)
{
	u64 step, flat = ((u64)p->b << 16) / p->smooth_part;

	if (cwnd < s->max) {
		step = ((u64)(s->max - cwnd) << 16) / cc_max(p->b, 1);
		return step < 2 << 16 ? flat : step;
	}
	if (cwnd < s->max + p->b)
		return flat;
	return ((u64)(cwnd - s->max) << 16) / (cc_max(p->b, 2) - 1);
}

/* The same without: searching, then probing. Steps of 1, 2, 4 from max lead to max + 1, + 3, + 7. */
CC_INLINE u64 cc_bic_search(const struct cc_bic *s, const struct cc_bic_params *p, u32 cwnd)
{
	u64 earned;

	if (cwnd >= s->max)
		return 1ull << (16 + cc_log2_floor((u64)cwnd - s->max + 1));
	/* Of the next segment. Without it the search would end with 1/b and never come to smin. */
	earned = cc_min64(s->credit / cc_max(cwnd, 1), 1 << 16);
	return (((u64)(s->max - cwnd) << 16) - earned) / cc_max(p->b, 1);
}

CC_INLINE void cc_bic_ack(struct cc_bic *s, const struct cc_bic_params *p,
			  const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked;
	u64 gain = 1 << 16;

	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	if (!acked)
		return;
	if (d->cwnd > p->low_window) {
		gain = p->smooth_part ? cc_bic_smooth(s, p, d->cwnd) : cc_bic_search(s, p, d->cwnd);
		gain = cc_max64(cc_min64(gain, (u64)p->smax << 16), (u64)p->smin << 6);
		gain = cc_min64(gain, (u64)d->cwnd << 16) * cc_min(p->gain, 1 << 16) >> 10;
		gain = cc_min64(gain, (u64)d->cwnd << 16);
	}
	cc_increase(&s->credit, d, acked, gain, 16);
}

CC_INLINE void cc_bic_loss(struct cc_bic *s, const struct cc_bic_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	u32 beta = d->cwnd > p->low_window ? p->beta : p->low_beta;

	s->credit = 0;
	s->undo_max = s->max;
	if (d->cwnd < s->max && p->fast_convergence)
		s->max = (u64)d->cwnd * (1024 + p->beta) >> 11;
	else
		s->max = d->cwnd;
	d->ssthresh = cc_max((u64)d->cwnd * beta >> 10, CC_MIN_CWND);
}

CC_INLINE void cc_bic_event(struct cc_bic *s, const struct cc_bic_params *p,
			    const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	if (event == CC_UNDO)
		s->max = s->undo_max;
}

CC_ALGORITHM(bic);

#endif
