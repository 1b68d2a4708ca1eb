// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gap packets: each paced packet that leaves the device is followed by PAUSE frames, as long as
 * cc/pace.h says.
 *
 * The program runs when a packet is about to be queued, on several processors at once. What it queues it
 * clones to the same device, under a lock of its own, so that a packet and its gap are queued as one run
 * and no other paced packet comes between:
 *
 *	lock, packet (a clone), gap frames (clones of what the packet is turned into), unlock
 *
 * Clones enter this program again; `sending` of the processor lets them pass. Nothing else runs on the
 * processor meanwhile that could send, since bottom halves are off (not so under PREEMPT_RT: there a packet
 * of another task may pass unpaced).
 *
 * It comes before the device's other programs, which so see what really leaves: clones and gap frames, each once.
 *
 * What the kernel gave us is the socket's, which waits with more until it is sent (TCP small queues, send
 * buffers). Clones are nobody's. So the packet itself becomes the last of its gap frames, the shortest
 * there is, and is queued after the unlocking: among several processors those 84 bytes may come behind the
 * next packet, never the rest. A gap too short to be divided is queued under the lock as a whole.
 *
 * Not paced, and passed as they come: what no rule matches, what TCP sends without payload, and all while the
 * targets' sum is the line's rate. A packet without gap does no harm between another and its gap, and keeps
 * its socket and its priority.
 */
#include "pace_frames.h"

char LICENSE[] SEC("license") = "GPL";

#define LOCK_TRIES (1u << 22)	/* some 10 ms; it is held for some 10 us */
#define MAX_FRAMES (1u << 16)	/* of one gap */
#define NOWHERE 0		/* no device's number */

/* What left by the device. One for each processor. */
struct pace_counts {
	u64 packets;		/* paced */
	u64 bytes;		/* all bytes are of the link */
	u64 gap_frames;
	u64 gap_bytes;
	u64 at_line_rate;	/* packets without gap, because the targets' sum is that of the line */
	u64 no_rtt;		/* packets of sockets that know no RTT yet */
	u64 lock_failures;	/* packets that went on unpaced for want of the lock */
	u64 super_packets;	/* paced, but several segments in one */
	u64 lost_gap_bytes;	/* that could not be made or queued */
	u64 lost_packets;	/* that could not be queued */
};

struct pace_work {
	struct pace_counts counts;
	u64 sending;
};

/* The device's queue as it has been filled. Only under the lock. */
struct pace_queue {
	u32 lock;
	u32 padding;
	struct pace_wire wire;
	struct pace_sum sum;
};

/* One sender, for people: a socket, or what else a rule paces. */
struct pace_seen {
	u8 source[16];
	u8 destination[16];
	u16 from_port;
	u16 to_port;
	u32 protocol;
	u32 rule;
	u32 padding;
	u64 target;		/* bytes/s, of the newest packet */
	u64 packets;
	u64 bytes;
	u64 gap_bytes;
	u64 first_ns;
	u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);	/* its values are replaced as a whole */
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_setup);
} setup SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_queue);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_work);
} work SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct pace_seen);
} seen SEC(".maps");

/* What is known of sockets' paths, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct pace_cap);
} caps SEC(".maps");

/* What the device had before, for user space to put back. */
struct pace_before {
	u32 gso_max_segs;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pace_before);
} before SEC(".maps");

struct attempt {
	struct pace_queue *queue;
	u32 taken;
};

static long try_lock(u32 n, struct attempt *attempt)
{
	u32 *lock = &attempt->queue->lock;

	if (*(volatile u32 *)lock || __sync_val_compare_and_swap(lock, 0, 1))
		return 0;
	attempt->taken = 1;
	return 1;
}

static __always_inline int lock(struct pace_queue *queue)
{
	struct attempt attempt = {queue, 0};

	bpf_loop(LOCK_TRIES, try_lock, &attempt, 0);
	return attempt.taken;
}

static __always_inline void unlock(struct pace_queue *queue)
{
	__sync_lock_test_and_set(&queue->lock, 0);
}

/* Queues a copy of the packet as it is; 0: done. */
static __always_inline long queue_copy(struct __sk_buff *skb, struct pace_work *mine)
{
	long result;

	mine->sending = 1;
	result = bpf_clone_redirect(skb, skb->ifindex, 0);
	mine->sending = 0;
	return result;
}

struct gap {
	struct __sk_buff *skb;
	struct pace_wire *wire;
	struct pace_work *mine;
	u32 overhead;
	u32 length;		/* that the frame has now */
	u32 bytes;		/* queued */
};

static long queue_frame(u32 n, struct gap *gap)
{
	u32 bytes = pace_frame(gap->wire), length;

	if (!bytes)
		return 1;
	length = cc_max(bytes - gap->overhead, ETHERNET_MIN);
	if ((length != gap->length && bpf_skb_change_tail(gap->skb, length, 0)) ||
	    queue_copy(gap->skb, gap->mine)) {
		gap->mine->counts.lost_gap_bytes += bytes;
		return 0;
	}
	gap->length = length;
	gap->mine->counts.gap_frames++;
	gap->bytes += bytes;
	return 0;
}

/*
 * The packet has been queued: queues its gap, all but what the packet itself is to become, which is the
 * result, in bytes of the link; 0: nothing.
 */
static __always_inline u32 queue_gap(struct __sk_buff *skb, const struct pace_setup *setup,
				     struct pace_wire *wire, struct pace_work *mine, u32 *bytes)
{
	u32 last = wire->owed >= 2 * wire->min_frame ? wire->min_frame : 0;
	struct gap gap = {skb, wire, mine, setup->overhead, 0, 0};

	if (wire->owed < wire->min_frame)
		return 0;
	gap.length = cc_max(cc_min(wire->owed - last, wire->max_frame) - setup->overhead, ETHERNET_MIN);
	if (become_pause(skb, setup->mac, gap.length)) {
		mine->counts.lost_gap_bytes += wire->owed;
		wire->owed = 0;
		return 0;
	}
	wire->owed -= last;
	bpf_loop(MAX_FRAMES, queue_frame, &gap, 0);
	*bytes = gap.bytes + last;
	return last;
}

static __always_inline void note(const struct packet *p, const struct pace_rule *rule,
				 const struct aim *aim, u64 now_ns, u32 bytes, u32 gap_bytes)
{
	struct pace_seen *one = bpf_map_lookup_elem(&seen, &aim->flow);

	if (!one) {
		struct pace_seen first = {
			.from_port = p->from_port,
			.to_port = p->to_port,
			.protocol = p->protocol,
			.rule = rule->number,
			.first_ns = now_ns,
		};
		__builtin_memcpy(first.source, p->source, 16);
		__builtin_memcpy(first.destination, p->destination, 16);
		bpf_map_update_elem(&seen, &aim->flow, &first, BPF_NOEXIST);
		one = bpf_map_lookup_elem(&seen, &aim->flow);
		if (!one)
			return;
	}
	one->target = aim->target;
	one->packets++;
	one->bytes += bytes;
	one->gap_bytes += gap_bytes;
	one->last_ns = now_ns;
}

static __always_inline void set_up(struct pace_wire *wire, const struct pace_setup *setup)
{
	wire->line = setup->line;
	wire->max_gap = setup->max_gap;
	wire->max_frame = setup->max_frame;
	wire->min_frame = ETHERNET_MIN + setup->overhead;
}

/* Under the lock. What becomes of the packet. */
static __always_inline int send(struct __sk_buff *skb, const struct pace_setup *setup,
				const struct pace_rule *rule, const struct packet *p, struct aim *aim,
				struct pace_queue *queue, struct pace_work *mine, u32 bytes)
{
	struct pace_wire *wire = &queue->wire;
	u32 last, gap_bytes = 0;
	u64 now_ns = bpf_ktime_get_ns(), sum;

	set_up(wire, setup);
	sum = pace_join(&queue->sum, aim->flow, aim->target, now_ns, aim->stay_ns);
	if (sum >= wire->line) {
		pace_owe(wire, sum, bytes);
		mine->counts.at_line_rate++;
		mine->counts.packets++;
		mine->counts.bytes += bytes;
		note(p, rule, aim, now_ns, bytes, 0);
		unlock(queue);
		return TCX_NEXT;
	}
	if (queue_copy(skb, mine)) {
		mine->counts.lost_packets++;
		unlock(queue);
		return TCX_DROP;
	}
	pace_owe(wire, sum, bytes);
	last = queue_gap(skb, setup, wire, mine, &gap_bytes);
	mine->counts.packets++;
	mine->counts.bytes += bytes;
	mine->counts.gap_bytes += gap_bytes;
	note(p, rule, aim, now_ns, bytes, gap_bytes);
	unlock(queue);
	/* A drop would be told to the socket, as if the packet had not been sent. */
	if (!last || bpf_skb_change_tail(skb, ETHERNET_MIN, 0))
		return bpf_redirect(NOWHERE, 0);
	mine->counts.gap_frames++;
	/* As a new packet, since the old one's length has been noted for the device's queue. */
	return bpf_redirect(skb->ifindex, 0);
}

/* What is known of a socket's path; none where no cap is to be found. */
static __always_inline struct pace_cap *cap_of(const struct pace_rule *rule, u64 socket)
{
	struct pace_cap nothing = {}, *cap;

	if (!rule->estimate.find_cap)
		return 0;
	cap = bpf_map_lookup_elem(&caps, &socket);
	if (cap)
		return cap;
	bpf_map_update_elem(&caps, &socket, &nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(&caps, &socket);
}

/* At what to send it; 0: it isn't paced. */
static __always_inline int aim_at(struct __sk_buff *skb, const struct pace_setup *setup,
				  const struct pace_rule *rule, const struct packet *p,
				  struct pace_work *mine, u32 bytes, struct aim *aim)
{
	struct bpf_tcp_sock *tcp;
	struct bpf_sock *sk;

	if (rule->rate) {
		aim_of_rule(rule, bytes, aim);
		return 1;
	}
	if (p->protocol != IPPROTO_TCP || skb->len <= p->headers)
		return 0;
	sk = skb->sk;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	tcp = sk ? bpf_tcp_sock(sk) : 0;
	if (!tcp)
		return 0;
	aim->flow = bpf_get_socket_cookie(skb);
	aim_of_socket(rule, tcp, p->headers + setup->overhead, setup->line, cap_of(rule, aim->flow), aim);
	if (!aim->target)
		mine->counts.no_rtt++;
	return aim->target && aim->flow;
}

SEC("tcx/egress")
int pace(struct __sk_buff *skb)
{
	const u32 only = 0;
	struct pace_setup *settings = bpf_map_lookup_elem(&setup, &only);
	struct pace_queue *lane = bpf_map_lookup_elem(&queue, &only);
	struct pace_work *mine = bpf_map_lookup_elem(&work, &only);
	const struct pace_rule *rule;
	struct packet p = {};
	struct aim aim = {};
	u32 segments = cc_max(skb->gso_segs, 1), bytes;

	if (!settings || !lane || !mine || mine->sending || !read_packet(skb, &p))
		return TCX_NEXT;
	rule = rule_for(settings, &p);
	if (!rule)
		return TCX_NEXT;
	bytes = cc_max(skb->wire_len, ETHERNET_MIN) + segments * settings->overhead;
	if (!aim_at(skb, settings, rule, &p, mine, bytes, &aim))
		return TCX_NEXT;
	/* One band of pfifo_fast for all, else it would put one before another. */
	skb->priority = 0;
	if (!lock(lane)) {
		mine->counts.lock_failures++;
		return TCX_NEXT;
	}
	mine->counts.super_packets += segments > 1;
	return send(skb, settings, rule, &p, &aim, lane, mine, bytes);
}
