/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which packets are paced, and at what. pace/layout.rs has the structs in Rust.
 */
#ifndef PACE_RULES_H
#define PACE_RULES_H

#include "skb.h"
#include "pace.h"

#define ETHERNET 14
#define ETHERNET_MIN 60		/* without the check sequence */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

#define PACE_RULES 16

struct pace_rule {
	u64 rate;		/* bytes/s of the link; 0: each TCP socket's own, by `estimate` */
	struct pace_params estimate;
	u8 address[16];		/* destination; IPv4 as ::ffff:a.b.c.d */
	u8 mask[16];		/* bits that count; all 0: any */
	u32 number;		/* from 1, of the device */
	u16 from_port;		/* 0: any */
	u16 to_port;
	u64 owner;		/* who put it there, for user space; 0: a person */
};

enum pace_method {
	PACE_GAPS,
	PACE_TIMES,
	PACE_TIMES_SUPER,	/* super-packets are let be: the same here */
};

/* What user space sets, as a whole. */
struct pace_setup {
	u64 line;		/* bytes/s; 0: not known, for times of departure alone */
	u32 overhead;		/* bytes of the link that a frame takes beyond its length */
	u32 max_gap;
	u32 max_frame;
	u32 rules;
	u8 mac[6];		/* the device's */
	u16 method;		/* enum pace_method */
	struct pace_rule rule[PACE_RULES];
};

/* What a rule may look at. */
struct packet {
	u32 source[4];
	u32 destination[4];
	u16 from_port;		/* 0: none, or not the first fragment */
	u16 to_port;
	u16 headers;		/* bytes before the payload of TCP, that of the link included */
	u8 protocol;
	u8 ends;		/* TCP's last one of that direction */
};

#define TCP_FIN 1

struct ipv4 {
	u8 version_words;
	u8 dscp;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 source, destination;
};

struct ipv6 {
	u32 flow;
	u16 length;
	u8 next, hops;
	u32 source[4], destination[4];
};

static __always_inline int read_ipv4(struct __sk_buff *skb, struct packet *p)
{
	struct ipv4 ip;

	if (bpf_skb_load_bytes(skb, ETHERNET, &ip, sizeof(ip)))
		return -1;
	p->source[2] = p->destination[2] = bpf_htonl(0xffff);
	p->source[3] = ip.source;
	p->destination[3] = ip.destination;
	p->protocol = ip.protocol;
	p->headers = ETHERNET + (ip.version_words & 15) * 4;
	return ip.fragment & bpf_htons(0x1fff) ? 1 : 0;
}

/* Behind extension headers nobody looks: then there are no ports, and it isn't TCP. */
static __always_inline int read_ipv6(struct __sk_buff *skb, struct packet *p)
{
	struct ipv6 ip;

	if (bpf_skb_load_bytes(skb, ETHERNET, &ip, sizeof(ip)))
		return -1;
	__builtin_memcpy(p->source, ip.source, 16);
	__builtin_memcpy(p->destination, ip.destination, 16);
	p->protocol = ip.next;
	p->headers = ETHERNET + sizeof(ip);
	return 0;
}

/* Whether it is IP. */
static __always_inline int read_packet(struct __sk_buff *skb, struct packet *p)
{
	u16 ports[2];
	u8 words[2];
	int fragment;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		fragment = read_ipv4(skb, p);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		fragment = read_ipv6(skb, p);
	else
		return 0;
	if (fragment < 0)
		return 0;
	if (fragment || (p->protocol != IPPROTO_TCP && p->protocol != IPPROTO_UDP))
		return 1;
	if (bpf_skb_load_bytes(skb, p->headers, ports, sizeof(ports)))
		return 1;
	p->from_port = bpf_ntohs(ports[0]);
	p->to_port = bpf_ntohs(ports[1]);
	if (p->protocol == IPPROTO_TCP && !bpf_skb_load_bytes(skb, p->headers + 12, words, 2)) {
		p->headers += (words[0] >> 4) * 4;
		p->ends = words[1] & TCP_FIN;
	}
	return 1;
}

static __always_inline int matches(const struct pace_rule *rule, const struct packet *p)
{
	const u32 *address = (const u32 *)rule->address, *mask = (const u32 *)rule->mask;
	u32 differs = 0;

	for (int n = 0; n < 4; n++)
		differs |= (p->destination[n] ^ address[n]) & mask[n];
	return !differs && (!rule->from_port || rule->from_port == p->from_port) &&
	       (!rule->to_port || rule->to_port == p->to_port);
}

/* The first that matches. */
static __always_inline const struct pace_rule *rule_for(const struct pace_rule *rule, u32 rules,
							const struct packet *p)
{
	for (u32 n = 0; n < PACE_RULES && n < rules; n++)
		if (matches(&rule[n], p))
			return &rule[n];
	return 0;
}

/* What a socket's packets shall leave at, and for how long it counts among those who send. */
struct aim {
	u64 target;		/* bytes/s; 0: not known */
	u64 stay_ns;
	u64 flow;
};

#define STAY_AT_LEAST_NS 10000000ull
#define FLOW_OF_RULE (1ull << 63)	/* no socket's cookie has it */

static __always_inline void aim_of_rule(const struct pace_rule *rule, u32 bytes, struct aim *aim)
{
	aim->target = rule->rate;
	aim->flow = FLOW_OF_RULE | rule->number;
	/* Two packets' time. */
	aim->stay_ns = cc_max64(2000000000ull * bytes / rule->rate, STAY_AT_LEAST_NS);
}

/*
 * `headers`: bytes of the link that a segment takes besides its payload. `cap`: what is known of the
 * socket's path, if a cap is to be found. Packets of a socket are sent one after the other, so it needs no lock.
 */
static __always_inline void aim_of_socket(const struct pace_rule *rule, const struct bpf_tcp_sock *tcp,
					  u32 headers, u64 line, struct pace_cap *cap, struct aim *aim)
{
	u32 out = tcp->packets_out + tcp->retrans_out, arrived_or_lost = tcp->sacked_out + tcp->lost_out;
	struct pace_flow flow = {
		.line = line,
		.cwnd = tcp->snd_cwnd,
		.ssthresh = tcp->snd_ssthresh,
		.mss = tcp->mss_cache,
		.packet = tcp->mss_cache + headers,
		.srtt_us = tcp->srtt_us >> 3,
		.min_rtt_us = tcp->rtt_min == ~0u ? 0 : tcp->rtt_min,
		.recovering = (tcp->lost_out | tcp->retrans_out | tcp->sacked_out) != 0,
		/* TCP counts the packet when it has been sent. */
		.in_flight = out - cc_min(out, arrived_or_lost) + 1,
		.delivered = tcp->delivered,
	};

	aim->target = cap ? pace_capped(&rule->estimate, &flow, cap, bpf_ktime_get_ns())
			  : pace_target(&rule->estimate, &flow);
	aim->stay_ns = cc_max64(2ull * flow.srtt_us * PACE_NS_PER_US, STAY_AT_LEAST_NS);
}

#endif
