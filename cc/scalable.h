/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scalable TCP: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks",
 * CCR 33(2), 2003, section 3; paper 002 section 3.7.
 *
 *	acknowledged	cwnd += 0.01 for each segment
 *	loss		ssthresh = cwnd x 7/8
 *
 * So recovery takes ln(8/7) / ln(1.01) = 13.4 round trips whatever the window.
 *
 * Readings: paper 002 calls the rule AIMD; it is multiplicative both ways (MIMD). Its "increase for
 * each acknowledgement" is for each segment acknowledged here, so delayed acknowledgements don't
 * slow it, and 100 is right where older Linux and ns-3 took 50 to make up for them. In small windows
 * 0.01 is less than Reno's 1/cwnd: Kelly keeps Reno's rules, halving included, up to 16 segments;
 * Linux grows by min(cwnd, 100), so as Reno up to 100, but keeps 7/8; paper 002 names no such limit.
 * Paper 002 takes ceil(cwnd / 8) off and Linux floor(cwnd / 8); here it is the paper's, and Linux's with
 * round_up. Flows that lose together keep the ratio of their windows, so it is this part of a segment at
 * each loss that decides: with Linux's it is the smaller flow that gains, and shares become equal in the
 * end; with the paper's the smaller one starves.
 *
 * Windows up to 2^21 segments: in cwnd << 10.
 */
#ifndef CC_SCALABLE_H
#define CC_SCALABLE_H

#include "cc.h"

#define cc_scalable_title "Scalable TCP"
#define cc_scalable_rule "cwnd += 0.01 a segment acknowledged; on a loss cwnd x 7/8"
#define cc_scalable_source "Kelly 2003 section 3; paper 002 section 3.7"
#define cc_scalable_param_list(P) \
	P(ai_count, "segments", "acknowledged for each segment of growth") \
	P(beta, "1/1024", "share of cwnd kept on a loss") \
	P(low_window, "segments", "largest window that grows as Reno's, by 1 a round trip") \
	P(low_beta, "1/1024", "share kept on a loss up to low_window") \
	P(round_up, "0 or 1", "what is kept is rounded up; 0: down")
#define cc_scalable_set_list(S) \
	S(linux, "Linux 4.x on: min(cwnd, 100)", .ai_count = 100, .beta = 896, \
	  .low_window = 100, .low_beta = 896) \
	S(paper, "paper 002 section 3.7", .ai_count = 100, .beta = 896, \
	  .low_window = 0, .low_beta = 896) \
	S(kelly, "Kelly 2003: legacy window 16", .ai_count = 100, .beta = 896, \
	  .low_window = 16, .low_beta = 512) \
	S(ns3, "ns-3, and Linux before: for delayed acknowledgements", .ai_count = 50, .beta = 896, \
	  .low_window = 50, .low_beta = 896) \
	S(ns2, "Linux 2.6.22 as in ns-2.35: one acknowledgement more than 50", .ai_count = 51, \
	  .beta = 896, .low_window = 50, .low_beta = 896, .round_up = 1)
CC_PARAMS(scalable);

struct cc_scalable {
	u64 credit;	/* see cc_increase */
};

#define cc_scalable_uses_rtt 0
#define cc_scalable_uses_event 0

CC_NO_INIT(scalable)
CC_NO_RTT(scalable)

CC_INLINE void cc_scalable_ack(struct cc_scalable *s, const struct cc_scalable_params *p,
			       const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked, gain = 1 << 10;

	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	if (d->cwnd > p->low_window)
		gain = (d->cwnd << 10) / cc_max(p->ai_count, 1);
	cc_increase(&s->credit, d, acked, gain, 10);
}

CC_INLINE void cc_scalable_loss(struct cc_scalable *s, const struct cc_scalable_params *p,
				const struct cc_ack *ack, struct cc_decision *d)
{
	u32 beta = d->cwnd > p->low_window ? p->beta : p->low_beta;

	s->credit = 0;
	d->ssthresh = cc_max(((u64)d->cwnd * beta + (p->round_up ? 1023 : 0)) >> 10, CC_MIN_CWND);
}

CC_NO_EVENT(scalable)

CC_ALGORITHM(scalable);

#endif
