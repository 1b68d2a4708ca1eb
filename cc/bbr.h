/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BBR v1: draft-cardwell-iccrg-bbr-congestion-control-00 (2017); Cardwell and others, ACM Queue
 * 14(5), 2016. The section numbers below are the draft's.
 *
 *	bandwidth	the largest delivery rate of the last 10 round trips
 *	min_rtt		the smallest RTT of the last 10 s
 *	pacing rate	gain x bandwidth
 *	cwnd		gain x bandwidth x min_rtt, and room for three bursts
 *
 *	Startup --- bandwidth grew by less than 1/4 in 3 rounds ---> Drain
 *	   ^							       |
 *	   |						in flight <= bandwidth x min_rtt
 *	   |							       v
 *	ProbeRTT <--- min_rtt older than 10 s, from any state --- ProbeBW
 *	   `------------ pipe was once full ------------------------> '
 *
 * Startup doubles the rate each round. Drain empties the queue that Startup left. ProbeBW cycles
 * through pacing gains of 5/4 (is there more?), 3/4 (drain what that queued) and six of 1, each for
 * about min_rtt. ProbeRTT sends 4 segments at a time for 200 ms, so that all queues drain and min_rtt
 * is seen anew.
 *
 * Readings:
 * - The bandwidth filter is Nichols' windowed maximum of three samples, Linux's too. Once the best
 *   sample is 10 rounds old, what follows it may be less than the maximum of the last 10 rounds.
 * - What ProbeRTT sends with a window of 4 says nothing of the path. The draft marks it in the sender
 *   as application-limited (4.3.5); an algorithm here can't, so it remembers from where (`held_from`)
 *   to where (`held_until`) that reaches, and treats samples of it so by itself. What was sent before
 *   ProbeRTT counts in full.
 * - ProbeBW starts in a random phase other than 3/4. The randomness is a hash of clock and count of
 *   deliveries, so that a run can be replayed.
 * - The draft's room for bursts (4.2.2) is three of the bursts that the sender hands to the device.
 *   The sample doesn't say how large those are, so they are what the draft makes of the pacing rate:
 *   1 segment below 1.2 Mb/s, 2 below 24 Mb/s, then 1 ms of it, at most 64 KB.
 * - Recovery from fast retransmit keeps packet conservation for one round, then slow start up to the
 *   target, and brings the former window back at the end (4.2.3.4). It begins and ends with the flag
 *   CC_RECOVERY, not with _loss, which comes for ECN too, and that BBR v1 ignores. All that _loss does
 *   is to save the window, while it is whole: a timeout cuts it before the next acknowledgement.
 * - After a timeout or an undone loss the search for a full pipe starts over, as in Linux, if it was
 *   still on.
 * - A restart from idle ends a ProbeRTT whose time is over, as in Linux; the draft waits for an
 *   acknowledgement.
 *
 * Linux's set has, beyond the draft: room in the window for aggregated acknowledgements (as in
 * draft-cardwell-iccrg-bbr-congestion-control-01), room for bursts in whole segments, and what is in flight
 * counted for the time at which the next segment may leave.
 *
 * Left out, all of them Linux's and not the draft's: the policer detection (lt_bw), a send buffer of three
 * windows (the kernel's usual two apply), and that a delayed acknowledgement doesn't renew an expired
 * min_rtt (the sample doesn't tell).
 *
 * ssthresh only tells that Startup is over: the path's product then, as Linux has it. BBR doesn't go by it.
 */
#ifndef CC_BBR_H
#define CC_BBR_H

#include "rate.h"
#include "windowed_max.h"

#define cc_bbr_title "BBR v1"
#define cc_bbr_rule "rate = largest delivery rate of 10 rounds; cwnd = 2 x rate x smallest RTT of 10 s"
#define cc_bbr_source "draft-cardwell-iccrg-bbr-congestion-control-00"
#define cc_bbr_param_list(P) \
	P(high_gain, "1/1024", "pacing and window gain of Startup, window gain of Drain") \
	P(drain_gain, "1/1024", "pacing gain of Drain") \
	P(probe_gain, "1/1024", "pacing gain of the phase of ProbeBW that looks for more") \
	P(yield_gain, "1/1024", "pacing gain of the phase after it") \
	P(cwnd_gain, "1/1024", "window gain of ProbeBW") \
	P(full_gain, "1/1024", "growth of the bandwidth below which a round of Startup counts as full") \
	P(full_rounds, "round trips", "such rounds until the pipe is taken to be full") \
	P(bandwidth_rounds, "round trips", "length of the bandwidth filter") \
	P(min_rtt_window, "ms", "age at which the smallest RTT is measured anew") \
	P(probe_rtt, "ms", "time at the smallest window for that") \
	P(min_cwnd, "segments", "the smallest window, and that of ProbeRTT") \
	P(margin, "1/100", "how much slower than the bandwidth it paces, so that queues drain") \
	P(aggregation, "1/1024", "of what acknowledgements bring beyond the bandwidth at once, the window's share") \
	P(whole_pieces, "0 or 1", "room for bursts as Linux counts it: whole segments, an even number") \
	P(departures, "0 or 1", "what is in flight is counted for when the next segment may leave")
/* 2955 is 2/ln 2, for which the draft writes 2.89, and 355 is its inverse. */
#define cc_bbr_set_list(S) \
	S(paper, "draft-cardwell-iccrg-bbr-congestion-control-00", \
	  .high_gain = 2955, .drain_gain = 355, .probe_gain = 1280, .yield_gain = 768, \
	  .cwnd_gain = 2048, .full_gain = 1280, .full_rounds = 3, .bandwidth_rounds = 10, \
	  .min_rtt_window = 10000, .probe_rtt = 200, .min_cwnd = 4, .margin = 0, .aggregation = 0, \
	  .whole_pieces = 0, .departures = 0) \
	S(linux, "Linux tcp_bbr.c: gains in 1/256, a margin of 1 %", \
	  .high_gain = 2956, .drain_gain = 352, .probe_gain = 1280, .yield_gain = 768, \
	  .cwnd_gain = 2048, .full_gain = 1280, .full_rounds = 3, .bandwidth_rounds = 10, \
	  .min_rtt_window = 10000, .probe_rtt = 200, .min_cwnd = 4, .margin = 1, .aggregation = 1024, \
	  .whole_pieces = 1, .departures = 1)
CC_PARAMS(bbr);

enum cc_bbr_mode { CC_BBR_STARTUP, CC_BBR_DRAIN, CC_BBR_PROBE_BW, CC_BBR_PROBE_RTT };

#define CC_BBR_PHASES 8			/* of ProbeBW: probe, yield, six of cruising */
#define CC_BBR_AGGREGATED_ROUNDS 5	/* in which the most is remembered, and then so many more */
#define CC_BBR_MOST_ACKED (1 << 20)	/* segments of one epoch of aggregation */
#define CC_BBR_UNKNOWN_RTT 0xffffffffu

/* The time since acknowledgements last brought no more than the bandwidth explains. */
struct cc_bbr_epoch {
	u64 start_us;
	u32 acked;			/* segments in it, at most CC_BBR_MOST_ACKED */
};

struct cc_bbr {
	struct cc_windowed_max bandwidth;	/* delivery rates in bytes/s, at most CC_MAX_RATE, by round */
	/* Times in us wrap after 12 days. What was sent between the deliveries held_from and held_until, modulo
	 * 2^24, is ProbeRTT's own. */
	u64 full_bandwidth : 40;	/* bytes/s, the last that counted as growth */
	u64 phase_start_us : 40, held_from : 24;
	u64 min_rtt_at_us : 40, held_until : 24;	/* when min_rtt_us was seen */
	u64 probe_rtt_end_us : 40;	/* once the window is down */
	u64 aggregated_rounds : 5;	/* rounds that `aggregated` is the most of */
	struct cc_bbr_epoch epoch;
	u32 aggregated;			/* segments beyond the bandwidth: the most of up to 5 rounds */
	u32 aggregated_before;		/* the same of the 5 rounds before */
	u32 round, round_end;		/* rounds so far; deliveries that end this one */
	u32 min_rtt_us;
	u32 prior_cwnd;			/* before recovery or ProbeRTT */
	u16 initial_cwnd;
	u8 full_count;
	u8 mode : 2, phase : 3, probe_rtt_down : 1;
	u8 round_start : 1, full : 1, conserving : 1, recovering : 1;
	u8 idle_restart : 1, probe_rtt_round : 1, held : 1, paced_by_rtt : 1;
};

#define cc_bbr_kind rate
#define cc_bbr_uses_rtt 0
#define cc_bbr_uses_event 1

/* Since a time that is kept in 40 bits. */
CC_INLINE u64 cc_bbr_since(u64 then_us, u64 now_us)
{
	return (now_us - then_us) & ((1ull << 40) - 1);
}

CC_INLINE int cc_bbr_is_past(u64 then_us, u64 now_us)
{
	u64 since = cc_bbr_since(then_us, now_us);

	return since && since < 1ull << 39;
}

/* As a u64: without that, the compiler may compute in the field's 40 bits. */
CC_INLINE u64 cc_bbr_bandwidth(const struct cc_bbr *s)
{
	return s->bandwidth.best.value;
}

CC_INLINE u32 cc_bbr_pacing_gain(const struct cc_bbr *s, const struct cc_bbr_params *p)
{
	if (s->mode == CC_BBR_STARTUP)
		return p->high_gain;
	if (s->mode == CC_BBR_DRAIN)
		return p->drain_gain;
	if (s->mode == CC_BBR_PROBE_BW && s->phase == 0)
		return p->probe_gain;
	if (s->mode == CC_BBR_PROBE_BW && s->phase == 1)
		return p->yield_gain;
	return 1024;
}

/* Bandwidth at most 2^40, gain below 2^16, so below 2^63. */
CC_INLINE u64 cc_bbr_rate(const struct cc_bbr *s, const struct cc_bbr_params *p, u32 gain)
{
	return cc_max64(cc_bbr_bandwidth(s) * gain * (100 - cc_min(p->margin, 99)) / (100 * 1024), 1);
}

/* 4.2.2: bytes that the sender hands to the device at once. */
CC_INLINE u32 cc_bbr_burst(u64 pacing_rate, u32 mss)
{
	if (pacing_rate < 150000)
		return mss;
	if (pacing_rate < 3000000)
		return 2 * mss;
	return cc_min64(pacing_rate / 1000, 65536);
}

/* Linux's count of the same, in segments: 1024 pieces a second, less than 64 KB with their headers. */
CC_INLINE u32 cc_bbr_piece(u64 pacing_rate, u32 mss)
{
	u64 segments = cc_min64(pacing_rate >> 10, 65535 - 320) / mss;

	return cc_min64(cc_max64(segments, pacing_rate < 150000 ? 1 : 2), 127);
}

enum cc_bbr_pieces { CC_BBR_AS_DRAFTED, CC_BBR_WHOLE, CC_BBR_WHOLE_AND_TWO };

/* Segments that hold so many bytes, `more` segments and three bursts. */
CC_APART u32 cc_bbr_with_bursts(u64 bytes, u32 more, u64 pacing_rate, u32 mss, u32 pieces)
{
	u64 segments;

	if (!mss)
		return 0;
	if (pieces == CC_BBR_AS_DRAFTED) {
		bytes += (u64)more * mss + 3 * cc_bbr_burst(pacing_rate, mss);
		return cc_min64((bytes + mss - 1) / mss, CC_INFINITE_SSTHRESH);
	}
	segments = (bytes + mss - 1) / mss + more + 3 * cc_bbr_piece(pacing_rate, mss);
	segments = (segments + 1) & ~1ull;
	if (pieces == CC_BBR_WHOLE_AND_TWO)
		segments += 2;
	return cc_min64(segments, CC_INFINITE_SSTHRESH);
}

/*
 * 4.2.3.2: segments in flight that fill the path `gain` / 1024 times, and `more`. Rate below 2^40 times RTT below
 * 2^23 us (8 s) is below 2^63, in bytes below 2^44, times gain below 2^60.
 */
CC_INLINE u32 cc_bbr_inflight_and(const struct cc_bbr *s, const struct cc_bbr_params *p,
				  const struct cc_ack *ack, const struct cc_decision *d, u32 gain,
				  u32 more)
{
	int probes = s->mode == CC_BBR_PROBE_BW && s->phase == 0;
	enum cc_bbr_pieces pieces = !p->whole_pieces ? CC_BBR_AS_DRAFTED :
				    probes ? CC_BBR_WHOLE_AND_TWO : CC_BBR_WHOLE;
	u64 bytes;

	if (s->min_rtt_us == CC_BBR_UNKNOWN_RTT)
		return s->initial_cwnd;
	bytes = cc_bbr_bandwidth(s) * cc_min(s->min_rtt_us, (1 << 23) - 1) / CC_US_PER_S;
	return cc_bbr_with_bursts(bytes * gain >> 10, more, d->pacing_rate, cc_max(ack->mss, 1), pieces);
}

CC_INLINE u32 cc_bbr_inflight(const struct cc_bbr *s, const struct cc_bbr_params *p,
			      const struct cc_ack *ack, const struct cc_decision *d, u32 gain)
{
	return cc_bbr_inflight_and(s, p, ack, d, gain, 0);
}

/*
 * Of so many segments in flight, those that are when the next one may leave. Where the rate is to
 * grow, that piece is one of them.
 */
CC_INLINE u32 cc_bbr_at_departure(const struct cc_bbr *s, const struct cc_bbr_params *p,
				  const struct cc_ack *ack, const struct cc_decision *d, u32 in_flight)
{
	u32 mss = cc_max(ack->mss, 1);
	u64 delivered;

	if (!p->departures)
		return in_flight;
	delivered = cc_bbr_bandwidth(s) * cc_min(ack->paced_us, (1 << 23) - 1) / CC_US_PER_S / mss;
	if (cc_bbr_pacing_gain(s, p) > 1024)
		in_flight += cc_bbr_piece(d->pacing_rate, mss);
	return in_flight > delivered ? in_flight - delivered : 0;
}

/*
 * What acknowledgements bring at once beyond what the bandwidth explains, the most of some 5 to 10
 * rounds: Wi-Fi, cable modems and receivers that compress acknowledgements hold them back and let them
 * go together, and the window has to bridge that.
 */
CC_APART u32 cc_bbr_beyond(struct cc_bbr_epoch *epoch, u64 bandwidth, u64 now_us, u32 acked, u32 mss)
{
	u64 since_us, expected;

	if (!epoch)
		return 0;
	since_us = now_us - epoch->start_us;
	/* In two parts, since 40 bits of bandwidth leave 24 for a time. */
	expected = bandwidth * (since_us / CC_US_PER_S) + bandwidth * (since_us % CC_US_PER_S) / CC_US_PER_S;
	expected /= cc_max(mss, 1);
	if (epoch->acked <= expected || epoch->acked + acked >= CC_BBR_MOST_ACKED) {
		epoch->acked = 0;
		epoch->start_us = now_us;
		expected = 0;
	}
	epoch->acked = cc_min(epoch->acked + acked, CC_BBR_MOST_ACKED - 1);
	return epoch->acked > expected ? epoch->acked - expected : 0;
}

CC_INLINE void cc_bbr_aggregate(struct cc_bbr *s, const struct cc_bbr_params *p,
				const struct cc_ack *ack, const struct cc_decision *d)
{
	struct cc_bbr_epoch epoch = s->epoch;
	u32 beyond;

	if (!p->aggregation || !ack->acked || !ack->delivery_rate)
		return;
	beyond = cc_bbr_beyond(&epoch, cc_bbr_bandwidth(s), ack->now_us, ack->acked, ack->mss);
	s->epoch = epoch;
	if (s->round_start && ++s->aggregated_rounds == CC_BBR_AGGREGATED_ROUNDS) {
		s->aggregated_rounds = 0;
		s->aggregated_before = s->aggregated;
		s->aggregated = 0;
	}
	s->aggregated = cc_max(s->aggregated, cc_min(beyond, d->cwnd));
}

/* Segments that the window has for that: no more than the bandwidth brings in 100 ms. */
CC_INLINE u32 cc_bbr_aggregation(const struct cc_bbr *s, const struct cc_bbr_params *p,
				 const struct cc_ack *ack)
{
	u64 most = cc_bbr_bandwidth(s) / 10 / cc_max(ack->mss, 1);
	u64 extra = cc_max(s->aggregated, s->aggregated_before);

	return s->full ? cc_min64(extra * p->aggregation >> 10, most) : 0;
}

CC_INLINE void cc_bbr_save_cwnd(struct cc_bbr *s, const struct cc_decision *d)
{
	if (s->recovering || s->mode == CC_BBR_PROBE_RTT)
		s->prior_cwnd = cc_max(s->prior_cwnd, d->cwnd);
	else
		s->prior_cwnd = d->cwnd;
}

/* Whether the sample shows what the application or ProbeRTT let through, not what the path carries. */
CC_INLINE int cc_bbr_limited(const struct cc_bbr *s, const struct cc_ack *ack)
{
	return (s->held && !cc_before(ack->prior_delivered << 8, (u32)s->held_from << 8)) ||
	       (ack->flags & CC_APP_LIMITED);
}

/* 4.1.1: rounds, and the filter over their delivery rates. */
CC_INLINE void cc_bbr_update_bandwidth(struct cc_bbr *s, const struct cc_bbr_params *p,
				       const struct cc_ack *ack)
{
	u64 rate = cc_min64(ack->delivery_rate, CC_MAX_RATE);

	s->round_start = cc_round_over(&s->round_end, ack);
	if (s->round_start) {
		s->round++;
		s->conserving = 0;
	}
	if (s->held && s->mode != CC_BBR_PROBE_RTT)
		s->held = !cc_before((u32)s->held_until << 8, ack->prior_delivered << 8);
	if (rate && (rate >= s->bandwidth.best.value || !cc_bbr_limited(s, ack)))
		cc_windowed_max_add(&s->bandwidth, rate, s->round, p->bandwidth_rounds);
}

CC_INLINE void cc_bbr_next_phase(struct cc_bbr *s, const struct cc_ack *ack)
{
	s->phase_start_us = ack->now_us;
	s->phase = (s->phase + 1) % CC_BBR_PHASES;
}

/* 4.3.4.3: a phase lasts min_rtt; the one that probes until it has filled its share or lost, the
 * one that yields until the queue is gone. */
CC_INLINE void cc_bbr_check_phase(struct cc_bbr *s, const struct cc_bbr_params *p,
				  const struct cc_ack *ack, const struct cc_decision *d)
{
	int over = cc_bbr_since(s->phase_start_us, ack->now_us) > s->min_rtt_us;
	u32 in_flight = cc_bbr_at_departure(s, p, ack, d, ack->prior_in_flight);

	if (s->mode != CC_BBR_PROBE_BW)
		return;
	if (s->phase == 0)
		over = over && (ack->lost || in_flight >=
				cc_bbr_inflight(s, p, ack, d, p->probe_gain));
	else if (s->phase == 1)
		over = over || in_flight <= cc_bbr_inflight(s, p, ack, d, 1024);
	if (over)
		cc_bbr_next_phase(s, ack);
}

/* A random phase, 2 to 7 or 0: only 1, which yields, needs the phase before it. */
CC_INLINE void cc_bbr_enter_probe_bw(struct cc_bbr *s, const struct cc_ack *ack)
{
	u32 hash = ((u32)ack->now_us ^ ack->delivered) * 2654435761u;	/* 2^32 / golden ratio */

	s->mode = CC_BBR_PROBE_BW;
	s->phase = CC_BBR_PHASES - 1 - ((hash >> 16) * (CC_BBR_PHASES - 1) >> 16);
	cc_bbr_next_phase(s, ack);
}

/* 4.3.2.2: three rounds of Startup in which the bandwidth grew by less than a quarter. */
CC_INLINE void cc_bbr_check_full(struct cc_bbr *s, const struct cc_bbr_params *p,
				 const struct cc_ack *ack)
{
	if (s->full || !s->round_start || cc_bbr_limited(s, ack))
		return;
	if (cc_bbr_bandwidth(s) << 10 >= (u64)s->full_bandwidth * p->full_gain) {
		s->full_bandwidth = s->bandwidth.best.value;
		s->full_count = 0;
		return;
	}
	s->full_count++;
	s->full = s->full_count >= p->full_rounds;
}

/* 4.3.3 */
CC_INLINE void cc_bbr_check_drain(struct cc_bbr *s, const struct cc_bbr_params *p,
				  const struct cc_ack *ack, struct cc_decision *d)
{
	if (s->mode == CC_BBR_STARTUP && s->full) {
		s->mode = CC_BBR_DRAIN;
		d->ssthresh = cc_bbr_inflight(s, p, ack, d, 1024);
	}
	if (s->mode == CC_BBR_DRAIN && cc_bbr_at_departure(s, p, ack, d, ack->in_flight) <=
					cc_bbr_inflight(s, p, ack, d, 1024))
		cc_bbr_enter_probe_bw(s, ack);
}

CC_INLINE void cc_bbr_end_probe_rtt(struct cc_bbr *s, const struct cc_ack *ack,
				    struct cc_decision *d)
{
	s->min_rtt_at_us = ack->now_us;
	d->cwnd = cc_max(d->cwnd, s->prior_cwnd);
	if (s->full)
		cc_bbr_enter_probe_bw(s, ack);
	else
		s->mode = CC_BBR_STARTUP;
}

/* 4.3.5: once the window is down, 200 ms and a round. */
CC_INLINE void cc_bbr_probe_rtt(struct cc_bbr *s, const struct cc_bbr_params *p,
				const struct cc_ack *ack, struct cc_decision *d)
{
	if (!s->held)
		s->held_from = ack->delivered;
	s->held = 1;
	s->held_until = ack->delivered + ack->in_flight;
	if (!s->probe_rtt_down) {
		if (ack->in_flight > p->min_cwnd)
			return;
		s->probe_rtt_down = 1;
		s->probe_rtt_end_us = ack->now_us + p->probe_rtt * CC_US_PER_MS;
		s->probe_rtt_round = 0;
		s->round_end = ack->delivered;
		return;
	}
	if (s->round_start)
		s->probe_rtt_round = 1;
	if (s->probe_rtt_round && cc_bbr_is_past(s->probe_rtt_end_us, ack->now_us))
		cc_bbr_end_probe_rtt(s, ack, d);
}

/* 4.1.2 */
CC_INLINE void cc_bbr_update_min_rtt(struct cc_bbr *s, const struct cc_bbr_params *p,
				     const struct cc_ack *ack, struct cc_decision *d)
{
	int expired = cc_bbr_since(s->min_rtt_at_us, ack->now_us) > p->min_rtt_window * CC_US_PER_MS;

	if (ack->rtt_us && (ack->rtt_us <= s->min_rtt_us || expired)) {
		s->min_rtt_us = ack->rtt_us;
		s->min_rtt_at_us = ack->now_us;
	}
	if (expired && s->mode != CC_BBR_PROBE_RTT && !s->idle_restart) {
		s->mode = CC_BBR_PROBE_RTT;
		cc_bbr_save_cwnd(s, d);
		s->probe_rtt_down = 0;
	}
	if (s->mode == CC_BBR_PROBE_RTT)
		cc_bbr_probe_rtt(s, p, ack, d);
	if (ack->acked)
		s->idle_restart = 0;
}

/* 4.2.1: before any bandwidth is known, high_gain x cwnd / RTT, with the margin of every rate. */
CC_INLINE u64 cc_bbr_first_rate(const struct cc_bbr_params *p, const struct cc_ack *ack,
				const struct cc_decision *d, u32 rtt_us)
{
	u64 rate = cc_window_rate(d->cwnd, ack->mss, rtt_us, p->high_gain);

	return cc_max64(rate * (100 - cc_min(p->margin, 99)) / 100, 1);	/* rate below 2^53 */
}

/* 4.2.1: until the pipe was full the rate only grows. The first RTT sample corrects the guess. */
CC_INLINE void cc_bbr_set_pacing(struct cc_bbr *s, const struct cc_bbr_params *p,
				 const struct cc_ack *ack, struct cc_decision *d)
{
	u64 rate = cc_bbr_rate(s, p, cc_bbr_pacing_gain(s, p));

	if (!s->paced_by_rtt && ack->rtt_us) {
		s->paced_by_rtt = 1;
		d->pacing_rate = cc_bbr_first_rate(p, ack, d, ack->rtt_us);
	}
	if (s->full || rate > d->pacing_rate)
		d->pacing_rate = rate;
}

/* 4.2.3.4: what has been lost has left the path. The first round sends what is delivered, no more. */
CC_INLINE void cc_bbr_recovery(struct cc_bbr *s, const struct cc_ack *ack, struct cc_decision *d)
{
	int recovery = ack->flags & CC_RECOVERY;

	if (ack->lost)
		d->cwnd = d->cwnd > ack->lost ? d->cwnd - ack->lost : 1;
	if (recovery && !s->recovering) {
		s->recovering = s->conserving = 1;
		s->round_end = ack->delivered;
		d->cwnd = ack->in_flight + cc_max(ack->acked, 1);
	} else if (!recovery && s->recovering) {
		s->recovering = s->conserving = 0;
		d->cwnd = cc_max(d->cwnd, s->prior_cwnd);
	}
}

/* 4.2.3 */
CC_INLINE void cc_bbr_set_cwnd(struct cc_bbr *s, const struct cc_bbr_params *p,
			       const struct cc_ack *ack, struct cc_decision *d)
{
	u32 gain = s->mode == CC_BBR_PROBE_BW ? p->cwnd_gain :
		   s->mode == CC_BBR_PROBE_RTT ? 1024 : p->high_gain;
	u32 target = cc_bbr_inflight_and(s, p, ack, d, gain, cc_bbr_aggregation(s, p, ack));

	cc_bbr_recovery(s, ack, d);
	if (s->conserving)
		d->cwnd = cc_max(d->cwnd, ack->in_flight + ack->acked);
	else if (s->full)
		d->cwnd = cc_min(d->cwnd + ack->acked, target);
	else if (d->cwnd < target || ack->delivered < s->initial_cwnd)
		d->cwnd += ack->acked;
	if (!s->conserving)
		d->cwnd = cc_max(d->cwnd, p->min_cwnd);
	if (s->mode == CC_BBR_PROBE_RTT)
		d->cwnd = cc_min(d->cwnd, p->min_cwnd);
}

CC_INLINE void cc_bbr_init(struct cc_bbr *s, const struct cc_bbr_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	s->mode = CC_BBR_STARTUP;
	s->initial_cwnd = cc_min(d->cwnd, 0xffff);
	s->round_end = ack->delivered;
	s->min_rtt_us = ack->min_rtt_us ? ack->min_rtt_us : CC_BBR_UNKNOWN_RTT;
	s->min_rtt_at_us = s->epoch.start_us = ack->now_us;
	s->paced_by_rtt = ack->min_rtt_us != 0;
	d->pacing_rate = cc_bbr_first_rate(p, ack, d, ack->min_rtt_us);
}

CC_NO_RTT(bbr)

CC_INLINE void cc_bbr_ack(struct cc_bbr *s, const struct cc_bbr_params *p,
			  const struct cc_ack *ack, struct cc_decision *d)
{
	cc_bbr_update_bandwidth(s, p, ack);
	cc_bbr_aggregate(s, p, ack, d);
	cc_bbr_check_phase(s, p, ack, d);
	cc_bbr_check_full(s, p, ack);
	cc_bbr_check_drain(s, p, ack, d);
	cc_bbr_update_min_rtt(s, p, ack, d);
	cc_bbr_set_pacing(s, p, ack, d);
	cc_bbr_set_cwnd(s, p, ack, d);
}

CC_INLINE void cc_bbr_loss(struct cc_bbr *s, const struct cc_bbr_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	cc_bbr_save_cwnd(s, d);
}

CC_INLINE void cc_bbr_event(struct cc_bbr *s, const struct cc_bbr_params *p,
			    const struct cc_ack *ack, struct cc_decision *d, enum cc_event event)
{
	if (event == CC_TIMEOUT || event == CC_UNDO) {
		s->full_bandwidth = 0;
		s->full_count = 0;
		s->conserving = 0;
	}
	if (event == CC_TIMEOUT)
		s->recovering = 1;	/* from cwnd 1: slow start, no conservation */
	if (event != CC_RESTART)
		return;
	/* 4.3.4.4: the pipe is empty, so no phase of ProbeBW and no further ProbeRTT is due. */
	s->idle_restart = 1;
	s->epoch.start_us = ack->now_us;
	s->epoch.acked = 0;
	if (s->mode == CC_BBR_PROBE_BW)
		d->pacing_rate = cc_bbr_rate(s, p, 1024);
	else if (s->mode == CC_BBR_PROBE_RTT && s->probe_rtt_down &&
		 cc_bbr_is_past(s->probe_rtt_end_us, ack->now_us))
		cc_bbr_end_probe_rtt(s, ack, d);
}

CC_ALGORITHM(bbr);

#endif
