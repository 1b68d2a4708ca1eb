/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HighSpeed TCP: RFC 3649 section 5; paper 002 section 3.4.
 *
 *	acknowledged	cwnd += a(cwnd) / cwnd for each segment
 *	loss		ssthresh = (1 - b(cwnd)) cwnd
 *
 * Up to low_window, a = 1 and b = 1/2: Reno. Above it, with logarithms of the window,
 *
 *	b(w) goes in a straight line from 1/2 at low_window to high_decrease at high_window
 *	p(w), the loss rate at which w shall be the average, is a power of w
 *	a(w) = w^2 p(w) 2 b(w) / (2 - b(w))
 *
 * Readings
 * - p(w): RFC 3649 section 5 rounds the line through (38, 1e-3) and (83000, 1e-7) to 0.078 / w^1.2;
 *   paper 002 keeps the line itself. p_power 0 chooses the line. Both are powers of w, so one formula
 *   computes them.
 * - Paper 002 prints a = (2 + w^2 b p) / (2 - b), which misses the target it is derived from
 *   (a(83000) would be 37, not 72); taken as a misprint of the RFC's w^2 p 2b / (2 - b).
 * - a is never below 1 (the rounded p gives 0.95 at 38) nor above w, which would be slow start.
 * - The RFC says nothing of windows above high_window. a goes on by its formula and b stays at
 *   high_decrease: the line would make b negative from 567000 segments on.
 * - Linux has the RFC's table: a is a whole number, the formula's rounded up. `whole` does that. Its
 *   steps come within 0.3 % of the table's windows up to row 70 (79517 segments), except the first,
 *   after 40 segments and not 38, since the rounded p gives 0.95 there. Above high_window, where the
 *   table follows a b that falls on, they come up to 9 % before. b is the line, where Linux has steps.
 * - Limited slow start (RFC 3742, which paper 002 cites) is another algorithm and not here.
 *
 * a(w) is kept until the window has moved by 1/256, which is worth 0.4 % of a.
 * Windows up to 2^31 segments.
 */
#ifndef CC_HIGHSPEED_H
#define CC_HIGHSPEED_H

#include "math.h"

#define cc_highspeed_title "HighSpeed TCP"
#define cc_highspeed_rule "cwnd += a(cwnd) a round trip; on a loss cwnd x (1 - b(cwnd))"
#define cc_highspeed_source "RFC 3649 section 5; paper 002 section 3.4"
#define cc_highspeed_param_list(P) \
	P(low_window, "segments", "largest window that behaves as Reno's") \
	P(high_window, "segments", "window to reach at a loss rate of high_p") \
	P(high_decrease, "1/1000", "share of cwnd lost at high_window and above") \
	P(p_factor, "1/1000", "p(w) = p_factor / w^p_power") \
	P(p_power, "1/1000", "0: p(w) is the line from (low_window, low_p) to (high_window, high_p)") \
	P(low_p, "1e-9", "loss rate at low_window, for that line") \
	P(high_p, "1e-9", "loss rate at high_window, for that line") \
	P(whole, "0 or 1", "a(w) is rounded up to whole segments")
#define cc_highspeed_set_list(S) \
	S(rfc3649, "RFC 3649 section 5, p(w) = 0.078 / w^1.2", .low_window = 38, .high_window = 83000, \
	  .high_decrease = 100, .p_factor = 78, .p_power = 1200, .low_p = 1000000, .high_p = 100) \
	S(paper, "paper 002 section 3.4, log-linear p(w)", .low_window = 38, .high_window = 83000, \
	  .high_decrease = 100, .low_p = 1000000, .high_p = 100) \
	S(linux, "Linux, the table of RFC 3649 appendix B", .low_window = 38, .high_window = 83000, \
	  .high_decrease = 100, .p_factor = 78, .p_power = 1200, .low_p = 1000000, .high_p = 100, \
	  .whole = 1)
CC_PARAMS(highspeed);

struct cc_highspeed {
	u64 credit;	/* see cc_increase */
	u32 a;		/* a(a_window), Q10 segments a round trip */
	u32 a_window;	/* 0: not yet computed */
	/* From the parameters, logarithms to base 2: */
	u32 low_log;	/* of low_window, Q16 */
	u32 b_slope;	/* what b falls by as the window doubles, Q24 */
	u32 p_slope;	/* what log p falls by as the window doubles, Q16 */
	s32 p_log;	/* log p where the window is 1, Q16 */
};

#define cc_highspeed_uses_rtt 0
#define cc_highspeed_uses_event 0

CC_INLINE void cc_highspeed_init(struct cc_highspeed *s, const struct cc_highspeed_params *p,
				 const struct cc_ack *ack, struct cc_decision *d)
{
	u32 high_log = cc_log2(cc_max(p->high_window, p->low_window + 1));
	u32 fall = 500 - cc_min(p->high_decrease, 500), span;

	s->low_log = cc_log2(p->low_window);
	span = cc_max(high_log - s->low_log, 1);
	s->b_slope = ((u64)fall << 40) / 1000 / span;
	if (p->p_power) {
		s->p_slope = ((u64)p->p_power << 16) / 1000;
		s->p_log = cc_log2(p->p_factor) - cc_log2(1000);
	} else {
		u32 low_p = cc_log2(p->low_p), high_p = cc_log2(p->high_p);

		s->p_slope = ((u64)(low_p - cc_min(high_p, low_p)) << 16) / span;
		s->p_log = low_p - cc_log2(1000000000) + ((u64)s->p_slope * s->low_log >> 16);
	}
}

CC_NO_RTT(highspeed)

/* b of a window above low_window, given by its logarithm. Q16. */
CC_INLINE u32 cc_highspeed_b(const struct cc_highspeed *s, const struct cc_highspeed_params *p,
			     u32 log)
{
	u32 fall = (u64)s->b_slope * (log - s->low_log) >> 24;
	u32 most = (500 - cc_min(p->high_decrease, 500)) * 65536 / 1000;

	return 32768 - cc_min(fall, most);
}

/* a of a window above low_window, Q10. */
CC_INLINE u32 cc_highspeed_a(const struct cc_highspeed *s, const struct cc_highspeed_params *p,
			     u32 window)
{
	u32 log = cc_log2(window);
	u64 b = cc_highspeed_b(s, p, log);
	s64 losses = 2 * (s64)log + s->p_log - (s64)((u64)s->p_slope * log >> 16);	/* w^2 p */
	u64 a;

	if (losses <= 0)
		return 1 << 10;
	if (losses > 20 * CC_ONE_Q16)	/* keeps a in 32 bits; beyond any real parameters */
		losses = 20 * CC_ONE_Q16;
	a = (cc_exp2(losses) >> 16) * 2 * b / (2 * CC_ONE_Q16 - b) >> 6;
	if (p->whole)
		a = (a + 1023) >> 10 << 10;
	return cc_min64(cc_max64(a, 1 << 10), (u64)window << 10);
}

CC_INLINE void cc_highspeed_ack(struct cc_highspeed *s, const struct cc_highspeed_params *p,
				const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked, gain = 1 << 10;

	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	if (!acked)
		return;
	if (d->cwnd > p->low_window) {
		u32 moved = cc_max(d->cwnd, s->a_window) - cc_min(d->cwnd, s->a_window);

		if (moved > s->a_window >> 8) {
			s->a = cc_highspeed_a(s, p, d->cwnd);
			s->a_window = d->cwnd;
		}
		gain = s->a;
	}
	cc_increase(&s->credit, d, acked, gain, 10);
}

CC_INLINE void cc_highspeed_loss(struct cc_highspeed *s, const struct cc_highspeed_params *p,
				 const struct cc_ack *ack, struct cc_decision *d)
{
	u32 b = CC_ONE_Q16 / 2;

	if (d->cwnd > p->low_window)
		b = cc_highspeed_b(s, p, cc_log2(d->cwnd));
	s->credit = 0;
	d->ssthresh = cc_max((u64)d->cwnd * (CC_ONE_Q16 - b) >> 16, CC_MIN_CWND);
}

CC_NO_EVENT(highspeed)

CC_ALGORITHM(highspeed);

#endif
