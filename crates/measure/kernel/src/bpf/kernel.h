/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The little that the adapters know of the kernel. Only names and types matter: offsets, and the
 * places of bit fields, are those of the running kernel, put in when the program is loaded (CO-RE).
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define BPF_MAP_TYPE_RINGBUF 27		/* linux/bpf.h */

#define TCP_CONG_NON_RESTRICTED 1	/* net/tcp.h: any user may choose it for a socket */

enum tcp_ca_state {			/* linux/tcp.h */
	TCP_CA_Open,
	TCP_CA_Disorder,
	TCP_CA_CWR,
	TCP_CA_Recovery,
	TCP_CA_Loss,
};

enum tcp_ca_event {			/* net/tcp.h; more follow */
	CA_EVENT_TX_START,
};

enum sk_pacing {			/* net/sock.h */
	SK_PACING_NONE,
	SK_PACING_NEEDED,
	SK_PACING_FQ,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	__u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_initialized : 1;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	__u64 tcp_wstamp_ns;
	__u64 tcp_clock_cache;
	__u64 tcp_mstamp;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 prior_ssthresh;
	__u32 packets_out;
	__u32 max_packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 mss_cache;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	struct minmax rtt_min;
	__u8 is_cwnd_limited : 1;
	__u8 rate_app_limited : 1;
};

struct ack_sample {
	__s32 rtt_us;
	__u32 in_flight;
};

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	_Bool is_app_limited;
};

#pragma clang attribute pop

/*
 * Not of the kernel's layout: libbpf translates it by the members' names. `flags` comes first so
 * that the loader finds it.
 */
struct tcp_congestion_ops {
	__u32 flags;
	char name[16];
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
};

#endif
