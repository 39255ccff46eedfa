/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A connection that the operator gives to a policy or to the kernel's CUBIC beside it (operate.h). The includer defines
 * `struct flow`, with the fields that are named here, and the functions that follow. */
#ifndef CCARENA_OPERATED_H
#define CCARENA_OPERATED_H

#include "cubic.h"
#include "fixed.h"
#include "operate.h"
#include "socket.h"

/* The kernel's CUBIC moves the window: it is the policy's base, or the policy does not act. */
static __always_inline bool over_cubic(struct flow *flow);
/* Number of the policy in force; 0: there is none. */
static __always_inline u64 generation_now(void);
/* The policy decides for a living connection from now on. */
static __always_inline void take_up(struct flow *flow, struct tcp_sock *tp, u64 now);
/* The policy, which acted, is taken away from a `window`. Returns that with which CUBIC goes on. */
static __always_inline u32 leave(struct flow *flow, struct tcp_sock *tp, u32 window);

/* Where the window is, or will be when it is no longer on its way down. */
static __always_inline u32 window_of(struct flow *flow, struct tcp_sock *tp)
{
	return flow->reduces ? tp->snd_ssthresh : tp->snd_cwnd;
}

/* What a `rate` sends in an RTT, if that is less than `window`. A policy that paces may allow several RTTs of its rate, which
 * would leave unpaced at once under CUBIC (crates/ccarena-cc/src/flow/operated.rs). 0 is no rate. */
static __always_inline u32 window_of_rate(struct tcp_sock *tp, u64 rate, u32 window)
{
	u64 sent;

	if (!rate)
		return window;
	sent = scaled(rate, (u64)tp->srtt_us * 125, 1000000000) / max64(tp->mss_cache, 1);
	return min64(window, max64(sent, TCP_INIT_CWND));
}

/* Another policy is in force from here on. */
static __always_inline void follow_policy(struct sock *sk, struct tally *tally, u64 generation, u64 now)
{
	end_record(tally, sk, ENDED_REPLACED, now);
	tally->generation = generation;
}

/* Another role for a living connection, whose window stays as it is, or as `leave` says. */
static __noinline int change_role(struct sock *sk, struct flow *flow, u32 role, u32 reason, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tally *tally = &flow->tally;
	u32 window = window_of(flow, tp);
	u64 generation = generation_now();
	bool cubic = over_cubic(flow);

	if (!generation)
		return 0;
	if (tally->role == ROLE_POLICY)
		window = leave(flow, tp, window);
	flow->left = reducing(ca_state(sk));
	end_record(tally, sk, reason, now);
	tally->role = role;
	tally->generation = generation;
	if (decides(tally))
		take_up(flow, tp, now);
	/* A new curve from the present window, without slow start. Where the policy's base is CUBIC, CUBIC just goes on. */
	if (!cubic && over_cubic(flow))
		cubic_move(sk, window, flow->reduces, true);
	return 0;
}

/* The operator has changed something. A connection that the guard took stays CUBIC's until another policy is there. CUBIC's
 * records end with the policy that they are compared with, as those of the policy do at the end of a period. */
static __noinline int follow_operation(struct sock *sk, struct flow *flow, u64 now)
{
	struct tally *tally = &flow->tally;
	u64 generation = generation_now();
	u32 role = role_of(sk);

	tally->version = operation.version;
	if (!generation)
		return 0;
	if (tally->role == ROLE_HANDED_BACK && generation == tally->generation)
		return 0;
	if (role != tally->role)
		change_role(sk, flow, role, ENDED_MOVED, now);
	else if (!decides(tally) && generation != tally->generation)
		follow_policy(sk, tally, generation, now);
	return 0;
}

/* CUBIC's window is no longer on its way down (tcp_end_cwnd_reduction, which leaves this to cong_control). */
static __always_inline void end_reduction(struct flow *flow, struct tcp_sock *tp, bool reduces)
{
	if (over_cubic(flow) && flow->reduces && !reduces && !flow->undone && tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		set_window(tp, tp->snd_ssthresh);
}

/* How often an idleness that ends at `now` halves CUBIC's window. */
static __always_inline u64 idle_halvings_of(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	return flow->acked_ns && over_cubic(flow) ? idle_halvings(tp, now - flow->acked_ns) : 0;
}

/* The window after a recovery that was needless. What was before it is the window of a policy that is gone, if it `left` in
 * the meantime. */
static __always_inline u32 cubic_undone(struct sock *sk, struct flow *flow)
{
	return flow->left ? tcp_sk(sk)->snd_cwnd : tcp_reno_undo_cwnd(sk);
}

/* The record of each connection, to whoever reads it. */
SEC("iter/bpf_sk_storage_map")
int connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct flow *flow = ctx->value;
	struct sock *sk = ctx->sk;
	struct connection c;
	struct tcp_sock *tp;

	if (!sk || !flow || !flow->tally.id)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	describe(&c, tp, &flow->tally, ENDED_NOT, bpf_ktime_get_ns());
	bpf_seq_write(ctx->meta->seq, &c, sizeof(c));
	return 0;
}

#endif
