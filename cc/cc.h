/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cc.h: the contract between a congestion control and whoever runs it.
 *
 * One algorithm is one file here, NAME.h, and one line in algorithms.h. The same file is compiled
 * for programs (crates/spine/congestion) and for the kernel (crates/measure/kernel). It sees nothing but its
 * arguments: integers only, no clock, no memory beyond its state, no kernel header. A file defines
 *
 *	cc_NAME_title, cc_NAME_rule, cc_NAME_source	strings: name, algorithm in a line, paper
 *	cc_NAME_param_list(P)	P(name, unit, what it is): its parameters, u32 each
 *	cc_NAME_set_list(S)	S(set, where from, .parameter = value ...): named parameter sets, the
 *				default first
 *	struct cc_NAME		what it remembers of a connection, at most CC_STATE_MAX bytes
 *	cc_NAME_kind		window: decides the window outside of recovery; rate: decides window and
 *				pacing rate at every acknowledgement. Without it: window.
 *	cc_NAME_uses_rtt, cc_NAME_uses_event	0 or 1: whether those two functions do anything
 *	cc_NAME_init(state, params, ack, decision)	a connection is established; state is zero
 *	cc_NAME_rtt(state, params, ack, decision)	an acknowledgement gave an RTT sample, in any
 *				phase. Comes before _ack for the same acknowledgement.
 *	cc_NAME_ack(state, params, ack, decision)	the window may change. Window algorithms are
 *				not asked while the caller brings the window down after a loss, so in
 *				fast recovery; after a timeout they are. Rate algorithms always are.
 *	cc_NAME_loss(state, params, ack, decision)	congestion (loss or ECN), at most once a window
 *				of data: set decision->ssthresh. Window algorithms leave cwnd alone: the
 *				caller brings it down to ssthresh over the recovery.
 *	cc_NAME_event(state, params, ack, decision, event)	see enum cc_event
 *
 * All take `decision` as what is in force now, which may differ from what they decided last (the
 * caller reduces cwnd in recovery and after a timeout, and restores it when a loss was spurious),
 * and leave in it what shall be in force.
 */
#ifndef CC_H
#define CC_H

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __INT32_TYPE__ s32;
typedef __UINT64_TYPE__ u64;
typedef __INT64_TYPE__ s64;

#define CC_INLINE static inline __attribute__((always_inline, unused))
/*
 * A function of its own to the verifier, which takes its paths once and not with all that come after. It may
 * be given numbers and the address of a copy of the state, not of the state itself, returns a number, and
 * has to see that the address is not null.
 */
#ifdef __bpf__
#define CC_APART __attribute__((noinline))
#else
#define CC_APART CC_INLINE
#endif

/* Bytes of state a connection has: the kernel's ICSK_CA_PRIV_SIZE, 13 words of 64 bits. */
#define CC_STATE_MAX 104

/* ssthresh before the first loss: slow start has no bound (the kernel's TCP_INFINITE_SSTHRESH). */
#define CC_INFINITE_SSTHRESH 0x7fffffff

/* No window falls below this on a loss (RFC 5681, equation 4). */
#define CC_MIN_CWND 2

/* Flags of an acknowledgement event. */
#define CC_APP_LIMITED	1u	/* delivery_rate is what the application offered, not the path's */
#define CC_CWND_LIMITED	2u	/* the window was all used: only then may it grow */
#define CC_RECOVERY	4u	/* in fast recovery, or after a timeout and not yet past it */
#define CC_PACED	8u	/* the sender spaces its packets */

/* One acknowledgement event. Counts are of segments. */
struct cc_ack {
	u64 now_us;		/* monotonic clock */
	u64 delivery_rate;	/* bytes/s between sending and acknowledging the newest; 0: not known */
	u32 acked;		/* newly acknowledged, cumulatively or selectively */
	u32 lost;		/* newly marked lost */
	u32 rtt_us;		/* RTT sample; 0: this event gave none */
	u32 min_rtt_us;		/* smallest RTT, Linux: of the last 5 minutes; 0: not known */
	u32 in_flight;		/* sent and neither acknowledged nor lost, after this event */
	u32 prior_in_flight;	/* the same, before it */
	u32 delivered;		/* acknowledged in all, wraps */
	u32 prior_delivered;	/* `delivered` when the newest of `acked` was sent, wraps */
	u32 mss;		/* bytes of payload in a full segment */
	u32 paced_us;		/* until pacing lets the next segment out; 0: at once */
	u32 delivered_ce;	/* of `delivered`, what was acknowledged with an echo of a mark (ECE), wraps */
	u32 flags;		/* CC_APP_LIMITED ... */
};

/* What is in force, and what the algorithm wants to be. */
struct cc_decision {
	u64 pacing_rate;	/* bytes/s; 0: the caller's own */
	u32 cwnd;		/* segments, at least 1 */
	u32 ssthresh;		/* segments; slow start while cwnd is smaller */
};

enum cc_event {
	CC_TIMEOUT,	/* retransmission timeout. _loss came first unless recovery was on already; the
			   caller makes cwnd what is in flight and 1 more, so mostly 1 */
	CC_RECOVERED,	/* recovery is over; cwnd may not be ssthresh yet, but will be */
	CC_UNDO,	/* the last loss was spurious; the caller has restored cwnd */
	CC_RESTART,	/* the first transmission after an idle time */
};

/* Parameters: a struct of u32, and its named sets. */
#define CC_PARAM_FIELD(name, unit, what) u32 name;
#define CC_PARAMS(name) struct cc_##name##_params { cc_##name##_param_list(CC_PARAM_FIELD) }

/* In the place of a function that has nothing to do; the latter two go with cc_NAME_uses_... 0. */
#define CC_NOTHING(name, hook, ...) \
	CC_INLINE void cc_##name##_##hook(struct cc_##name *s, const struct cc_##name##_params *p, \
					  const struct cc_ack *ack, struct cc_decision *d, \
					  ##__VA_ARGS__) \
	{ \
	}
#define CC_NO_INIT(name) CC_NOTHING(name, init)
#define CC_NO_RTT(name) CC_NOTHING(name, rtt)
#define CC_NO_EVENT(name) CC_NOTHING(name, event, enum cc_event event)

/* Stands at the end of each algorithm's file. */
#define CC_ALGORITHM(name) \
	_Static_assert(sizeof(struct cc_##name) <= CC_STATE_MAX, \
		"struct cc_" #name " is larger than the 104 bytes of state " \
		"that the kernel gives a congestion control"); \
	_Static_assert(_Alignof(struct cc_##name) <= 8, \
		"struct cc_" #name " asks for more than the 8 bytes of alignment that its state has"); \
	_Static_assert(sizeof("lh_" #name) <= 16, \
		"lh_" #name " is longer than the 15 characters of a kernel's name")

CC_INLINE u32 cc_min(u32 a, u32 b) { return a < b ? a : b; }
CC_INLINE u32 cc_max(u32 a, u32 b) { return a > b ? a : b; }
CC_INLINE u64 cc_min64(u64 a, u64 b) { return a < b ? a : b; }
CC_INLINE u64 cc_max64(u64 a, u64 b) { return a > b ? a : b; }
CC_INLINE u32 cc_clamp(u32 v, u32 low, u32 high) { return cc_max(low, cc_min(v, high)); }

/* Whether counter or clock value a is before b, across a wrap. */
CC_INLINE int cc_before(u32 a, u32 b) { return (s32)(a - b) < 0; }

CC_INLINE int cc_in_slow_start(const struct cc_decision *d) { return d->cwnd < d->ssthresh; }

/*
 * Slow start, RFC 5681 with appropriate byte counting (RFC 3465) without limit, as Linux has it: a
 * segment for each segment acknowledged, up to ssthresh. Returns the acknowledged segments that are
 * left for congestion avoidance.
 */
CC_INLINE u32 cc_slow_start(struct cc_decision *d, u32 acked)
{
	u32 step = cc_min(acked, d->ssthresh - d->cwnd);

	d->cwnd += step;
	return acked - step;
}

/*
 * Additive increase: the window grows by `gain` / 2^shift segments for each window of segments
 * acknowledged. `credit` carries what did not yet make a whole segment, in acknowledged segments
 * times gain, so nothing is lost by rounding. acked * gain must stay below 2^63.
 */
CC_INLINE void cc_increase(u64 *credit, struct cc_decision *d, u32 acked, u64 gain, u32 shift)
{
	u64 segment = (u64)d->cwnd << shift;

	if (*credit >= segment) {	/* earned at a larger window, as before an idle time */
		*credit = 0;
		d->cwnd++;
		segment = (u64)d->cwnd << shift;
	}
	*credit += acked * gain;
	if (*credit >= segment) {
		u64 grown = *credit / segment;

		*credit -= grown * segment;
		d->cwnd += grown;
	}
}

#endif
