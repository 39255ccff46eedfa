/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Which connections a policy gets, the record of each, and what is counted (operation.h). */
#ifndef CCARENA_OPERATE_H
#define CCARENA_OPERATE_H

#include "kernel.h"
#include <bpf/bpf_endian.h>
#include "operation.h"

struct operation operation SEC(".data.operation") = { .share = 1ull << 32 };

struct counts {
	u64 opened;
	u64 ended;
} counts SEC(".data.counts") = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENDED_RECORDS);
	__type(key, u32);
	__type(value, struct connection);
} ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stats);
} statistics SEC(".maps");

static __always_inline struct stats *stats_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&statistics, &zero);
}

/* Decisions that began at `begun` are done. */
static __always_inline void count_time(struct stats *stats, u64 begun)
{
	u64 spent = bpf_ktime_get_ns() - begun;

	__sync_fetch_and_add(&stats->ns, spent);
	if (spent > stats->ns_most)
		stats->ns_most = spent;
}

/* What a record adds up, and the kernel's counters when it began. */
struct tally {
	u64 id;
	u64 generation; /* of the policy */
	u64 version; /* of the operation that gave the role */
	u64 begun_ns;
	u64 busy_ns;
	u64 busy_since_ns; /* 0: nothing is on the way */
	u64 acked_before;
	u64 sent_before;
	u64 retransmitted_before;
	u64 rtt_us;
	u64 rtt_count;
	u64 decisions;
	u64 outside;
	u64 clamps;
	u64 held;
	u64 compared;
	u64 agreed;
	u64 policy_kib;
	u64 running_kib;
	u32 rtt_min_us;
	u32 role;
	u32 tripped; /* decisions in a row that the guard counts */
	u32 local_port; /* a socket that closes has given it back */
};

struct addresses {
	u32 local[4];
	u32 remote[4];
};

/* As IPv6, IPv4's mapped into it (RFC 4291 section 2.5.5.2). */
static __always_inline void addresses_of(struct sock *sk, struct addresses *found)
{
	struct sock_common *common = &sk->__sk_common;
	int i;

	if (common->skc_family == AF_INET6) {
		for (i = 0; i < 4; i++) {
			found->local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			found->remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
		return;
	}
	found->local[0] = found->local[1] = found->remote[0] = found->remote[1] = 0;
	found->local[2] = found->remote[2] = bpf_htonl(0xffff);
	found->local[3] = common->skc_rcv_saddr;
	found->remote[3] = common->skc_daddr;
}

static __always_inline u64 mixed(u64 x, u64 y)
{
	x = (x ^ y) * 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

/* A number below 2^32, the same for the whole life of a connection. Odd multipliers as in splitmix64. */
static __always_inline u32 hash_of(struct sock *sk, const struct addresses *of)
{
	u64 x = (u64)sk->__sk_common.skc_num << 16 | sk->__sk_common.skc_dport;
	int i;

	for (i = 0; i < 4; i++)
		x = mixed(x, (u64)of->local[i] << 32 | of->remote[i]);
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (x ^ x >> 31) >> 32;
}

static __always_inline u32 role_of(struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	bool within = true, all = operation.share >> 32;
	struct addresses of;
	int i;

	addresses_of(sk, &of);
	for (i = 0; i < 4; i++)
		within = within && (of.remote[i] & operation.mask[i]) == operation.remote[i];
	if (operation.cgroup)
		within = within && cgroup && cgroup->kn->id == operation.cgroup;
	if (within && hash_of(sk, &of) < operation.share)
		return operation.shadow ? ROLE_SHADOW : ROLE_POLICY;
	return within || all ? ROLE_CONTROL : ROLE_APART;
}

/* The policy decides, whether it acts or not. */
static __always_inline bool decides(const struct tally *tally)
{
	return tally->role == ROLE_POLICY || tally->role == ROLE_SHADOW;
}

static __always_inline void begin_record(struct tally *tally, struct tcp_sock *tp, u64 now)
{
	u64 id = tally->id, generation = tally->generation, version = tally->version;
	u32 role = tally->role, local_port = tally->local_port;

	__builtin_memset(tally, 0, sizeof(*tally));
	tally->id = id;
	tally->generation = generation;
	tally->version = version;
	tally->role = role;
	tally->local_port = local_port;
	tally->begun_ns = now;
	tally->busy_since_ns = tp->packets_out ? now : 0;
	tally->acked_before = tp->bytes_acked;
	tally->sent_before = tp->bytes_sent;
	tally->retransmitted_before = tp->bytes_retrans;
}

static __always_inline void open_record(struct tally *tally, struct sock *sk, u64 generation, u64 now)
{
	tally->id = __sync_fetch_and_add(&counts.opened, 1) + 1;
	tally->generation = generation;
	tally->version = operation.version;
	tally->role = role_of(sk);
	tally->local_port = sk->__sk_common.skc_num;
	begin_record(tally, tcp_sk(sk), now);
}

/* An ACK has been dealt with. */
static __always_inline void tally_ack(struct tally *tally, struct tcp_sock *tp, long rtt_us, u64 now)
{
	if (rtt_us > 0) {
		tally->rtt_us += rtt_us;
		tally->rtt_count++;
		if (!tally->rtt_min_us || rtt_us < tally->rtt_min_us)
			tally->rtt_min_us = rtt_us;
	}
	if (!tp->packets_out && tally->busy_since_ns) {
		tally->busy_ns += now - tally->busy_since_ns;
		tally->busy_since_ns = 0;
	}
}

/* Compares what the policy would let leave with what CUBIC lets leave, in bytes/s. */
static __always_inline void compare(struct tally *tally, struct stats *stats, u64 policy, u64 running)
{
	bool agrees = policy * 10 <= running * 11 && running * 10 <= policy * 11;

	tally->compared++;
	tally->agreed += agrees;
	tally->policy_kib += policy >> 10;
	tally->running_kib += running >> 10;
	__sync_fetch_and_add(&stats->compared, 1);
	__sync_fetch_and_add(&stats->agreed, agrees);
}

static __always_inline void describe(struct connection *c, struct tcp_sock *tp, const struct tally *tally, u32 reason,
				     u64 now)
{
	u64 busy_since_ns = *(const volatile u64 *)&tally->busy_since_ns;
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct addresses of;
	int i;

	__builtin_memset(c, 0, sizeof(*c));
	c->id = tally->id;
	c->cookie = sk->__sk_common.skc_cookie.counter;
	c->begun_ns = tally->begun_ns;
	c->now_ns = now;
	/* Whoever lists a living connection holds no lock of its socket: it may become busy after `now`. */
	c->busy_ns = tally->busy_ns + (busy_since_ns && busy_since_ns < now ? now - busy_since_ns : 0);
	c->generation = tally->generation;
	c->acked_bytes = tp->bytes_acked - tally->acked_before;
	c->sent_bytes = tp->bytes_sent - tally->sent_before;
	c->retransmitted_bytes = tp->bytes_retrans - tally->retransmitted_before;
	c->rtt_us = tally->rtt_us;
	c->rtt_count = tally->rtt_count;
	c->decisions = tally->decisions;
	c->outside = tally->outside;
	c->clamps = tally->clamps;
	c->held = tally->held;
	c->compared = tally->compared;
	c->agreed = tally->agreed;
	c->policy_kib = tally->policy_kib;
	c->running_kib = tally->running_kib;
	c->pacing_bytes_per_s = sk->sk_pacing_rate;
	c->rtt_min_us = tally->rtt_min_us;
	c->srtt_us = tp->srtt_us >> 3;
	c->window_packets = tp->snd_cwnd;
	c->mss = tp->mss_cache;
	c->role = tally->role;
	c->ended = reason;
	addresses_of(sk, &of);
	for (i = 0; i < 4; i++) {
		c->local_address[i] = of.local[i];
		c->remote_address[i] = of.remote[i];
	}
	c->local_port = tally->local_port;
	c->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
}

/* The record ends, and unless the socket is closed the next begins. */
static __always_inline void end_record(struct tally *tally, struct sock *sk, u32 reason, u64 now)
{
	u64 number = __sync_fetch_and_add(&counts.ended, 1);
	u32 key = number & (ENDED_RECORDS - 1);
	struct connection *c = bpf_map_lookup_elem(&ended, &key);

	if (c) {
		describe(c, tcp_sk(sk), tally, reason, now);
		/* After all else, on every CPU: an atomic exchange orders both compiler and machine. */
		__sync_lock_test_and_set(&c->record, number + 1);
	}
	begin_record(tally, tcp_sk(sk), now);
}

#endif
