/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times of departure: each paced packet gets the time at which it may leave, as cc/pace.h says, and the
 * queueing discipline fq, which must be the device's, holds it until then ("earliest departure time"). The
 * packet stays its socket's meanwhile, which so waits with more.
 *
 * A time that somebody else has set, as TCP does where fq paces it, is kept when it is the later one; the
 * packet's turn then passes unused, so that a slow socket holds up nobody else. fq takes every time to be of
 * the monotonic clock, whatever the packet says; so does this.
 *
 * At most the line's rate, where that is known. Packets of one flow keep their order, since turns and TCP's
 * times only grow; what TCP sends without payload is not paced and may overtake, but for its FIN: that would be
 * acknowledged before what is still waiting, which TCP took for lost.
 *
 * What would have to wait beyond the horizon is dropped, and its socket told.
 */
#ifndef PACE_TIMES_H
#define PACE_TIMES_H

#include "pace_state.h"

/* Under the lock. What becomes of the packet. */
static __always_inline int depart(struct __sk_buff *skb, const struct pace_setup *setup,
				  const struct pace_rule *rule, const struct packet *p,
				  const struct aim *aim, struct pace_queue *queue,
				  struct pace_work *mine, u32 bytes, u64 now_ns, u64 sum)
{
	u64 at_ns;

	if (setup->line && sum >= setup->line) {
		mine->counts.at_line_rate++;
		sum = setup->line;
	}
	at_ns = pace_depart(&queue->clock, now_ns, sum, bytes);
	if (!at_ns) {
		mine->counts.beyond_horizon++;
		unlock(queue);
		return TCX_DROP;
	}
	count(skb, mine, bytes);
	note(p, rule, aim, at_ns, bytes, 0);
	unlock(queue);
	bpf_skb_set_tstamp(skb, cc_max64(at_ns, skb->tstamp), BPF_SKB_CLOCK_MONOTONIC);
	return TCX_NEXT;
}

#endif
