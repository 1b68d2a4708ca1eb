/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP Reno: RFC 5681 section 3.1, with appropriate byte counting (RFC 3465).
 *
 *	acknowledged	cwnd += 1 / cwnd for each segment
 *	loss		ssthresh = cwnd / 2
 *
 * Readings: RFC 5681 halves the amount in flight, the papers and Linux halve cwnd; here it is cwnd.
 * With one acknowledgement for two segments RFC 5681 without byte counting grows half as fast; here
 * segments are counted, not acknowledgements, as in Linux.
 */
#ifndef CC_RENO_H
#define CC_RENO_H

#include "cc.h"

#define cc_reno_title "Reno"
#define cc_reno_rule "cwnd += 1 a round trip; on a loss cwnd x 1/2"
#define cc_reno_source "RFC 5681 section 3.1; paper 002 section 2"
#define cc_reno_param_list(P) \
	P(increase, "1/1024 segments", "growth a round trip") \
	P(beta, "1/1024", "share of cwnd kept on a loss")
#define cc_reno_set_list(S) \
	S(paper, "RFC 5681", .increase = 1024, .beta = 512)
CC_PARAMS(reno);

struct cc_reno {
	u64 credit;	/* see cc_increase */
};

#define cc_reno_uses_rtt 0
#define cc_reno_uses_event 0

CC_NO_INIT(reno)
CC_NO_RTT(reno)

CC_INLINE void cc_reno_ack(struct cc_reno *s, const struct cc_reno_params *p,
			   const struct cc_ack *ack, struct cc_decision *d)
{
	u32 acked = ack->acked;

	if (!(ack->flags & CC_CWND_LIMITED))
		return;
	if (cc_in_slow_start(d))
		acked = cc_slow_start(d, acked);
	cc_increase(&s->credit, d, acked, p->increase, 10);
}

CC_INLINE void cc_reno_loss(struct cc_reno *s, const struct cc_reno_params *p,
			    const struct cc_ack *ack, struct cc_decision *d)
{
	s->credit = 0;
	d->ssthresh = cc_max((u64)d->cwnd * p->beta >> 10, CC_MIN_CWND);
}

CC_NO_EVENT(reno)

CC_ALGORITHM(reno);

#endif
