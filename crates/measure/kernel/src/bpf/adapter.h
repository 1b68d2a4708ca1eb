/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the two adapters, window.bpf.c and rate.bpf.c, have in common. An adapter is compiled once
 * for each algorithm, with cc/NAME.h included before it and ALGORITHM defined as NAME. It only
 * translates: the socket into `struct cc_ack` and `struct cc_decision`, and the decision back.
 *
 *	kernel				cc/
 *	init				_init, before the first acknowledgement is shown
 *	ssthresh			_loss
 *	set_state to Loss		_event CC_TIMEOUT, once a retransmission timeout
 *	set_state out of CWR,
 *	    Recovery or Loss		_event CC_RECOVERED; out of Recovery, before the kernel sets cwnd
 *	cwnd_event TX_START		_event CC_RESTART, if nothing is unacknowledged
 *	undo_cwnd			_event CC_UNDO
 *	pkts_acked, cong_avoid		window algorithms: _rtt, _ack
 *	cong_control			rate algorithms: _rtt and _ack
 *
 * The kernel clears the state when it gives a socket this algorithm, then calls init, but on a
 * connection that is being established not at once: it may show acknowledgements and timeouts of
 * the SYN before. They are no business of the algorithm, whose state is not set up yet.
 */
#ifndef ADAPTER_H
#define ADAPTER_H

#include "kernel.h"

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#define CC(what) PASTE(cc_, ALGORITHM, what)
#define CC_STATE struct PASTE(cc_, ALGORITHM, )
#define KERNEL_NAME "lh_" TEXT(ALGORITHM)

/*
 * Both are written by the loader before the program is loaded, and never after: the verifier knows
 * their values and drops the branches not taken. `params` is not const so that clang does not know
 * them already.
 */
struct CC(_params) params SEC(".rodata.params");

const volatile struct {
	u32 trace;
	u32 initial_ssthresh;	/* segments; 0: none */
	u32 restricted;		/* not for the program: what the loader registered it as */
} options SEC(".rodata.options");

enum hook {
	HOOK_INIT,
	HOOK_RTT,
	HOOK_ACK,
	HOOK_LOSS,
	HOOK_EVENT,
};

/* One call of an algorithm, as it went; crates/measure/kernel/src/cc/trace.rs reads it. */
struct call {
	u64 cookie;
	u32 netns;
	u16 local_port;
	u16 peer_port;
	u32 hook;
	u32 event;
	struct cc_ack ack;
	struct cc_decision before;
	struct cc_decision after;
	u64 state_before[CC_STATE_MAX / 8];
	u64 state_after[CC_STATE_MAX / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} trace SEC(".maps");

u64 trace_lost SEC(".data.lost");	/* calls that found no place in the ring */

/* What a hook was told and the socket does not remember. */
struct told {
	u32 acked;
	u32 lost;
	u32 rtt_us;
	u32 prior_in_flight;
	u32 prior_delivered;
	u32 app_limited;
	u64 delivered;		/* in interval_us */
	u64 interval_us;
};

char LICENSE[] SEC("license") = "GPL";

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline int initialized(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_initialized);
}

static __always_inline u32 ca_state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

static __always_inline u32 in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/*
 * The kernel tells of a start of transmission whenever nothing is in flight, so also before the
 * retransmission after a timeout, when all is held for lost.
 */
static __always_inline int after_idle(struct sock *sk)
{
	return !tcp_sk(sk)->packets_out;
}

/* In slow start the window may double in a round trip, whether or not each was sent full. */
static __always_inline int cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void observe(struct sock *sk, const struct told *told, struct cc_ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 min_rtt_us = tp->rtt_min.s[0].v;

	*ack = (struct cc_ack) {
		.now_us = tp->tcp_mstamp,
		.acked = told->acked,
		.lost = told->lost,
		.rtt_us = told->rtt_us,
		.min_rtt_us = min_rtt_us == ~0U ? 0 : min_rtt_us,
		.in_flight = in_flight(tp),
		.prior_in_flight = told->prior_in_flight,
		.delivered = tp->delivered,
		.prior_delivered = told->prior_delivered,
		.mss = tp->mss_cache,
		.delivered_ce = tp->delivered_ce,
	};
	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		ack->paced_us = (tp->tcp_wstamp_ns - tp->tcp_clock_cache) / 1000;
	if (told->interval_us)
		ack->delivery_rate = told->delivered * ack->mss * 1000000 / told->interval_us;
	if (told->app_limited)
		ack->flags |= CC_APP_LIMITED;
	if (cwnd_limited(tp))
		ack->flags |= CC_CWND_LIMITED;
	if (ca_state(sk) >= TCP_CA_Recovery)
		ack->flags |= CC_RECOVERY;
	if (sk->sk_pacing_status != SK_PACING_NONE)
		ack->flags |= CC_PACED;
}

/* For hooks that are no acknowledgement. */
static __always_inline struct told nothing(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return (struct told) {
		.prior_in_flight = in_flight(tp),
		.prior_delivered = tp->delivered,
		.app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited),
	};
}

static __always_inline void ask(struct sock *sk, enum hook hook, enum cc_event event,
				const struct cc_ack *ack, struct cc_decision *d)
{
	CC_STATE *s = (void *)inet_csk(sk)->icsk_ca_priv;

	switch (hook) {
	case HOOK_INIT:
		CC(_init)(s, &params, ack, d);
		break;
	case HOOK_RTT:
		CC(_rtt)(s, &params, ack, d);
		break;
	case HOOK_ACK:
		CC(_ack)(s, &params, ack, d);
		break;
	case HOOK_LOSS:
		CC(_loss)(s, &params, ack, d);
		break;
	case HOOK_EVENT:
		CC(_event)(s, &params, ack, d, event);
		break;
	}
}

static __always_inline void copy_state(u64 *to, struct sock *sk)
{
#pragma unroll
	for (int i = 0; i < CC_STATE_MAX / 8; i++)
		to[i] = inet_csk(sk)->icsk_ca_priv[i];
}

static __always_inline void ask_traced(struct sock *sk, enum hook hook, enum cc_event event,
				       const struct cc_ack *ack, struct cc_decision *d)
{
	struct call *call = bpf_ringbuf_reserve(&trace, sizeof(*call), 0);

	if (!call) {
		__sync_fetch_and_add(&trace_lost, 1);
		ask(sk, hook, event, ack, d);
		return;
	}
	call->cookie = sk->__sk_common.skc_cookie.counter;
	call->netns = sk->__sk_common.skc_net.net->ns.inum;
	call->local_port = sk->__sk_common.skc_num;
	call->peer_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	call->hook = hook;
	call->event = event;
	call->ack = *ack;
	call->before = *d;
	copy_state(call->state_before, sk);
	ask(sk, hook, event, ack, d);
	call->after = *d;
	copy_state(call->state_after, sk);
	bpf_ringbuf_submit(call, 0);
}

/*
 * Asks the algorithm. Observed anew in each branch, so that clang leaves out of the one without
 * trace whatever this algorithm does not look at.
 */
static __always_inline void consult(struct sock *sk, enum hook hook, enum cc_event event,
				    const struct told *told, struct cc_decision *d)
{
	struct cc_ack ack;

	if (!options.trace) {
		observe(sk, told, &ack);
		ask(sk, hook, event, &ack, d);
	} else {
		observe(sk, told, &ack);
		ask_traced(sk, hook, event, &ack, d);
	}
}

static __always_inline struct cc_decision window_in_force(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return (struct cc_decision) { .cwnd = tp->snd_cwnd, .ssthresh = tp->snd_ssthresh };
}

/* A window within what the kernel takes: from 1 to the connection's clamp, and a positive s32. */
static __always_inline u32 allowed(struct tcp_sock *tp, u32 cwnd)
{
	return cc_clamp(cwnd, 1, cc_min(tp->snd_cwnd_clamp, CC_INFINITE_SSTHRESH));
}

static __always_inline void apply_window(struct sock *sk, const struct cc_decision *d)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = allowed(tp, d->cwnd);
	tp->snd_ssthresh = d->ssthresh;
}

/*
 * ssthresh without an algorithm, for a loss before init: RFC 5681, as the kernel's Reno has it.
 */
static __always_inline u32 half_cwnd(struct sock *sk)
{
	return cc_max(tcp_sk(sk)->snd_cwnd >> 1, CC_MIN_CWND);
}

/* The event that a change of the recovery's state is, if any. */
static __always_inline int state_event(struct sock *sk, u8 new_state, enum cc_event *event)
{
	if (new_state == TCP_CA_Loss)
		*event = CC_TIMEOUT;
	else if (new_state < TCP_CA_CWR && ca_state(sk) >= TCP_CA_CWR)
		*event = CC_RECOVERED;
	else
		return 0;
	return 1;
}

/* An undo restores cwnd (the kernel, ssthresh): what is in force once it has. */
static __always_inline void restore(struct sock *sk, struct cc_decision *d)
{
	struct tcp_sock *tp = tcp_sk(sk);

	d->cwnd = cc_max(d->cwnd, tp->prior_cwnd);
	d->ssthresh = cc_max(d->ssthresh, tp->prior_ssthresh);
}

#endif
