/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * H-TCP: D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004;
 * draft-leith-tcp-htcp-06; paper 002 section 3.5.
 *
 * D is the time since the last congestion, in seconds.
 *
 *	acknowledged	cwnd += alpha / cwnd for each segment
 *			alpha = 2 (1 - beta)				D <= 1
 *			alpha = 2 (1 - beta) (1 + 10 (D-1) + 0.25 (D-1)^2)	D > 1
 *	loss		beta = 0.5 where throughput moved by more than 20 % since the last loss,
 *			else RTTmin / RTTmax, in [0.5, 0.8]
 *			ssthresh = cwnd x beta
 *
 * Readings
 * - The quadratic term is 0.25 in the paper, Linux and ns-3's code, 0.5 in ns-3's manual.
 * - alpha is never below 1 segment (alpha_min): D <= 1 stands for standard TCP, whose growth is 1;
 *   with beta at 0.8 the formula, and Linux, would have 0.4. Nor is it above cwnd a round trip.
 * - D counts from the loss, as the paper says, where Linux counts from the end of recovery. Idle time
 *   and time in which the application left the window unused don't count: alpha at a D of minutes
 *   would double the window at the first acknowledgement of a new transfer.
 * - RTTmin is of the connection's life; RTTmax of the samples outside of recovery, and with rtt_fade
 *   its distance from RTTmin shrinks by 5 % at each loss, so that a change of route is forgotten
 *   (Linux). Linux takes smoothed RTTs, and wants RTTmin above 10 ms since its clock was that
 *   coarse; here they are the samples themselves.
 * - Throughput is that of the fastest round trip since the last loss, smoothed (1/4 new), recovery
 *   left out. Where it isn't known on both sides (the first loss, or one right after another), beta
 *   is 0.5. Linux keeps to 0.5 at one loss more after each move.
 * - rtt_scaling multiplies growth after the first second by RTTmin / 100 ms, in [0.1, 2], so that
 *   flows of different RTT grow alike a second (Linux's default; the draft has it as an option).
 *
 * D counts up to 2^36 us (19 hours) and stands still from there. Windows up to 2^31 segments.
 */
#ifndef CC_HTCP_H
#define CC_HTCP_H

#include "math.h"

#define cc_htcp_title "H-TCP"
#define cc_htcp_rule "growth by the time since the last loss; on a loss cwnd x RTTmin/RTTmax"
#define cc_htcp_source "Leith, Shorten 2004; draft-leith-tcp-htcp-06; paper 002 section 3.5"
#define cc_htcp_param_list(P) \
	P(quadratic, "1/1024 segments/s^2", "the quadratic term of growth") \
	P(linear, "1/1024 segments/s", "the linear term of growth") \
	P(delta_l, "us", "time after a loss in which growth is Reno's") \
	P(alpha_min, "1/1024 segments", "least growth a round trip") \
	P(beta_min, "1/1024", "least share of cwnd kept on a loss") \
	P(beta_max, "1/1024", "largest share of cwnd kept on a loss") \
	P(adaptive_backoff, "0 or 1", "that share is RTTmin/RTTmax; 0: always beta_min") \
	P(bandwidth_switch, "1/1024", "change of throughput that makes it beta_min; 0: none does") \
	P(rtt_scaling, "0 or 1", "growth is in proportion to RTTmin") \
	P(rtt_fade, "1/1024", "share of RTTmax - RTTmin that is kept at each loss")
#define cc_htcp_set_list(S) \
	S(linux, "Linux 2.6.13 on", .quadratic = 256, .linear = 10240, .delta_l = 1000000, \
	  .alpha_min = 1024, .beta_min = 512, .beta_max = 819, .adaptive_backoff = 1, \
	  .bandwidth_switch = 205, .rtt_scaling = 1, .rtt_fade = 973) \
	S(paper, "paper 002 section 3.5", .quadratic = 256, .linear = 10240, .delta_l = 1000000, \
	  .alpha_min = 1024, .beta_min = 512, .beta_max = 819, .adaptive_backoff = 1, \
	  .bandwidth_switch = 205, .rtt_scaling = 0, .rtt_fade = 1024) \
	S(ns3-manual, "ns-3's manual: 0.5 (D-1)^2", .quadratic = 512, .linear = 10240, \
	  .delta_l = 1000000, .alpha_min = 1024, .beta_min = 512, .beta_max = 819, \
	  .adaptive_backoff = 1, .bandwidth_switch = 205, .rtt_scaling = 0, .rtt_fade = 1024) \
	S(ns2, "Linux 2.6.22 as in ns-2.35: growth may be below 1", .quadratic = 256, .linear = 10240, \
	  .delta_l = 1000000, .alpha_min = 0, .beta_min = 512, .beta_max = 819, \
	  .adaptive_backoff = 1, .bandwidth_switch = 205, .rtt_scaling = 1, .rtt_fade = 973)
CC_PARAMS(htcp);

/* What a spurious loss takes back. */
struct cc_htcp_epoch {
	u64 start_us;	/* the last loss; moves with idle time */
	u64 rate;	/* most throughput since the last loss, Q10 segments/s; 0: not known */
	u64 old_rate;	/* the same, of the epoch before */
	u32 beta;	/* 1/1024 */
	u32 rtt_max;	/* us */
};

struct cc_htcp {
	u64 credit;	/* see cc_increase */
	u64 last_us;	/* the last acknowledgement that could change the window */
	u64 round_us;	/* throughput: the round trip being measured began; 0: none is */
	u64 smooth_rate;	/* Q10 segments/s; 0: not known */
	struct cc_htcp_epoch now, undo;
	u32 rtt_min;	/* us; 0: not known */
	u32 round_delivered;	/* cc_ack.delivered at round_us */
};

#define cc_htcp_uses_rtt 1
#define cc_htcp_uses_event 1

CC_INLINE void cc_htcp_init(struct cc_htcp *s, const struct cc_htcp_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	s->now.start_us = ack->now_us;
	s->now.beta = p->beta_min;
	s->last_us = ack->now_us;
}

/*
 * Throughput round trip by round trip. Starts anew after recovery, whose rate is not the path's.
 * 2^32 segments times 2^30 is below 2^63; the rate is cut at 2^42, which is 2^32 segments/s.
 */
CC_INLINE void cc_htcp_measure(struct cc_htcp *s, const struct cc_ack *ack)
{
	u64 elapsed = ack->now_us - s->round_us;

	if (s->round_us && !(ack->flags & CC_RECOVERY)) {
		u64 rate;

		if (elapsed < ack->rtt_us)
			return;
		rate = (u64)(ack->delivered - s->round_delivered) * (1000000 << 10) /
		       cc_max64(elapsed, 1);
		rate = cc_min64(rate, 1ull << 42);
		if (s->smooth_rate)
			rate = (3 * s->smooth_rate + rate) >> 2;
		s->smooth_rate = rate;
		s->now.rate = cc_max64(s->now.rate, rate);
	}
	s->round_us = ack->now_us;
	s->round_delivered = ack->delivered;
}

CC_INLINE void cc_htcp_rtt(struct cc_htcp *s, const struct cc_htcp_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	if (!s->rtt_min || ack->rtt_us < s->rtt_min)
		s->rtt_min = ack->rtt_us;
	if (!(ack->flags & CC_RECOVERY))
		s->now.rtt_max = cc_max(s->now.rtt_max, ack->rtt_us);
	cc_htcp_measure(s, ack);
}

/* Growth a round trip in Q10 segments, before its bound by the window. */
CC_INLINE u64 cc_htcp_alpha(const struct cc_htcp *s, const struct cc_htcp_params *p, u64 now_us)
{
	u64 since = now_us - s->now.start_us, alpha = 1 << 10;

	if (since > p->delta_l) {
		u64 t = cc_seconds(cc_min64(since - p->delta_l, 1ull << 36));	/* below 2^27 */

		alpha += (t * p->linear >> 10) + ((t * t >> 10) * p->quadratic >> 10);
		if (p->rtt_scaling)	/* RTTmin / 100 ms in Q10 */
			alpha = alpha * cc_clamp((u64)s->rtt_min * 671 >> 16, 102, 2048) >> 10;
	}
	return cc_max64(alpha * 2 * (1024 - cc_min(s->now.beta, 1024)) >> 10, p->alpha_min);
}

CC_INLINE void cc_htcp_ack(struct cc_htcp *s, const struct cc_htcp_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked;
	u64 alpha;

	if (!(ack->flags & CC_CWND_LIMITED))
		s->now.start_us += ack->now_us - s->last_us;
	s->last_us = ack->now_us;
	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	if (!acked)
		return;
	alpha = cc_min64(cc_htcp_alpha(s, p, ack->now_us), (u64)d->cwnd << 10);
	cc_increase(&s->credit, d, acked, alpha, 10);
}

/* Whether throughput moved since the last loss, or isn't known. */
CC_INLINE int cc_htcp_moved(const struct cc_htcp *s, const struct cc_htcp_params *p)
{
	u64 rate = s->now.rate, old = s->now.old_rate;
	u64 bound = old * cc_min(p->bandwidth_switch, 1 << 20) >> 10;

	if (!p->bandwidth_switch)
		return 0;
	return !rate || !old || cc_max64(rate, old) - cc_min64(rate, old) > bound;
}

CC_INLINE void cc_htcp_loss(struct cc_htcp *s, const struct cc_htcp_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 beta = p->beta_min, queueing;

	s->undo = s->now;
	if (p->adaptive_backoff && s->now.rtt_max && !cc_htcp_moved(s, p))
		beta = cc_clamp(((u64)s->rtt_min << 10) / s->now.rtt_max, p->beta_min, p->beta_max);
	queueing = cc_max(s->now.rtt_max, s->rtt_min) - s->rtt_min;
	s->now.rtt_max = s->rtt_min + ((u64)queueing * cc_min(p->rtt_fade, 1024) >> 10);
	s->now.beta = beta;
	s->now.start_us = ack->now_us;
	if (s->now.rate)
		s->now.old_rate = s->now.rate;
	s->now.rate = 0;
	s->smooth_rate = 0;
	s->round_us = 0;
	s->last_us = ack->now_us;
	s->credit = 0;
	d->ssthresh = cc_max((u64)d->cwnd * beta >> 10, CC_MIN_CWND);
}

CC_INLINE void cc_htcp_event(struct cc_htcp *s, const struct cc_htcp_params *p,
			     const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	if (event == CC_UNDO)
		s->now = s->undo;
	if (event == CC_RESTART) {
		s->now.start_us += ack->now_us - s->last_us;
		s->last_us = ack->now_us;
		s->round_us = 0;
	}
}

CC_ALGORITHM(htcp);

#endif
