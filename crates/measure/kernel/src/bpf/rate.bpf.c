/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The adapter of rate algorithms: they decide the window and the pacing rate at every
 * acknowledgement, recovery included; the kernel keeps its hands off both, except that it sets cwnd
 * to 1 at a retransmission timeout. See adapter.h.
 *
 * A pacing rate of 0 leaves the connection with what its program allowed (SO_MAX_PACING_RATE), so
 * without pacing, mostly. The first other rate turns TCP's own pacing on, unless the fq queueing
 * discipline does it.
 */
#include "adapter.h"

static __always_inline struct cc_decision in_force(struct sock *sk)
{
	struct cc_decision d = window_in_force(sk);

	if (sk->sk_pacing_rate < sk->sk_max_pacing_rate)
		d.pacing_rate = sk->sk_pacing_rate;
	return d;
}

static __always_inline void apply_rate(struct sock *sk, const struct cc_decision *d)
{
	u64 most = sk->sk_max_pacing_rate;

	sk->sk_pacing_rate = d->pacing_rate ? cc_min64(d->pacing_rate, most) : most;
	if (d->pacing_rate && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static __always_inline void apply(struct sock *sk, const struct cc_decision *d)
{
	apply_window(sk, d);
	apply_rate(sk, d);
}

#include "hooks.h"

static __always_inline void acknowledged(struct sock *sk, const struct rate_sample *rs)
{
	struct cc_decision d = in_force(sk);
	struct told told = {
		.acked = rs->acked_sacked,
		.lost = rs->losses,
		.rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0,
		.prior_in_flight = rs->prior_in_flight,
		.prior_delivered = rs->prior_delivered,
		.app_limited = rs->is_app_limited,
	};

	if (!initialized(sk))
		return;
	if (rs->delivered > 0 && rs->interval_us > 0) {
		told.delivered = rs->delivered;
		told.interval_us = rs->interval_us;
	}
	if (CC(_uses_rtt) && told.rtt_us)
		consult(sk, HOOK_RTT, 0, &told, &d);
	consult(sk, HOOK_ACK, 0, &told, &d);
	apply(sk, &d);
}

SEC("struct_ops/cong_control")
void BPF_PROG(rate_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	acknowledged(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops/cong_control")
void BPF_PROG(rate_cong_control_2, struct sock *sk, const struct rate_sample *rs)
{
	acknowledged(sk, rs);
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(rate_ssthresh, struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	if (!initialized(sk))
		return half_cwnd(sk);
	consult(sk, HOOK_LOSS, 0, &told, &d);
	apply(sk, &d);
	return d.ssthresh;
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(rate_undo_cwnd, struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	restore(sk, &d);
	if (CC(_uses_event) && initialized(sk)) {
		consult(sk, HOOK_EVENT, CC_UNDO, &told, &d);
		apply_rate(sk, &d);
	}
	return allowed(tcp_sk(sk), d.cwnd);
}

#define RATE_OPS(cong_control_, shared_hooks) { \
	.flags = TCP_CONG_NON_RESTRICTED, \
	.name = KERNEL_NAME, \
	.cong_control = (void *)cong_control_, \
	.ssthresh = (void *)rate_ssthresh, \
	.undo_cwnd = (void *)rate_undo_cwnd, \
	shared_hooks \
}

/* The loader creates the one that fits the kernel; what others alone call is not even loaded. */
SEC(".struct_ops.link")
struct tcp_congestion_ops rate = RATE_OPS(rate_cong_control, SHARED_HOOKS);

SEC(".struct_ops.link")
struct tcp_congestion_ops rate_before_7_1 = RATE_OPS(rate_cong_control, SHARED_HOOKS_BEFORE_7_1);

SEC(".struct_ops.link")
struct tcp_congestion_ops rate_before_6_10 = RATE_OPS(rate_cong_control_2, SHARED_HOOKS_BEFORE_7_1);
