/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* ACCT's TCP option at both ends: a sender of ours writes the rate that it wants, routers lower it on the way, the
 * receiver echoes what arrived. RFC 6994 options: kind 254, length 8, a 16-bit experiment id, a rate in kbit/s.
 *
 * Whatever stands in it is a rate and no more. An option of another length is ignored, zero counts as 1 kbit/s, and
 * where options fill the header (timestamps and three SACK blocks) a segment goes without.
 */
#ifndef CCARENA_OPTION_H
#define CCARENA_OPTION_H

#include "intf.h"
#include "signal.h"

#define OPTION_KIND 254
#define OPTION_LENGTH 8
#define ADVERTISEMENT 0xacc7
#define ECHO 0xacc8
#define TCP_CA_NAME_MAX 16

/* include/uapi/linux/tcp.h, bpf.h */
#define SOL_TCP 6
#define TCP_CONGESTION 13
enum {
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15,
};
enum {
	BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 1 << 5,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
};

/* The part of the context before what is used, in the order that the kernel promises. */
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 mss_cache;
	__u32 ecn_flags;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 total_retrans;
	__u32 segs_in;
	__u32 data_segs_in;
	__u32 segs_out;
	__u32 data_segs_out;
	__u32 lost_out;
	__u32 sacked_out;
	__u32 sk_txhash;
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
};

struct tcp_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 rate_kbps;
} __attribute__((packed));

/* The network namespaces to act in, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, __u8);
} namespaces SEC(".maps");

static __always_inline void established(struct bpf_sock_ops *ctx)
{
	u64 cookie = bpf_get_netns_cookie(ctx);
	u32 flags = ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
	char name[TCP_CA_NAME_MAX] = {};
	bool ours = true;

	if (!config.every_namespace && !bpf_map_lookup_elem(&namespaces, &cookie))
		return;
	if (bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return;
	for (int i = 0; i < TCP_CA_NAME_MAX && ours; i++) {
		ours = name[i] == config.name[i];
		if (!name[i])
			break;
	}
	bpf_sock_ops_cb_flags_set(ctx, ours ? flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : flags);
}

/* The rate of a well-formed option, at least 1; 0 if there is none. */
static __always_inline u32 load(struct bpf_sock_ops *ctx, u16 experiment)
{
	struct tcp_option option = { OPTION_KIND, 4, __builtin_bswap16(experiment), 0 };
	u32 rate_kbps;

	if (bpf_load_hdr_opt(ctx, &option, sizeof(option), 0) != OPTION_LENGTH || option.length != OPTION_LENGTH)
		return 0;
	rate_kbps = __builtin_bswap32(option.rate_kbps);
	return rate_kbps ? rate_kbps : 1;
}

static __always_inline void store(struct bpf_sock_ops *ctx, u16 experiment, u32 rate_kbps)
{
	struct tcp_option option = { OPTION_KIND, OPTION_LENGTH, __builtin_bswap16(experiment),
				     __builtin_bswap32(rate_kbps) };

	bpf_store_hdr_opt(ctx, &option, sizeof(option), 0);
}

static __always_inline void parse(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	u32 advertised = load(ctx, ADVERTISEMENT), echoed = load(ctx, ECHO);
	struct signal *signal;

	if (!advertised && !echoed)
		return;
	signal = bpf_sk_storage_get(&signals, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!signal)
		return;
	/* An echo counts where something was advertised, and no more than that: routers only lower it. */
	if (echoed && echoed <= signal->desired_kbps)
		signal->advertised_kbps = echoed;
	if (advertised) {
		if (!signal->echo_kbps)
			bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		signal->echo_kbps = advertised;
	}
}

SEC("sockops")
int option(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct signal *signal;

	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		established(ctx);
		return 1;
	}
	if (!sk)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_PARSE_HDR_OPT_CB) {
		parse(ctx, sk);
		return 1;
	}
	if (ctx->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB && ctx->op != BPF_SOCK_OPS_WRITE_HDR_OPT_CB)
		return 1;
	signal = bpf_sk_storage_get(&signals, sk, 0, 0);
	if (!signal)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB) {
		u32 options = !!signal->desired_kbps + !!signal->echo_kbps;

		if (options)
			bpf_reserve_hdr_opt(ctx, options * OPTION_LENGTH, 0);
		return 1;
	}
	if (signal->desired_kbps)
		store(ctx, ADVERTISEMENT, signal->desired_kbps);
	if (signal->echo_kbps)
		store(ctx, ECHO, signal->echo_kbps);
	return 1;
}

#endif
