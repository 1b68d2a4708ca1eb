/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The little that programs on a device know of the kernel. Of these structs the places count: they are
 * those of linux/bpf.h, whose headers of one architecture we do without.
 */
#ifndef SKB_H
#define SKB_H

#include "types.h"

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

enum tcx_action {
	TCX_NEXT = -1,		/* as if the program weren't there */
	TCX_DROP = 2,		/* the sender is told */
};

#define BPF_ADJ_ROOM_MAC 1
#define BPF_NOEXIST 1
#define BPF_SKB_CLOCK_MONOTONIC 1	/* BPF_SKB_TSTAMP_DELIVERY_MONO before Linux 6.11 */

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
};

struct bpf_tcp_sock {
	__u32 snd_cwnd;
	__u32 srtt_us;		/* in eighths */
	__u32 rtt_min;		/* ~0 before the first */
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u64 bytes_received;
	__u64 bytes_acked;
	__u32 dsack_dups;
	__u32 delivered;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 unused[27];	/* tc_index to flow_keys */
	__u64 tstamp;
	__u32 wire_len;		/* of all segments, with a header each */
	__u32 gso_segs;
	struct bpf_sock *sk __attribute__((aligned(8)));
};

_Static_assert(__builtin_offsetof(struct __sk_buff, ifindex) == 40, "linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, sk) == 168, "linux/bpf.h");
_Static_assert(__builtin_offsetof(struct bpf_tcp_sock, delivered) == 100, "linux/bpf.h");

#endif
