/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hooks that are the same for both kinds. Who includes this has defined what they differ in:
 * in_force(), the decision that the socket has now, and apply().
 */
SEC("struct_ops/init")
void BPF_PROG(hook_init, struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	if (options.initial_ssthresh)
		d.ssthresh = options.initial_ssthresh;
	consult(sk, HOOK_INIT, 0, &told, &d);
	apply(sk, &d);
}

#if CC(_uses_event)
SEC("struct_ops/set_state")
void BPF_PROG(hook_set_state, struct sock *sk, u8 new_state)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);
	enum cc_event event;

	if (!initialized(sk) || !state_event(sk, new_state, &event))
		return;
	consult(sk, HOOK_EVENT, event, &told, &d);
	apply(sk, &d);
}

static __always_inline void restart(struct sock *sk)
{
	struct cc_decision d = in_force(sk);
	struct told told = nothing(sk);

	if (!after_idle(sk) || !initialized(sk))
		return;
	consult(sk, HOOK_EVENT, CC_RESTART, &told, &d);
	apply(sk, &d);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(hook_cwnd_event, struct sock *sk, enum tcp_ca_event happened)
{
	if (happened == CA_EVENT_TX_START)
		restart(sk);
}

/* From Linux 7.1 on; there cwnd_event is never called with CA_EVENT_TX_START. */
SEC("struct_ops/cwnd_event_tx_start")
void BPF_PROG(hook_cwnd_event_tx_start, struct sock *sk)
{
	restart(sk);
}

#define STATE_HOOK .set_state = (void *)hook_set_state,
#define EVENT_HOOKS_BEFORE_7_1 STATE_HOOK .cwnd_event = (void *)hook_cwnd_event,
#define EVENT_HOOKS STATE_HOOK .cwnd_event_tx_start = (void *)hook_cwnd_event_tx_start,
#else
#define EVENT_HOOKS_BEFORE_7_1
#define EVENT_HOOKS
#endif

#define SHARED_HOOKS_BEFORE_7_1 .init = (void *)hook_init, EVENT_HOOKS_BEFORE_7_1
#define SHARED_HOOKS .init = (void *)hook_init, EVENT_HOOKS
