/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The WCC family in the kernel: NewReno with other steps, by weight (aimd.h). Recovery, undo and timeouts are Linux's.
 *
 * A socket looks its weight up when it opens and when any weight has changed, so that an ACK costs no map lookup.
 */
#include "kernel.h"
#include "aimd.h"
#include "skipped.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Whose weight, the most specific first. */
enum { BY_COOKIE, BY_MARK, BY_CGROUP, BY_DEFAULT };

struct weight_key {
	u64 id;
	u64 kind;
};

/* In thousandths. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct weight_key);
	__type(value, u32);
} weights SEC(".maps");

/* Raised by user space after each change. */
volatile u32 generation SEC(".data.weights") = 0;

/* In icsk_ca_priv. */
struct wcc {
	u64 credit;
	u32 generation;
	u32 increase;
	u32 divisor;
	u32 scheme;
};

static __always_inline struct wcc *wcc_of(struct sock *sk)
{
	return (struct wcc *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline u32 *weight_of(u64 kind, u64 id)
{
	struct weight_key key = { id, kind };

	return bpf_map_lookup_elem(&weights, &key);
}

static __noinline int weigh(struct sock *sk)
{
	struct wcc *wcc = wcc_of(sk);
	u64 cookie = sk->__sk_common.skc_cookie.counter;
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct aimd_steps steps;
	u32 *weight = NULL;

	/* Before the lookup: a change in between is seen at the next ACK. */
	wcc->generation = generation;
	if (cookie)
		weight = weight_of(BY_COOKIE, cookie);
	if (!weight && sk->sk_mark)
		weight = weight_of(BY_MARK, sk->sk_mark);
	if (!weight && cgroup)
		weight = weight_of(BY_CGROUP, cgroup->kn->id);
	if (!weight)
		weight = weight_of(BY_DEFAULT, 0);
	steps = aimd_steps(wcc->scheme, weight ? *weight : AIMD_ONE);
	wcc->increase = steps.increase;
	wcc->divisor = steps.divisor;
	return 0;
}

static __always_inline void init(struct sock *sk, enum aimd_scheme scheme)
{
	struct wcc *wcc = wcc_of(sk);

	wcc->credit = 0;
	wcc->scheme = scheme;
	weigh(sk);
}

SEC("struct_ops")
void BPF_PROG(wcc_ai_init, struct sock *sk)
{
	init(sk, WCC_AI);
}

SEC("struct_ops")
void BPF_PROG(wcc_md_init, struct sock *sk)
{
	init(sk, WCC_MD);
}

SEC("struct_ops")
void BPF_PROG(multcp_init, struct sock *sk)
{
	init(sk, MULTCP);
}

SEC("struct_ops")
void BPF_PROG(ewtcp_init, struct sock *sk)
{
	init(sk, EWTCP);
}

SEC("struct_ops")
void BPF_PROG(wcc_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct wcc *wcc = wcc_of(sk);
	u64 credit;

	if (wcc->generation != generation)
		weigh(sk);
	if (is_made_up(tp))
		mend(tp, aimd_reduced(tp->prior_cwnd, wcc->divisor));
	if (!tcp_is_cwnd_limited(tp))
		return;
	credit = wcc->credit;
	tp->snd_cwnd = aimd_grown(tp->snd_cwnd, tp->snd_ssthresh, tp->snd_cwnd_clamp, &credit, acked, wcc->increase);
	wcc->credit = credit;
}

SEC("struct_ops")
u32 BPF_PROG(wcc_ssthresh, struct sock *sk)
{
	struct wcc *wcc = wcc_of(sk);

	if (wcc->generation != generation)
		weigh(sk);
	wcc->credit = 0;
	return aimd_reduced(tcp_sk(sk)->snd_cwnd, wcc->divisor);
}

/* tcp_enter_loss clears snd_cwnd_cnt at every timeout, and asks for a threshold at the first alone. */
SEC("struct_ops")
void BPF_PROG(wcc_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		wcc_of(sk)->credit = 0;
}

SEC("struct_ops")
u32 BPF_PROG(wcc_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

/* A weight of this socket's own ends with it. */
SEC("struct_ops")
void BPF_PROG(wcc_release, struct sock *sk)
{
	struct weight_key key = { sk->__sk_common.skc_cookie.counter, BY_COOKIE };

	if (key.id)
		bpf_map_delete_elem(&weights, &key);
}

#define CONGESTION_CONTROL(scheme)                                \
	SEC(".struct_ops.link")                                   \
	struct tcp_congestion_ops scheme = {                      \
		.name = #scheme,                                  \
		.init = (void *)scheme##_init,                    \
		.release = (void *)wcc_release,                   \
		.cong_avoid = (void *)wcc_cong_avoid,             \
		.ssthresh = (void *)wcc_ssthresh,                 \
		.set_state = (void *)wcc_set_state,               \
		.undo_cwnd = (void *)wcc_undo_cwnd,               \
	}

/* User space writes the names. */
CONGESTION_CONTROL(wcc_ai);
CONGESTION_CONTROL(wcc_md);
CONGESTION_CONTROL(multcp);
CONGESTION_CONTROL(ewtcp);
