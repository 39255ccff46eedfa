/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What the programs use of the kernel's types, instead of all of vmlinux.h: offsets are fitted to the running kernel
 * when they load (CO-RE), so only names and types matter, and neither order nor what is left out. */
#ifndef CCARENA_KERNEL_H
#define CCARENA_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum { BPF_ANY = 0 };
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0, BPF_RB_RING_SIZE = 1 };

/* kernel/bpf/bpf_iter.c: what bpf_for loops by. */
struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define AF_INET 2
#define AF_INET6 10

enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

#define USEC_PER_SEC 1000000ull
#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull

#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_INIT_CWND 10

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_LOSS };

/* What cong_control's `flag` says of the ACK (net/ipv4/tcp_input.c). */
#define ACK_DATA_ACKED 0x04	   /* FLAG_DATA_ACKED */
#define ACK_DATA_SACKED 0x20	   /* FLAG_DATA_SACKED */
#define ACK_ECE 0x40		   /* FLAG_ECE */
#define ACK_SND_UNA_ADVANCED 0x400 /* FLAG_SND_UNA_ADVANCED */

#define RELOCATED __attribute__((preserve_access_index))

typedef struct {
	s64 counter;
} atomic64_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
} RELOCATED;

struct kernfs_node {
	u64 id;
} RELOCATED;

struct cgroup {
	struct kernfs_node *kn;
} RELOCATED;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} RELOCATED;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
} RELOCATED;

typedef struct {
	u32 val;
} kuid_t;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
	u32 sk_mark;
	kuid_t sk_uid;
	struct sock_cgroup_data sk_cgrp_data;
} RELOCATED;

struct inet_sock {
	struct sock sk;
} RELOCATED;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u8 icsk_backoff;
	u64 icsk_ca_priv[13];
} RELOCATED;

/* net/ipv4/tcp_cubic.c, in icsk_ca_priv */
struct bictcp {
	u32 epoch_start;
} RELOCATED;

struct minmax_sample {
	u32 t;
	u32 v;
} RELOCATED;

struct minmax {
	struct minmax_sample s[3];
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prr_out;
	u32 prior_cwnd;
	u32 lost_out;
	u32 sacked_out;
	u32 retrans_out;
	u32 packets_out;
	u32 max_packets_out;
	u8 is_cwnd_limited : 1;
	u32 mdev_us;
	u32 rttvar_us;
	u32 srtt_us;
	struct minmax rtt_min;
	u32 lost;
	u32 snd_nxt;
	u32 snd_una;
	u32 delivered;
	u32 delivered_ce;
	u32 app_limited;
	u32 reordering;
	u64 tcp_mstamp;
	u64 bytes_sent;
	u32 data_segs_out;
	u64 bytes_acked;
	u64 bytes_retrans;
} RELOCATED;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
} RELOCATED;

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	u32 acked_sacked;
	u32 prior_in_flight;
	int losses;
	bool is_app_limited;
} RELOCATED;

/* `name` and `flags` come first, where user space writes them before loading (src/objects.rs). */
struct tcp_congestion_ops {
	char name[16];
	u32 flags;
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

/* kernel/bpf/bpf_iter.c, net/core/bpf_sk_storage.c: the context of a program that is run for each entry of a map. */
struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
} RELOCATED;

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

/* The verifier takes the argument of a congestion control for a tcp_sock, which starts with the others. */
static __always_inline u32 ca_state(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

static __always_inline u32 tcp_packets_in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* include/net/tcp.h, tcp_is_cwnd_limited */
static __always_inline bool tcp_is_cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* tcp_set_rto; icsk_rto itself counts in jiffies, whose length a program does not know. */
static __always_inline u32 rto_us(struct tcp_sock *tp)
{
	u32 srtt = tp->srtt_us;
	u64 rto = srtt ? (srtt >> 3) + tp->rttvar_us : USEC_PER_SEC;
	u32 backoff = tp->inet_conn.icsk_backoff;

	rto <<= backoff < 16 ? backoff : 16;
	return rto < 120 * USEC_PER_SEC ? rto : 120 * USEC_PER_SEC;
}

/* include/net/tcp.h, tcp_in_cwnd_reduction */
static __always_inline bool reducing(u32 state)
{
	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

#endif
