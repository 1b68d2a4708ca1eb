/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PAUSE frames (IEEE 802.3x, annex 31B) out of the packet that is at hand: no program can make one from
 * nothing.
 */
#ifndef PACE_FRAMES_H
#define PACE_FRAMES_H

#include "pace_rules.h"

#define ETH_P_8021Q 0x8100

struct pause {
	u8 destination[6];
	u8 source[6];
	u16 type;
	u16 opcode;
	u16 time;		/* 0: nobody has to pause */
};

_Static_assert(sizeof(struct pause) == 18, "as on the wire");

/*
 * Enough for any headers' checksum to lie within; what is taken away again leaves room for an IPv6
 * header, the least that the kernel lets a packet be cut to.
 */
#define ROOM (ETHERNET + 40 + CUT)
#define CUT 200

/*
 * The kernel has a note of where to put a checksum, which must not get into the gap. It forgets it when
 * the place is cut out of the packet (__skb_postpull_rcsum).
 */
static __always_inline long forget_checksum(struct __sk_buff *skb)
{
	return bpf_skb_change_tail(skb, ROOM, 0) ?:
	       bpf_skb_adjust_room(skb, -CUT, BPF_ADJ_ROOM_MAC, 0);
}

/*
 * Has the kernel read the packet's type anew, else it would still take it for IP: that it does only
 * behind a VLAN tag. The first push makes a note of a tag, the second puts it into the packet.
 */
static __always_inline long renew_type(struct __sk_buff *skb)
{
	return bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1) ?:
	       bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 1) ?:
	       bpf_skb_vlan_pop(skb) ?: bpf_skb_vlan_pop(skb);
}

/* Makes the packet a PAUSE frame of so many bytes, at least ETHERNET_MIN. */
static __always_inline long become_pause(struct __sk_buff *skb, const u8 *mac, u32 length)
{
	struct pause pause = {
		.destination = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01},
		.type = bpf_htons(0x8808),
		.opcode = bpf_htons(1),
	};
	long error;

	__builtin_memcpy(pause.source, mac, 6);
	if (skb->vlan_present) {
		error = bpf_skb_vlan_pop(skb);
		if (error)
			return error;
	}
	/* What is cut off and put on again is zero. */
	return forget_checksum(skb) ?: bpf_skb_change_tail(skb, ETHERNET, 0) ?:
	       bpf_skb_change_tail(skb, length, 0) ?:
	       bpf_skb_store_bytes(skb, 0, &pause, sizeof(pause), 0) ?: renew_type(skb);
}

#endif
