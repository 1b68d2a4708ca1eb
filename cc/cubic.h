/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CUBIC: RFC 9438; I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", PFLDnet
 * 2005; paper 002 section 3.2. HyStart: S. Ha, I. Rhee, "Taming the elephants: new TCP slow start",
 * Computer Networks 55(9), 2011.
 *
 * t counts from the start of congestion avoidance (the epoch), W_max is the window of the last
 * loss.
 *
 *	W_cubic(t) = C (t - K)^3 + W_max,  K = cbrt((W_max - cwnd at the start) / C)
 *	acknowledged	W_est += alpha / cwnd for each segment: what Reno would have
 *			if W_cubic(t) < W_est	cwnd = W_est
 *			else	cwnd += (target - cwnd) / cwnd for each segment,
 *				target = W_cubic(t + RTT) in [cwnd, 1.5 cwnd]
 *	loss		ssthresh = cwnd x beta, W_max = cwnd, or with fast convergence
 *			cwnd (1 + beta) / 2 where that is less than the last W_max
 *	timeout		W_max forgotten: the next epoch starts with K = 0 (RFC 9438 section 4.8)
 *
 * Before the first loss, and after a timeout, W_max is unknown and W_cubic starts flat. Linux then
 * grows by at least one segment for 20 acknowledged, 5 % a round trip.
 *
 * HyStart ends slow start before a loss does: when acknowledgements less than 2 ms apart have come
 * for half of the smallest RTT, or when a round's smallest RTT is 1/8 above the smallest of all.
 *
 * Readings
 * - beta is the share kept everywhere. Paper 002 writes it both ways: K = cbrt(W_max beta / C) is
 *   right with the share lost, which is what (W_max - cwnd) / C says without fast convergence.
 * - alpha is 3 (1 - beta) / (1 + beta) until W_est reaches the window of the last loss (or at which
 *   HyStart ended slow start), then 1 (RFC 9438 section 4.3). Linux stays at the former: with
 *   reno_friendly 2, and with first_count, which is Linux's too, while W_max is unknown.
 * - cwnd follows W_est by at most half a segment for each one acknowledged (RFC: it is set), so
 *   that a window cut after an idle time doesn't come back in one burst.
 * - reno_friendly 2: Linux starts W_est at the whole window that a loss left, and grows by what is
 *   more, W_cubic's growth or what cwnd is behind W_est, in each round trip: so cwnd is behind it
 *   by alpha. Where losses come at random, both this and alpha count: at 0.1 % and 10 ms Linux is
 *   13 % slower than RFC 9438. Linux looks at W_est anew when cwnd has changed or 31 ms have
 *   passed, and in whole segments; here at each acknowledgement, and in parts of one.
 * - RTT in t + RTT is smoothed (section 4.2) by 1/8.
 * - t excludes idle times and times in which the application left the window unused (section 4.2):
 *   the start of the epoch moves with them.
 * - W_max below cwnd at the start of an epoch: K = 0 and W_max = cwnd, as RFC and Linux have it.
 * - A spurious loss takes back the whole epoch with its start (section 4.9.1), and whether W_max
 *   was known, not W_max only.
 * - paper: Smax, the limit of growth in segments a second (paper 002 section 3.2), is 160: 16 in
 *   100 ms, in the first Linux version. It bounds cubic growth, not W_est.
 * - HyStart looks at no sample of a recovery, where cwnd below ssthresh isn't slow start. Linux
 *   adds the time of one offloaded burst, at most 1 ms, to the length of the train; here it isn't
 *   known.
 *
 * Time counts in 1024 us, an epoch up to 2^31 us x 1024 (25 days). W_max - cwnd counts up to 2^23
 * segments and t - K up to 2048 s; beyond, growth is as at those bounds. Windows up to 2^31
 * segments.
 */
#ifndef CC_CUBIC_H
#define CC_CUBIC_H

#include "math.h"

#define cc_cubic_title "CUBIC"
#define cc_cubic_rule "cwnd = C (t - K)^3 + W_max, at least Reno's; on a loss cwnd x 0.7"
#define cc_cubic_source "RFC 9438; Rhee, Xu 2005; Ha, Rhee 2011; paper 002 section 3.2"
#define cc_cubic_param_list(P) \
	P(c, "1/1024 segments/s^3", "C, how steep growth is") \
	P(beta, "1/1024", "share of cwnd kept on a loss") \
	P(fast_convergence, "0 or 1", "give way when a loss comes below the last W_max") \
	P(reno_friendly, "0, 1 or 2", "at least as fast as Reno: 1 as RFC 9438 has it, 2 as Linux") \
	P(smax, "segments/s", "most growth a second; 0: no limit") \
	P(first_count, "segments", \
	  "acknowledged for one of growth at most, while W_max is unknown; 0: no such growth") \
	P(hystart, "bits", "how slow start ends: 1 train of acknowledgements, 2 delay, 3 both") \
	P(hystart_low_window, "segments", "HyStart looks from this window on") \
	P(hystart_spacing, "us", "acknowledgements at most so far apart are a train")
#define cc_cubic_set_list(S) \
	S(linux, "RFC 9438, Linux's HyStart and growth before the first loss", .c = 410, \
	  .beta = 717, .fast_convergence = 1, .reno_friendly = 2, .smax = 0, .first_count = 20, \
	  .hystart = 3, .hystart_low_window = 16, .hystart_spacing = 2000) \
	S(rfc9438, "RFC 9438, standard slow start", .c = 410, .beta = 717, .fast_convergence = 1, \
	  .reno_friendly = 1, .smax = 0, .first_count = 0, .hystart = 0, .hystart_low_window = 16, \
	  .hystart_spacing = 2000) \
	S(paper, "Rhee, Xu 2005: beta 0.8, Smax 160/s", .c = 410, .beta = 819, \
	  .fast_convergence = 1, .reno_friendly = 1, .smax = 160, .first_count = 0, .hystart = 0, \
	  .hystart_low_window = 16, .hystart_spacing = 2000) \
	S(ns2, "Linux 2.6.22 as in ns-2.35: Smax 160/s x 31/16", .c = 410, .beta = 819, \
	  .fast_convergence = 1, .reno_friendly = 1, .smax = 310, .first_count = 26, .hystart = 0, \
	  .hystart_low_window = 16, .hystart_spacing = 2000)
CC_PARAMS(cubic);

/* reno_friendly */
#define CC_CUBIC_RFC 1u
#define CC_CUBIC_LINUX 2u

#define CC_CUBIC_TRAIN 1u
#define CC_CUBIC_DELAY 2u

/* HyStart: RTT samples of a round, and bounds of the increase in delay, us. */
#define CC_CUBIC_SAMPLES 8
#define CC_CUBIC_DELAY_MIN_US 4000
#define CC_CUBIC_DELAY_MAX_US 16000

/* Congestion avoidance between two losses; what a spurious loss takes back. */
struct cc_cubic_epoch {
	u64 est;	/* W_est, Q32 segments */
	u32 start;	/* 1024 us; moves with idle time; 0: not yet begun */
	u32 max;	/* W_max; 0: neither a loss nor the start has set it */
	u32 k : 31;	/* K, Q10 s, at most 2^21 */
	u32 known : 1;	/* max is of a loss; else of the start */
	u32 prior;	/* cwnd before the last loss or at HyStart's end */
};

struct cc_cubic {
	struct cc_cubic_epoch now, undo;
	u32 credit;	/* growth that is not yet a whole segment, Q32 */
	u32 alpha;	/* 3 (1 - beta) / (1 + beta), Q10 */
	u32 last;	/* the last acknowledgement that could change the window, 1024 us */
	u32 srtt;	/* us << 3; 0: not known */
	u32 rtt_min;	/* us; 0: not known */
	/* HyStart's round, a window of data: */
	u32 round_end;	/* ends when cc_ack.delivered passes this */
	u32 round_us;	/* its first acknowledgement */
	u32 train_us;	/* the last acknowledgement of its train */
	u32 round_rtt;	/* its smallest RTT, us */
	u32 samples;	/* RTT samples it had, up to CC_CUBIC_SAMPLES */
	u32 found;	/* slow start was ended */
};

#define cc_cubic_uses_rtt 1
#define cc_cubic_uses_event 1

CC_INLINE void cc_cubic_round(struct cc_cubic *s, const struct cc_ack *ack)
{
	s->round_end = ack->delivered + ack->in_flight;
	s->round_us = ack->now_us;
	s->train_us = ack->now_us;
	s->round_rtt = 0xffffffff;
	s->samples = 0;
}

CC_INLINE void cc_cubic_init(struct cc_cubic *s, const struct cc_cubic_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	u32 beta = cc_min(p->beta, 1024);

	s->alpha = (3 * (1024 - beta) << 10) / (1024 + beta);
	cc_cubic_round(s, ack);
}

/* Whether this acknowledgement stretches the train beyond what the path can hold unqueued. */
CC_INLINE int cc_cubic_train(struct cc_cubic *s, const struct cc_cubic_params *p,
			     const struct cc_ack *ack)
{
	u32 now_us = ack->now_us, bound = s->rtt_min;

	if (now_us - s->train_us > p->hystart_spacing)
		return 0;
	s->train_us = now_us;
	if (!(ack->flags & CC_PACED))	/* pacing alone spreads a window over half an RTT */
		bound >>= 1;
	return now_us - s->round_us > bound;
}

/* Whether the round's RTT shows a queue. */
CC_INLINE int cc_cubic_delay(struct cc_cubic *s, const struct cc_ack *ack)
{
	s->round_rtt = cc_min(s->round_rtt, ack->rtt_us);
	if (s->samples < CC_CUBIC_SAMPLES) {
		s->samples++;
		return 0;
	}
	return s->round_rtt > s->rtt_min + cc_clamp(s->rtt_min >> 3, CC_CUBIC_DELAY_MIN_US,
						    CC_CUBIC_DELAY_MAX_US);
}

CC_INLINE void cc_cubic_hystart(struct cc_cubic *s, const struct cc_cubic_params *p,
				const struct cc_ack *ack, struct cc_decision *d)
{
	if (cc_before(s->round_end, ack->delivered))
		cc_cubic_round(s, ack);
	if (d->cwnd < p->hystart_low_window)
		return;
	if (p->hystart & CC_CUBIC_TRAIN && cc_cubic_train(s, p, ack))
		s->found = 1;
	if (p->hystart & CC_CUBIC_DELAY && cc_cubic_delay(s, ack))
		s->found = 1;
	if (s->found) {
		d->ssthresh = d->cwnd;
		s->now.prior = d->cwnd;
	}
}

CC_INLINE void cc_cubic_rtt(struct cc_cubic *s, const struct cc_cubic_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	s->srtt = s->srtt ? s->srtt - (s->srtt >> 3) + ack->rtt_us : ack->rtt_us << 3;
	if (!s->rtt_min || ack->rtt_us < s->rtt_min)
		s->rtt_min = ack->rtt_us;
	if (p->hystart && !s->found && cc_in_slow_start(d) && !(ack->flags & CC_RECOVERY))
		cc_cubic_hystart(s, p, ack, d);
}

CC_INLINE void cc_cubic_begin(struct cc_cubic *s, const struct cc_cubic_params *p, u32 cwnd,
			      u32 now)
{
	u64 left = (u64)s->now.prior * p->beta;	/* by the last loss, Q10 */

	s->now.start = cc_max(now, 1);
	s->now.est = (u64)cwnd << 32;
	/* Unrounded: in a window of 10 the half segment lost in whole ones is 5 % of the rate. */
	if (p->reno_friendly == CC_CUBIC_RFC && left >> 10 == cwnd)
		s->now.est = left << 22;
	s->now.k = 0;
	if (s->now.max > cwnd) {	/* K^3 in Q30 s^3: 2^30 x 2^10 for the scale of C */
		u64 gap = cc_min(s->now.max - cwnd, 1 << 23);

		s->now.k = cc_cbrt((gap << 40) / cc_max(p->c, 1));
	} else {
		s->now.max = cwnd;
	}
}

/* W_cubic at t, Q10 s: Q10 segments. */
CC_INLINE u64 cc_cubic_window(const struct cc_cubic *s, const struct cc_cubic_params *p, u64 t)
{
	u64 k = s->now.k, max = (u64)s->now.max << 10;
	u64 x = cc_min64(t < k ? k - t : t - k, 1 << 21);
	u64 off = ((x * x >> 10) * x >> 10) * p->c >> 10;	/* C below 2^20 */

	if (t >= k)
		return max + off;
	return max - cc_min64(max, off);
}

/* Growth a round trip towards W_cubic(t + RTT), Q10 segments. */
CC_INLINE u64 cc_cubic_growth(const struct cc_cubic *s, const struct cc_cubic_params *p, u64 t,
			      u32 cwnd)
{
	u32 srtt_us = s->srtt >> 3;
	u64 target = cc_cubic_window(s, p, t + cc_seconds(srtt_us));
	u64 at = (u64)cwnd << 10, growth = cc_min64(target - cc_min64(target, at), at >> 1);

	if (p->smax)	/* smax x RTT, with more bits than cc_seconds gives a short one */
		growth = cc_min64(growth, (u64)cc_min(p->smax, 1 << 16) * srtt_us * 68719 >> 26);
	return growth;
}

/* What cwnd and the credit are behind W_est, at most half a window, Q10 segments. */
CC_INLINE u64 cc_cubic_behind(const struct cc_cubic *s, u32 cwnd)
{
	u64 at = ((u64)cwnd << 32) + s->credit;

	return cc_min64((s->now.est - cc_min64(s->now.est, at)) >> 22, (u64)cwnd << 9);
}

/*
 * Least growth a round trip while no loss has told W_max, Q10 segments: cwnd / first_count, and
 * that of W_est before it has caught up.
 */
CC_INLINE u64 cc_cubic_least(const struct cc_cubic *s, const struct cc_cubic_params *p, u32 cwnd)
{
	u64 least = ((u64)cwnd << 10) / cc_max(p->first_count, 1);

	return p->reno_friendly ? cc_max64(least, s->alpha) : least;
}

/*
 * Growth by `growth` segments, Q10, for each window acknowledged; at most a window or 3, so shifted
 * it is at most 2^63. The credit is a part of a segment: counted in acknowledged segments, as
 * cc_increase does, it would change its worth whenever the window or the growth multiply within a
 * few round trips, as they do while W_max is unknown.
 */
CC_INLINE void cc_cubic_grow(struct cc_cubic *s, struct cc_decision *d, u32 acked, u64 growth)
{
	u64 credit = s->credit + (growth << 22) / cc_max(d->cwnd, 1) * acked;

	s->credit = credit;
	d->cwnd += credit >> 32;
}

CC_INLINE void cc_cubic_ack(struct cc_cubic *s, const struct cc_cubic_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	u32 now = ack->now_us >> 10, acked = ack->acked, alpha = s->alpha;
	u64 t, growth;

	if (!(ack->flags & CC_CWND_LIMITED) && s->now.start)
		s->now.start += now - s->last;
	s->last = now;
	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	if (!acked)
		return;
	if (!s->now.start)
		cc_cubic_begin(s, p, d->cwnd, now);
	if (p->reno_friendly == CC_CUBIC_RFC && s->now.est >> 32 >= s->now.prior)
		alpha = 1 << 10;
	s->now.est += ((u64)acked * alpha << 22) / cc_max(d->cwnd, 1);
	t = cc_seconds((u64)(now - s->now.start) << 10);
	growth = cc_cubic_growth(s, p, t, d->cwnd);
	if (!s->now.known && p->first_count) {
		growth = cc_max64(growth, cc_cubic_least(s, p, d->cwnd));
	} else if (p->reno_friendly == CC_CUBIC_LINUX) {
		growth = cc_max64(growth, cc_cubic_behind(s, d->cwnd));
	} else if (p->reno_friendly && cc_cubic_window(s, p, t) < s->now.est >> 22) {
		u32 follow = cc_min64(s->now.est >> 32, d->cwnd + (acked >> 1) + (acked & 1));

		d->cwnd = cc_max(d->cwnd, follow);
		return;
	}
	cc_cubic_grow(s, d, acked, growth);
}

CC_INLINE void cc_cubic_loss(struct cc_cubic *s, const struct cc_cubic_params *p,
			     const struct cc_ack *ack, struct cc_decision *d)
{
	s->undo = s->now;
	s->now.known = 1;
	if (d->cwnd < s->now.max && p->fast_convergence)
		s->now.max = (u64)d->cwnd * (1024 + p->beta) >> 11;
	else
		s->now.max = d->cwnd;
	s->now.prior = d->cwnd;
	s->now.start = 0;
	s->credit = 0;
	d->ssthresh = cc_max((u64)d->cwnd * p->beta >> 10, CC_MIN_CWND);
}

CC_INLINE void cc_cubic_event(struct cc_cubic *s, const struct cc_cubic_params *p,
			      const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	u32 now = ack->now_us >> 10;

	if (event == CC_UNDO)
		s->now = s->undo;
	if (event == CC_TIMEOUT) {
		s->now.max = 0;
		s->now.start = 0;
		s->found = 0;
		s->now.known = 0;
		cc_cubic_round(s, ack);
	}
	if (event == CC_RESTART && s->now.start) {
		s->now.start += now - s->last;
		s->last = now;
	}
}

CC_ALGORITHM(cubic);

#endif
