/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The monitor: every packet of one device, timed in software as GtrcNET-1 times them in hardware
 * (Takano et al., section 4.1): bytes in bins of time, gaps between packets, bursts.
 *
 * Outgoing packets are timed at the tracepoint net_dev_start_xmit, right before the device's driver
 * gets them: behind every queueing discipline, whoever paced them. Incoming ones at
 * netif_receive_skb, which is behind what the device and the kernel gathered (GRO).
 *
 * Tracepoints see the packets of every device and namespace; the first thing asked is whose it is.
 * All figures stay in the kernel, summed up (monitor.h); only with a trace an entry for each packet
 * leaves it.
 */
#include "monitor.h"

#define BPF_MAP_TYPE_ARRAY 2		/* linux/bpf.h */
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_NOEXIST 1

#define TRACE_BYTES (4 << 20)
#define FLOWS 4096

enum direction {
	OUT,
	IN,
	DIRECTIONS,
};

/* Written by the loader before the program is loaded, and never after. */
struct {
	__u64 start_ns;			/* times count from here */
	__u64 bin_ns;
	__u64 burst_gap_ns;
	__u32 ifindex;
	__u32 namespace;
	__u32 per_flow;
	__u32 trace;
} options SEC(".rodata.options");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, __u32);
	__type(value, struct figures);
} figures SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");

struct flow_key {
	struct flow flow;
	__u32 direction;
};

struct flow_count {
	__u64 packets;
	__u64 bytes;
	__u64 first_ns;
	__u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow_count);
} flows SEC(".maps");

struct entry {
	__u64 number;		/* in the order in which they were counted, from 0 in each direction */
	__u64 time_ns;
	__u64 bytes;
	__u32 frames;
	__u32 is_gap;
	struct flow_key of;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TRACE_BYTES);
} trace SEC(".maps");

__u64 trace_lost SEC(".data.lost");	/* entries that found no place in the ring */

char LICENSE[] SEC("license") = "GPL";

static __always_inline void count_flow(const struct flow_key *key, const struct frame *frame,
				       __u64 now_ns)
{
	struct flow_count *count = bpf_map_lookup_elem(&flows, key);

	if (!count) {
		struct flow_count none = { .first_ns = now_ns };

		bpf_map_update_elem(&flows, key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&flows, key);
		if (!count)
			return;
	}
	__sync_fetch_and_add(&count->packets, frame->frames);
	__sync_fetch_and_add(&count->bytes, frame->bytes);
	count->last_ns = now_ns;
}

static __always_inline void write_entry(const struct flow_key *key, const struct frame *frame,
					__u64 number, __u64 now_ns)
{
	struct entry *entry = bpf_ringbuf_reserve(&trace, sizeof(*entry), 0);

	if (!entry) {
		__sync_fetch_and_add(&trace_lost, 1);
		return;
	}
	entry->number = number;
	entry->time_ns = now_ns;
	entry->bytes = frame->bytes;
	entry->frames = frame->frames;
	entry->is_gap = frame->is_gap;
	entry->of = *key;
	bpf_ringbuf_submit(entry, 0);
}

static __always_inline void count(__u32 direction, const struct frame *frame, struct flow_key *key)
{
	struct figures *sums = bpf_map_lookup_elem(&figures, &direction);
	struct ring *ring = bpf_map_lookup_elem(&rings, &direction);
	__u64 now_ns = bpf_ktime_get_ns() - options.start_ns, number;

	if (!sums || !ring)
		return;
	bpf_spin_lock(&sums->lock);
	if (now_ns < sums->now_ns)
		now_ns = sums->now_ns;
	sums->now_ns = now_ns;
	number = sums->entries++;
	turn_bin(sums, ring, now_ns, options.bin_ns);
	if (frame->is_gap)
		add_gap_frame(sums, frame);
	else
		add_packet(sums, frame, options.burst_gap_ns);
	bpf_spin_unlock(&sums->lock);

	if (options.per_flow && !frame->is_gap)
		count_flow(key, frame, now_ns);
	if (options.trace)
		write_entry(key, frame, number, now_ns);
}

/* `start` is where the packet's link header begins, `network` where what it carries does. */
static __always_inline void watch(__u32 direction, const struct sk_buff *skb,
				  const struct net_device *dev, const unsigned char *start,
				  const unsigned char *network)
{
	__u8 ethernet[ETHERNET_HEADER] = {};
	struct flow_key key = { .direction = direction };
	struct frame frame = frame_of(skb, start, skb->len + (skb->data - start));
	__u16 type = 0;

	if (has_ethernet_header(dev)) {
		bpf_probe_read_kernel(ethernet, sizeof(ethernet), start);
		frame.is_gap = is_pause(ethernet);
		type = load_be16(ethernet + ETHERNET_TYPE);
	} else if (!bpf_probe_read_kernel(ethernet, 1, network)) {
		type = ethernet[0] >> 4 == 4 ? TYPE_IPV4 : ethernet[0] >> 4 == 6 ? TYPE_IPV6 : 0;
	}
	if (options.per_flow || options.trace)
		read_flow(&key.flow, network, type);
	count(direction, &frame, &key);
}

static __always_inline _Bool is_ours(const struct net_device *dev)
{
	return (__u32)dev->ifindex == options.ifindex &&
	       dev->nd_net.net->ns.inum == options.namespace;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(transmit, const struct sk_buff *skb, const struct net_device *dev)
{
	const unsigned char *network = skb->data;

	if (!is_ours(dev))
		return 0;
	if (has_ethernet_header(dev))
		network += ETHERNET_HEADER;
	watch(OUT, skb, dev, skb->data, network);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(receive, const struct sk_buff *skb)
{
	const struct net_device *dev = skb->dev;

	if (!is_ours(dev))
		return 0;
	/* The link's header has been taken off. */
	watch(IN, skb, dev, skb->head + skb->mac_header, skb->data);
	return 0;
}
