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

SEC("struct_ops/init")
void BPF_PROG(window_init, struct sock *sk)
{
	struct cc_decision d = window_in_force(sk);
	struct told told = nothing(sk);

	if (options.initial_ssthresh)
		d.ssthresh = options.initial_ssthresh;
	consult(sk, HOOK_INIT, 0, &told, &d);
	apply_window(sk, &d);
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(window_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct cc_decision d = window_in_force(sk);
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
	apply_window(sk, &d);
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(window_ssthresh, struct sock *sk)
{
	struct cc_decision d = window_in_force(sk);
	struct told told = nothing(sk);

	if (!initialized(sk))
		return half_cwnd(sk);
	consult(sk, HOOK_LOSS, 0, &told, &d);
	return d.ssthresh;
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(window_undo_cwnd, struct sock *sk)
{
	struct cc_decision d = window_in_force(sk);
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
	struct cc_decision d = window_in_force(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct told told = nothing(sk);

	if (sample->rtt_us <= 0 || !initialized(sk))
		return;
	told.rtt_us = sample->rtt_us;
	/* in bytes, and delivered since the newest acknowledged segment was sent, despite its name */
	if (tp->mss_cache)
		told.prior_delivered -= sample->in_flight / tp->mss_cache;
	consult(sk, HOOK_RTT, 0, &told, &d);
	apply_window(sk, &d);
}
#endif

#if CC(_uses_event)
SEC("struct_ops/set_state")
void BPF_PROG(window_set_state, struct sock *sk, u8 new_state)
{
	struct cc_decision d = window_in_force(sk);
	struct told told = nothing(sk);
	enum cc_event event;

	if (!initialized(sk) || !state_event(sk, new_state, &event))
		return;
	consult(sk, HOOK_EVENT, event, &told, &d);
	apply_window(sk, &d);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(window_cwnd_event, struct sock *sk, enum tcp_ca_event happened)
{
	struct cc_decision d = window_in_force(sk);
	struct told told = nothing(sk);

	if (happened != CA_EVENT_TX_START || !after_idle(sk) || !initialized(sk))
		return;
	consult(sk, HOOK_EVENT, CC_RESTART, &told, &d);
	apply_window(sk, &d);
}
#endif

SEC(".struct_ops.link")
struct tcp_congestion_ops window = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = KERNEL_NAME,
	.init = (void *)window_init,
	.cong_avoid = (void *)window_cong_avoid,
	.ssthresh = (void *)window_ssthresh,
	.undo_cwnd = (void *)window_undo_cwnd,
#if CC(_uses_rtt)
	.pkts_acked = (void *)window_pkts_acked,
#endif
#if CC(_uses_event)
	.set_state = (void *)window_set_state,
	.cwnd_event = (void *)window_cwnd_event,
#endif
};
