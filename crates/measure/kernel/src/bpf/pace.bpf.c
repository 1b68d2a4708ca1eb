// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Paces what leaves a device, by gap packets or by times of departure: finds a packet's rule, and its target
 * from the socket.
 */
#include "pace_gaps.h"
#include "pace_times.h"

char LICENSE[] SEC("license") = "GPL";

#define VLAN_TAG 4

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

/* Bytes of a VLAN tag that the device puts in by itself. */
static __always_inline u32 tag_of(const struct __sk_buff *skb)
{
	return skb->vlan_present ? VLAN_TAG : 0;
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
	if (p->protocol != IPPROTO_TCP)
		return 0;
	/* With gaps a FIN waits its turn as all do. */
	if (skb->len <= p->headers && !(p->ends && setup->method != PACE_GAPS))
		return 0;
	sk = skb->sk;
	sk = sk ? bpf_sk_fullsock(sk) : 0;
	tcp = sk ? bpf_tcp_sock(sk) : 0;
	if (!tcp)
		return 0;
	aim->flow = bpf_get_socket_cookie(skb);
	aim_of_socket(rule, tcp, p->headers + tag_of(skb) + setup->overhead, setup->line,
		      cap_of(rule, aim->flow), aim);
	if (!aim->target)
		mine->counts.no_rtt++;
	return aim->target && aim->flow;
}

/* A function of its own, so that the verifier takes its paths once and not with all that come after. */
__attribute__((noinline)) u64 join(struct pace_sum *sum, u64 flow, u64 target, u64 now_ns, u64 stay_ns)
{
	return sum ? pace_join(sum, flow, target, now_ns, stay_ns) : target;
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
	u64 now_ns, sum;

	if (!settings || !lane || !mine || mine->sending || !read_packet(skb, &p))
		return TCX_NEXT;
	rule = rule_for(settings->rule, settings->rules, &p);
	if (!rule)
		return TCX_NEXT;
	bytes = cc_max(skb->wire_len, ETHERNET_MIN) + segments * (tag_of(skb) + settings->overhead);
	if (!aim_at(skb, settings, rule, &p, mine, bytes, &aim))
		return TCX_NEXT;
	if (settings->method == PACE_GAPS)
		/* One band of pfifo_fast for all, else it would put one before another. */
		skb->priority = 0;
	if (!lock(lane)) {
		mine->counts.lock_failures++;
		return TCX_NEXT;
	}
	now_ns = bpf_ktime_get_ns();
	sum = join(&lane->sum, aim.flow, aim.target, now_ns, aim.stay_ns);
	if (settings->method != PACE_GAPS)
		return depart(skb, settings, rule, &p, &aim, lane, mine, bytes, now_ns, sum);
	return send(skb, settings, rule, &p, &aim, lane, mine, bytes, now_ns, sum);
}
