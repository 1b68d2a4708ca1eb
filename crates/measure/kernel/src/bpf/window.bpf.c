/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The adapter of window algorithms: they say how the window grows and how far it falls. The
 * recovery itself is the kernel's (RFC 6937, proportional rate reduction), and so is the pacing
 * rate. See adapter.h.
 *
 * Of the sample, this kind knows less than cong_control does: `lost` is 0; `delivery_rate` is the
 * kernel's latest that was worth keeping, which may be older than this acknowledgement; `rtt_us` is
 * known to _rtt only; `prior_delivered` to _rtt exactly (up to the kernel's u32 of bytes) and to _ack
 * as if the window had not changed since.
 */
#include "adapter.h"

static __always_inline struct cc_decision in_force(struct sock *sk)
{
	return window_in_force(sk);
}

static __always_inline void apply(struct sock *sk, const struct cc_decision *d)
{
	apply_window(sk, d);
}

#include "hooks.h"

SEC("struct_ops/cong_avoid")
void BPF_PROG(window_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct cc_decision d = in_force(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct told told = nothing(sk);

	if (!initialized(sk))
		return;
	told.acked = acked;
	told.prior_in_flight += acked;
	told.prior_delivered -= told.prior_in_flight;
	told.delivered = tp->rate_delivered;
	told.interval_us = tp->rate_interval_us;
	consult(sk, HOOK_ACK, 0, &told, &d);
	apply(sk, &d);
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(window_ssthresh, struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	if (!initialized(sk))
		return half_cwnd(sk);
	consult(sk, HOOK_LOSS, 0, &told, &d);
	return d.ssthresh;
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(window_undo_cwnd, struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	restore(sk, &d);
	if (CC(_uses_event) && initialized(sk))
		consult(sk, HOOK_EVENT, CC_UNDO, &told, &d);
	return allowed(tcp_sk(sk), d.cwnd);
}

#if CC(_uses_rtt)
SEC("struct_ops/pkts_acked")
void BPF_PROG(window_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cc_decision d = in_force(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct told told = nothing(sk);

	if (sample->rtt_us <= 0 || !initialized(sk))
		return;
	told.rtt_us = sample->rtt_us;
	/* in bytes, and delivered since the newest acknowledged segment was sent, despite its name */
	if (tp->mss_cache)
		told.prior_delivered -= sample->in_flight / tp->mss_cache;
	consult(sk, HOOK_RTT, 0, &told, &d);
	apply(sk, &d);
}
#endif

#if CC(_uses_rtt)
#define RTT_HOOK .pkts_acked = (void *)window_pkts_acked,
#else
#define RTT_HOOK
#endif

#define WINDOW_OPS(shared_hooks) { \
	.flags = TCP_CONG_NON_RESTRICTED, \
	.name = KERNEL_NAME, \
	.cong_avoid = (void *)window_cong_avoid, \
	.ssthresh = (void *)window_ssthresh, \
	.undo_cwnd = (void *)window_undo_cwnd, \
	RTT_HOOK \
	shared_hooks \
}

/* The loader creates the one that fits the kernel; what the other alone calls is not even loaded. */
SEC(".struct_ops.link")
struct tcp_congestion_ops window = WINDOW_OPS(SHARED_HOOKS);

SEC(".struct_ops.link")
struct tcp_congestion_ops window_before_7_1 = WINDOW_OPS(SHARED_HOOKS_BEFORE_7_1);
