/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The little that the monitor knows of a packet in the kernel: where it is, how many frames it makes
 * on the wire, and what is in its headers. As in kernel.h, offsets are those of the running kernel.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include "kernel.h"

#define ARPHRD_ETHER 1			/* linux/if_arp.h */
#define ARPHRD_LOOPBACK 772
#define SKB_GSO_TCPV4 (1 << 0)		/* linux/skbuff.h */
#define SKB_GSO_TCPV6 (1 << 4)
#define SKB_GSO_UDP_L4 (1 << 17)

#define ETHERNET_HEADER 14
#define ETHERNET_TYPE 12		/* where the type stands in it */
#define TYPE_VLAN 0x8100
#define TYPE_VLAN_OUTER 0x88a8
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_MAC_CONTROL 0x8808		/* IEEE 802.3, 31.4 */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define MOST_VLANS 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
	unsigned short type;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	__u32 len;
	__u8 encapsulation : 1;
	__u16 inner_transport_header;
	__u16 transport_header;
	__u16 mac_header;
	__u32 end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	unsigned short gso_size;
	__u32 gso_type;
};

#pragma clang attribute pop

/* Both ends of a flow, addresses in network order (IPv4 in the first four bytes), ports as numbers. */
struct flow {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u8 version;		/* 4, 6; 0: not IP, and all else is 0 */
	__u8 protocol;
	__u16 unused;
};

/* What a packet is on the wire. */
struct frame {
	__u64 bytes;		/* from the link's header on, that of each frame counted */
	__u32 frames;		/* more than one: a super-packet, which is cut further down */
	_Bool is_gap;
};

static __always_inline __u16 load_be16(const __u8 *at)
{
	return (__u16)at[0] << 8 | at[1];
}

static __always_inline _Bool has_ethernet_header(const struct net_device *dev)
{
	return dev->type == ARPHRD_ETHER || dev->type == ARPHRD_LOOPBACK;
}

/* Length of the headers that each segment of a super-packet gets, from `start` on. */
static __always_inline __u32 segment_headers(const struct sk_buff *skb, const unsigned char *start,
					     __u32 type)
{
	__u16 transport = BPF_CORE_READ_BITFIELD(skb, encapsulation) ? skb->inner_transport_header :
								      skb->transport_header;
	const unsigned char *at = skb->head + transport;
	__u32 before = at - start;
	__u8 offset = 0;

	if (type & SKB_GSO_UDP_L4)
		return before + 8;
	if (!(type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)))
		return before;
	bpf_probe_read_kernel(&offset, sizeof(offset), at + 12);
	return before + (offset >> 4) * 4;
}

/*
 * What a packet whose link header begins at `start` is on the wire. `length` is its length from there.
 * As qdisc_pkt_len_init() of net/core/dev.c counts.
 */
static __always_inline struct frame frame_of(const struct sk_buff *skb,
					     const unsigned char *start, __u32 length)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	struct frame frame = { .bytes = length, .frames = 1 };
	__u16 size = BPF_CORE_READ(shared, gso_size);

	if (size) {
		__u32 headers = segment_headers(skb, start, BPF_CORE_READ(shared, gso_type));

		if (headers < length) {
			frame.frames = (length - headers + size - 1) / size;
			frame.bytes += (__u64)(frame.frames - 1) * headers;
		}
	}
	return frame;
}

/* PAUSE of IEEE 802.3x: nothing but a gap between packets. */
static __always_inline _Bool is_pause(const __u8 *ethernet)
{
	return load_be16(ethernet + ETHERNET_TYPE) == TYPE_MAC_CONTROL && ethernet[0] == 0x01 &&
	       ethernet[1] == 0x80 && ethernet[2] == 0xc2 && ethernet[3] == 0 && ethernet[4] == 0 &&
	       ethernet[5] == 0x01;
}

static __always_inline void read_ports(struct flow *flow, const unsigned char *transport)
{
	__u8 ports[4];

	if (flow->protocol != PROTOCOL_TCP && flow->protocol != PROTOCOL_UDP)
		return;
	if (bpf_probe_read_kernel(ports, sizeof(ports), transport))
		return;
	flow->source_port = load_be16(ports);
	flow->destination_port = load_be16(ports + 2);
}

static __always_inline void read_ipv4(struct flow *flow, const unsigned char *at)
{
	__u8 header[20];

	if (bpf_probe_read_kernel(header, sizeof(header), at))
		return;
	flow->version = 4;
	flow->protocol = header[9];
	__builtin_memcpy(flow->source, header + 12, 4);
	__builtin_memcpy(flow->destination, header + 16, 4);
	/* Only the first fragment has ports. */
	if (!(load_be16(header + 6) & 0x1fff))
		read_ports(flow, at + (header[0] & 0xf) * 4);
}

/* A packet with extension headers counts by their number, without ports. */
static __always_inline void read_ipv6(struct flow *flow, const unsigned char *at)
{
	__u8 header[40];

	if (bpf_probe_read_kernel(header, sizeof(header), at))
		return;
	flow->version = 6;
	flow->protocol = header[6];
	__builtin_memcpy(flow->source, header + 8, 16);
	__builtin_memcpy(flow->destination, header + 24, 16);
	read_ports(flow, at + 40);
}

/* The flow of a packet whose network header begins at `at`. */
static __always_inline void read_flow(struct flow *flow, const unsigned char *at, __u16 type)
{
	for (int n = 0; n < MOST_VLANS && (type == TYPE_VLAN || type == TYPE_VLAN_OUTER); n++) {
		__u8 tag[4] = {};

		bpf_probe_read_kernel(tag, sizeof(tag), at);
		type = load_be16(tag + 2);
		at += sizeof(tag);
	}
	if (type == TYPE_IPV4)
		read_ipv4(flow, at);
	else if (type == TYPE_IPV6)
		read_ipv6(flow, at);
}

#endif
