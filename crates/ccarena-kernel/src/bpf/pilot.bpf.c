/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The scheme `pilot` in the kernel (pilot.h). Through cong_control Linux leaves all of the window to us: it stays as the law
 * set it, through recovery and timeouts.
 *
 * A struct_ops program runs at acknowledgements, timeouts and the start of sending alone. Periods that end in between are made
 * up for then, so that the law is that of a timer, but what it changes in silence takes effect with the next event.
 */
#include "kernel.h"
#include "window.h"
#include "skipped.h"

#define FIXED_FUNCTION __noinline
#define FIXED_NONNULL __arg_nonnull
#define PILOT_FOR(i, n) bpf_for(i, 0, n)

struct pilot_numbers;
extern const volatile struct pilot_numbers numbers;
#include "pilot.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Written by user space before the object loads. */
const volatile struct pilot_numbers numbers SEC(".rodata.numbers");

struct flow {
	u32 delivered_seen;
	u32 lost_seen;
	u8 episode; /* of losses or marks, which has begun */
	u8 paces;   /* we have set sk_pacing_status */
	struct pilot pilot;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static __always_inline s64 in_flight_of(struct tcp_sock *tp)
{
	return (s64)tcp_packets_in_flight(tp) << RAW_BITS;
}

/* Window and pacing rate, as the law has them. */
static __always_inline void enforce(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	set_window(tp, pilot_window(&flow->pilot));
	pace_at(sk, scaled(pilot_pacing(&flow->pilot), tp->mss_cache, RAW_ONE), &flow->paces);
}

/* Segments marked lost since the last event. */
static __always_inline u32 newly_lost(struct flow *flow, struct tcp_sock *tp)
{
	u32 lost = tp->lost - flow->lost_seen;

	flow->lost_seen = tp->lost;
	return lost;
}

/* What an acknowledgement says. */
static __always_inline void hear(struct sock *sk, struct flow *flow, const struct rate_sample *rs, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 segments = tp->delivered - flow->delivered_seen, lost = newly_lost(flow, tp);
	long rtt_us = rs->rtt_us;
	struct pilot_ack ack = {
		.now = now,
		.acked = (s64)segments << RAW_BITS,
		.rtt = rtt_us > 0 ? rtt_us * NSEC_PER_USEC : 0,
		.srtt = (u64)tp->srtt_us * 125,
		.in_flight = in_flight_of(tp),
		.segments = segments,
		.limited = tcp_is_cwnd_limited(tp),
		.in_loss = ca_state(sk) == TCP_CA_Loss,
	};

	flow->delivered_seen = tp->delivered;
	if (lost || flow->episode)
		pilot_on_loss(&flow->pilot, now, lost, ack.in_flight, flow->episode);
	flow->episode = 0;
	pilot_on_ack(&flow->pilot, &ack);
}

SEC("struct_ops")
void BPF_PROG(pilot_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now;

	/* No memory was left for it: the window stays. */
	if (!flow)
		return;
	/* Of this ACK, and of the same clock as bpf_ktime_get_ns. */
	now = tp->tcp_mstamp * NSEC_PER_USEC;
	if (is_made_up(tp))
		mend(tp, pilot_window(&flow->pilot));
	if (!flow->pilot.began)
		pilot_sent(&flow->pilot, now, 0, in_flight_of(tp));
	pilot_catch_up(&flow->pilot, now, (s64)rs->prior_in_flight << RAW_BITS);
	hear(sk, flow, rs, now);
	enforce(sk, flow);
}

/* An episode of loss or marks begins. */
SEC("struct_ops")
u32 BPF_PROG(pilot_ssthresh, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	u32 window = tcp_sk(sk)->snd_cwnd;

	if (flow)
		flow->episode = 1;
	return window < 2 ? 2 : window;
}

SEC("struct_ops")
void BPF_PROG(pilot_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now = bpf_ktime_get_ns();

	if (!flow || new_state != TCP_CA_Loss)
		return;
	pilot_catch_up(&flow->pilot, now, flow->pilot.seen.in_flight);
	pilot_on_timeout(&flow->pilot, now, newly_lost(flow, tp), in_flight_of(tp));
	flow->episode = 0;
	/* tcp_enter_loss has set the window to one segment. */
	enforce(sk, flow);
}

SEC("struct_ops")
u32 BPF_PROG(pilot_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_sk(sk)->snd_cwnd;
	flow->pilot.ceiling = RAW_MOST;
	return pilot_window(&flow->pilot);
}

SEC("struct_ops")
void BPF_PROG(pilot_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *flow;
	u64 now;

	/* The first packet in flight. */
	if (event != CA_EVENT_TX_START)
		return;
	flow = flow_of(sk);
	if (!flow)
		return;
	now = bpf_ktime_get_ns();
	pilot_catch_up(&flow->pilot, now, 0);
	pilot_sent(&flow->pilot, now, 0, RAW_ONE);
	enforce(sk, flow);
}

SEC("struct_ops")
u32 BPF_PROG(pilot_min_tso_segs, struct sock *sk)
{
	return 1;
}

SEC("struct_ops")
void BPF_PROG(pilot_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow)
		return;
	flow->delivered_seen = tp->delivered;
	flow->lost_seen = tp->lost;
	pilot_open(&flow->pilot, tp->snd_cwnd, tp->snd_cwnd < tp->snd_ssthresh);
	enforce(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(pilot_release, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	if (flow->paces)
		sk->sk_pacing_status = SK_PACING_NONE;
	bpf_sk_storage_delete(&flows, sk);
}

/* User space writes the name and, unless asked otherwise, leaves the control to those with CAP_NET_ADMIN. */
SEC(".struct_ops.link")
struct tcp_congestion_ops pilot = {
	.name = "pilot",
	.init = (void *)pilot_init,
	.release = (void *)pilot_release,
	.ssthresh = (void *)pilot_ssthresh,
	.cong_control = (void *)pilot_cong_control,
	.set_state = (void *)pilot_set_state,
	.undo_cwnd = (void *)pilot_undo_cwnd,
	.cwnd_event = (void *)pilot_cwnd_event,
	.min_tso_segs = (void *)pilot_min_tso_segs,
};
