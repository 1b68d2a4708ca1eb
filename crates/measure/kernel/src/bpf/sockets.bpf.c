// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * TCP's own pacing, asked for on behalf of programs that don't: a socket that a rule matches is given a
 * most pacing rate (SO_MAX_PACING_RATE) once its connection is made, whereupon TCP paces it.
 */
#include "kernel.h"
#include "pace_rules.h"

char LICENSE[] SEC("license") = "GPL";

#define AF_INET 2
#define SOL_SOCKET 1			/* asm-generic/socket.h; other architectures are not served */
#define SO_MAX_PACING_RATE 47
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4	/* linux/bpf.h */
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5

struct bpf_sock_ops {			/* places as in linux/bpf.h */
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;		/* addresses and the remote port as they are sent */
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 unused[24];
	__u64 bytes[2];
	struct bpf_sock *sk __attribute__((aligned(8)));
};

_Static_assert(__builtin_offsetof(struct bpf_sock_ops, local_port) == 68, "linux/bpf.h");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "linux/bpf.h");

/* Whose sockets, and which of them. pace/socket_pacer.rs has it in Rust. */
struct sockets_setup {
	u32 namespace;			/* as in /proc/PID/ns/net */
	u32 rules;
	struct pace_rule rule[PACE_RULES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sockets_setup);
} setup SEC(".maps");

u64 asked SEC(".data.asked");		/* so many sockets */

SEC("sockops")
int sockets(struct bpf_sock_ops *ops)
{
	const struct sockets_setup *set;
	const struct pace_rule *rule;
	struct packet p = {};
	struct tcp_sock *tcp;
	u32 only = 0;
	int rate;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	set = bpf_map_lookup_elem(&setup, &only);
	if (!set || !ops->sk)
		return 1;
	tcp = bpf_skc_to_tcp_sock(ops->sk);
	if (!tcp || ((struct sock *)tcp)->__sk_common.skc_net.net->ns.inum != set->namespace)
		return 1;
	if (ops->family == AF_INET) {
		p.destination[2] = bpf_htonl(0xffff);
		/* Else the compiler chooses between two places in *ops, which the verifier refuses. */
		p.destination[3] = *(volatile u32 *)&ops->remote_ip4;
	} else {
		p.destination[0] = ops->remote_ip6[0];
		p.destination[1] = ops->remote_ip6[1];
		p.destination[2] = ops->remote_ip6[2];
		p.destination[3] = ops->remote_ip6[3];
	}
	p.from_port = ops->local_port;
	p.to_port = bpf_ntohl(ops->remote_port);
	rule = rule_for(set->rule, set->rules, &p);
	if (!rule)
		return 1;
	rate = cc_min64(rule->rate, ~0u - 1);
	if (!bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)))
		__sync_fetch_and_add(&asked, 1);
	return 1;
}
