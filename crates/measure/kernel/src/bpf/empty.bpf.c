/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adapters of both kinds that do nothing: what they cost is what any struct_ops congestion control
 * costs. The benchmark's base line. A connection keeps the window that it starts with.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/init")
void BPF_PROG(empty_init, struct sock *sk)
{
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(empty_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(empty_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
}

SEC("struct_ops/cong_control")
void BPF_PROG(empty_cong_control, struct sock *sk, __u32 ack, int flag,
	      const struct rate_sample *rs)
{
}

SEC("struct_ops/cong_control")
void BPF_PROG(empty_cong_control_2, struct sock *sk, const struct rate_sample *rs)
{
}

SEC("struct_ops/ssthresh")
__u32 BPF_PROG(empty_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops/undo_cwnd")
__u32 BPF_PROG(empty_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops/set_state")
void BPF_PROG(empty_set_state, struct sock *sk, __u8 new_state)
{
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(empty_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
}

SEC("struct_ops/cwnd_event_tx_start")
void BPF_PROG(empty_cwnd_event_tx_start, struct sock *sk)
{
}

#define BEFORE_7_1 .cwnd_event = (void *)empty_cwnd_event
#define FROM_7_1 .cwnd_event_tx_start = (void *)empty_cwnd_event_tx_start

#define EMPTY_OPS(name_) \
	.flags = TCP_CONG_NON_RESTRICTED, \
	.name = name_, \
	.init = (void *)empty_init, \
	.ssthresh = (void *)empty_ssthresh, \
	.undo_cwnd = (void *)empty_undo_cwnd, \
	.set_state = (void *)empty_set_state

SEC(".struct_ops.link")
struct tcp_congestion_ops window = {
	EMPTY_OPS("lh_empty_window"),
	FROM_7_1,
	.cong_avoid = (void *)empty_cong_avoid,
	.pkts_acked = (void *)empty_pkts_acked,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops window_before_7_1 = {
	EMPTY_OPS("lh_empty_window"),
	BEFORE_7_1,
	.cong_avoid = (void *)empty_cong_avoid,
	.pkts_acked = (void *)empty_pkts_acked,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops rate = {
	EMPTY_OPS("lh_empty_rate"),
	FROM_7_1,
	.cong_control = (void *)empty_cong_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops rate_before_7_1 = {
	EMPTY_OPS("lh_empty_rate"),
	BEFORE_7_1,
	.cong_control = (void *)empty_cong_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops rate_before_6_10 = {
	EMPTY_OPS("lh_empty_rate"),
	BEFORE_7_1,
	.cong_control = (void *)empty_cong_control_2,
};
