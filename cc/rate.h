/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the rate-controlled algorithms share: a pacing rate from a window, counting round trips, and
 * bringing the window down in fast recovery.
 */
#ifndef CC_RATE_H
#define CC_RATE_H

#include "cc.h"

/* The RTT before there is any RTT sample (draft-cardwell-iccrg-bbr-00, 4.2.1). */
#define CC_UNKNOWN_RTT_US 1000

#define CC_US_PER_MS 1000ull
#define CC_US_PER_S 1000000ull

/* No rate is higher: 8.8 Tb/s. Keeps rate x time below 2^63 for every time below 8 s. */
#define CC_MAX_RATE ((1ull << 40) - 1)

/*
 * Bytes/s that send a window in an RTT, times gain / 1024. Never 0, which would mean the caller's own.
 * The product in bytes is cut at 2^43 (a window of 2^27 segments of 64 KiB), times 10^6 is below
 * 2^63; the quotient is cut at 2^40, times gain is below 2^63 for every gain below 2^23.
 */
CC_INLINE u64 cc_window_rate(u32 cwnd, u32 mss, u32 rtt_us, u32 gain)
{
	u64 bytes = cc_min64((u64)cwnd * mss, 1ull << 43);
	u64 rate = bytes * CC_US_PER_S / (rtt_us ? rtt_us : CC_UNKNOWN_RTT_US);

	return cc_max64(cc_min64(rate, CC_MAX_RATE) * gain >> 10, 1);
}

/*
 * Whether a round trip has passed: the newest segment acknowledged was sent after the last round
 * ended. `round_end` is the count of delivered segments then.
 */
CC_INLINE int cc_round_over(u32 *round_end, const struct cc_ack *ack)
{
	if (!ack->acked || cc_before(ack->prior_delivered, *round_end))
		return 0;
	*round_end = ack->delivered;
	return 1;
}

/* Fast recovery of algorithms that answer to a loss by ssthresh. */
struct cc_recovery {
	u32 prior;	/* cwnd before the loss; 0: not in fast recovery */
	u32 mark;	/* cc_ack.delivered at the loss */
};

/* In _loss. A timeout or an undo ends it by setting `prior` to 0: then cwnd is the caller's. */
CC_INLINE void cc_recovery_begin(struct cc_recovery *r, const struct cc_ack *ack,
				 const struct cc_decision *d)
{
	r->prior = d->cwnd;
	r->mark = ack->delivered;
}

/*
 * In _ack: the window in recovery; returns whether it is on. Cut at once, the window would let no
 * retransmission out before half of a flight has been acknowledged. So it comes down from `prior` to
 * ssthresh in proportion to what is delivered, over one window of segments, and never lets more out
 * than arrived (packet conservation), nor, once less than ssthresh is in flight, than twice that
 * (slow start), as proportional rate reduction (RFC 6937) does.
 */
CC_INLINE int cc_recovery_ack(struct cc_recovery *r, const struct cc_ack *ack,
			      struct cc_decision *d)
{
	u32 arrived = cc_max(ack->acked, 1), delivered = ack->delivered - r->mark;
	u32 fall = r->prior - cc_min(d->ssthresh, r->prior);

	if (!r->prior)
		return 0;
	if (!(ack->flags & CC_RECOVERY)) {
		r->prior = 0;
		d->cwnd = d->ssthresh;
		return 0;
	}
	if (ack->in_flight > d->ssthresh) {
		u32 fallen = (u64)cc_min(delivered, r->prior) * fall / r->prior;

		d->cwnd = cc_min(r->prior - fallen, ack->in_flight + arrived);
	} else {
		d->cwnd = cc_min64(d->ssthresh, (u64)ack->in_flight + 2 * (u64)arrived);
	}
	return 1;
}

#endif
