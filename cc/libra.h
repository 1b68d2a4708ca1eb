/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP Libra: paper 002 section 3.6; Marfia, Palazzi, Pau, Gerla, Sanadidi and Roccetti, UCLA CSD
 * TR-050037, 2005. No public implementation is known, so this one is the reference, and every
 * reading of the formulas is given.
 *
 *	acknowledged	cwnd += 1/cwnd alpha T^2 / (T + T0) for each segment
 *	loss		cwnd -= T1 cwnd / (2 (T + T0))
 *	alpha		k1 c e^(-k2 (T - Tmin) / (Tmax - Tmin))
 *
 * Growth and loss balance at cwnd^2 = 2 alpha T^2 / (T1 p), p the loss probability: the rate cwnd / T
 * is sqrt(2 alpha / (T1 p)), the same for every RTT. The factor k1 c makes the time to regain a lost
 * window the same at every capacity; the exponential lets growth fade as the queue fills.
 *
 * Readings:
 * - T, T0 and T1 are in seconds, with T0 = T1 = 1 s and k1 = k2 = 2, which makes T1 / (2 (T + T0))
 *   about 1/2 where T is much less than 1 s: Reno's half, as New Reno compatibility asks, and less of
 *   the window the longer the RTT. T is the latest sample, not an average.
 * - c is in Mb/s (set paper). At 1 Gb/s and 100 ms the growth is then 18.2 segments a round trip in an
 *   empty queue and 2.5 in a full one, of a window of 8600; at 100 Mb/s and 100 ms 1.8 and 0.25, about
 *   New Reno's 1; at 10 ms 0.02. Regaining half a window takes some 25 s at 100 ms, at every
 *   capacity, which fits paper 002, where Libra scales worst of seven.
 *   In segments/s (set segments), which is what the formula's dimensions ask for, it would be 83 times
 *   as much: 18 % of the window a round trip at every capacity. That is as quick as the quickest of
 *   the seven, which the paper didn't see.
 * - Libra estimates c by packet pairs as the session starts. Segments that are paced, offloaded and
 *   acknowledged together make no pairs, so here c is the largest delivery rate so far (one that the
 *   application held back counts if it is larger still: it was delivered), and cwnd / T before there
 *   is one. Of a flow that never had the path alone that is only a share, so it grows more slowly:
 *   rates are equal for every RTT, and shares converge, only among flows that know the same c. Where
 *   it is known, give it as the parameter `capacity`.
 * - Tmin and Tmax are of the whole connection; while they are equal no queue is known and the
 *   exponential is 1. After a route change they keep the old path's extremes. Where there is no queue
 *   but jitter, the formula takes the jitter for a queue.
 * - A round trip never grows the window by more than itself: with small windows, long RTTs and c in
 *   segments/s the formula would outrun slow start.
 * - Random pacing sends packets at random moments of a round trip. An algorithm here has only a rate,
 *   so at each acknowledgement it is varied evenly within +- jitter around 1.2 cwnd / T (see fast.h;
 *   2 cwnd / T in slow start), by a generator whose start is the clock's: it replays with it.
 * - Slow start is Reno's. At a loss the window comes down over one window of acknowledgements (see
 *   cc_recovery_ack), and rests until recovery is over.
 *
 * Range: T below 2^23 us (8 s), alpha below 2^25 segments/s (100 Gb/s), t1 below 2^20 ms, windows below 2^22.
 */
#ifndef CC_LIBRA_H
#define CC_LIBRA_H

#include "math.h"
#include "rate.h"

#define cc_libra_title "Libra"
#define cc_libra_rule \
	"cwnd += alpha T^2/(T+T0) a round trip, alpha = k1 c e^(-k2 queue share); " \
	"on a loss -= cwnd T1/(2(T+T0))"
#define cc_libra_source "Marfia and others, UCLA TR-050037, 2005; paper 002 section 3.6"
#define cc_libra_param_list(P) \
	P(k1, "1/1024", "growth for a unit of capacity") \
	P(k2, "1/1024", "how much growth fades as the queue fills, as exponent") \
	P(t0, "ms", "RTT up to which rates are equal") \
	P(t1, "ms", "cut on a loss, for 2 (T + T0)") \
	P(capacity, "kB/s", "of the bottleneck; 0: estimated") \
	P(unit, "bytes/s", "of capacity in alpha; 0: a segment a second") \
	P(pacing, "1/1024", "pacing rate after slow start, of cwnd / RTT") \
	P(jitter, "1/1024", "how far the pacing rate strays at random")
#define cc_libra_set_list(S) \
	S(paper, "paper 002 section 3.6, TR-050037; capacity in Mb/s", .k1 = 2048, .k2 = 2048, \
	  .t0 = 1000, .t1 = 1000, .capacity = 0, .unit = 125000, .pacing = 1229, .jitter = 256) \
	S(segments, "the same with the capacity in segments/s", .k1 = 2048, .k2 = 2048, \
	  .t0 = 1000, .t1 = 1000, .capacity = 0, .unit = 0, .pacing = 1229, .jitter = 256)
CC_PARAMS(libra);

#define CC_LIBRA_MAX_RTT_US ((1u << 23) - 1)
#define CC_LIBRA_MAX_ALPHA ((1ull << 35) - 1)	/* Q10 */
#define CC_LIBRA_MAX_GROWTH (1u << 21)	/* segments a round trip: times a window's segments < 2^63 */
#define CC_LIBRA_START_PACING 2048	/* 1/1024 */

struct cc_libra {
	u64 credit;	/* see cc_increase */
	u64 best_rate;	/* bytes/s, largest delivery rate; 0: none yet */
	u64 capacity;	/* k1 c, Q10 times 2^20 / 10^6, so that >> 20 turns us into seconds */
	u32 rtt_us;	/* the latest sample; 0: none */
	u32 min_us, max_us;
	u32 random;
	struct cc_recovery recovery;
};

#define cc_libra_kind rate
#define cc_libra_uses_rtt 1
#define cc_libra_uses_event 1

/*
 * k1 c of a rate, where 2^30 / 10^6 = 2^24 / 15625. Rate below 2^40 shifted by 20 is below 2^60, c cut
 * at 2^40 times k1 below 2^63 for k1 below 2^23.
 */
CC_INLINE u64 cc_libra_capacity(const struct cc_libra_params *p, u64 rate, u32 mss)
{
	u64 c = ((cc_min64(rate, CC_MAX_RATE) << 20) / 15625 << 4) / cc_max(p->unit ? p->unit : mss, 1);

	return cc_min64(cc_min64(c, 1ull << 40) * p->k1 >> 10, CC_LIBRA_MAX_ALPHA);
}

/* alpha as capacity is scaled. k2 below 2^32 times the queue's delay below 2^23, in Q6, is below 2^61. */
CC_INLINE u64 cc_libra_alpha(const struct cc_libra *s, const struct cc_libra_params *p,
			     const struct cc_ack *ack, const struct cc_decision *d)
{
	u64 capacity = s->capacity, exponent;

	if (!capacity) {
		u64 rate = cc_window_rate(d->cwnd, ack->mss, s->rtt_us, 1024);

		capacity = cc_libra_capacity(p, rate, ack->mss);
	}
	if (s->max_us == s->min_us)
		return capacity;
	exponent = ((u64)p->k2 * (s->rtt_us - s->min_us) << 6) / (s->max_us - s->min_us);
	return capacity * (cc_exp_neg(cc_min64(exponent, 0xffffffff)) >> 16) >> 16;
}

/*
 * alpha T^2 / (T + T0) in segments, Q20. alpha below 2^35 times T below 2^23 in Q5 is below 2^63; divided
 * by T + T0 it is below 2^40, times T again below 2^63.
 */
CC_INLINE u64 cc_libra_growth(const struct cc_libra *s, const struct cc_libra_params *p,
			      const struct cc_ack *ack, const struct cc_decision *d)
{
	u64 share = (cc_libra_alpha(s, p, ack, d) * s->rtt_us << 5) /
		    cc_max64(s->rtt_us + p->t0 * CC_US_PER_MS, 1);

	return cc_min64(share * s->rtt_us >> 15, (u64)cc_min(d->cwnd, CC_LIBRA_MAX_GROWTH) << 20);
}

/* The generator is the linear congruential one of Numerical Recipes; its upper bits are the good ones. */
CC_INLINE void cc_libra_pace(struct cc_libra *s, const struct cc_libra_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	u32 gain = cc_in_slow_start(d) ? CC_LIBRA_START_PACING : p->pacing;
	u32 jitter = cc_min(p->jitter, 1023), stray;

	s->random = s->random * 1664525 + 1013904223;
	stray = 1024 - jitter + (u32)((u64)(2 * jitter + 1) * s->random >> 32);
	d->pacing_rate = cc_window_rate(d->cwnd, ack->mss, s->rtt_us, gain * stray >> 10);
}

CC_INLINE void cc_libra_sample(struct cc_libra *s, u32 rtt_us)
{
	if (!rtt_us)
		return;
	s->rtt_us = cc_min(rtt_us, CC_LIBRA_MAX_RTT_US);
	s->min_us = s->min_us ? cc_min(s->min_us, s->rtt_us) : s->rtt_us;
	s->max_us = cc_max(s->max_us, s->rtt_us);
}

CC_INLINE void cc_libra_init(struct cc_libra *s, const struct cc_libra_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	s->random = (u32)ack->now_us;
	if (p->capacity)
		s->capacity = cc_libra_capacity(p, p->capacity * 1000ull, ack->mss);
	cc_libra_sample(s, ack->min_rtt_us);
	cc_libra_pace(s, p, ack, d);
}

CC_INLINE void cc_libra_rtt(struct cc_libra *s, const struct cc_libra_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	cc_libra_sample(s, ack->rtt_us);
}

CC_INLINE void cc_libra_ack(struct cc_libra *s, const struct cc_libra_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked;

	if (!p->capacity && ack->delivery_rate > s->best_rate) {
		s->best_rate = ack->delivery_rate;
		s->capacity = cc_libra_capacity(p, s->best_rate, ack->mss);
	}
	if (!cc_recovery_ack(&s->recovery, ack, d) && ack->flags & CC_CWND_LIMITED) {
		if (cc_in_slow_start(d))
			acked = cc_slow_start(d, acked);
		if (!(ack->flags & CC_RECOVERY))
			cc_increase(&s->credit, d, acked, cc_libra_growth(s, p, ack, d), 20);
	}
	cc_libra_pace(s, p, ack, d);
}

CC_INLINE void cc_libra_loss(struct cc_libra *s, const struct cc_libra_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	u64 cut = (u64)d->cwnd * (p->t1 * CC_US_PER_MS) /
		  cc_max64(2 * (s->rtt_us + p->t0 * CC_US_PER_MS), 1);

	s->credit = 0;
	d->ssthresh = cc_max(cut < d->cwnd ? d->cwnd - cut : 0, CC_MIN_CWND);
	cc_recovery_begin(&s->recovery, ack, d);
}

CC_INLINE void cc_libra_event(struct cc_libra *s, const struct cc_libra_params *p,
			      const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	if (event == CC_TIMEOUT || event == CC_UNDO)
		s->recovery.prior = 0;
}

CC_ALGORITHM(libra);

#endif
