/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The scheme `pilot` in the kernel (pilot.h). Through cong_control Linux leaves all of the window to us: it stays as the law
 * set it, through recovery and timeouts.
 *
 * A struct_ops program runs at acknowledgements, timeouts and the start of sending alone. Periods that end in between are made
 * up for then, so that the law is that of a timer, but what it changes in silence takes effect with the next event.
 */
#include "kernel.h"
#include "intf.h"
#include "operate.h"
#include "skipped.h"

#define FIXED_FUNCTION __noinline
#define FIXED_NONNULL __arg_nonnull
#define PILOT_FOR(i, n) bpf_for(i, 0, n)
#include "pilot_numbers.h"

struct pilot_force force SEC(".data.force") = {};

#define numbers force.numbers
#include "pilot.h"
#undef numbers

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct config config SEC(".rodata.config");

struct flow {
	struct tally tally;
	struct pilot pilot;
	u64 acked_ns; /* the last ACK */
	u32 delivered_seen;
	u32 lost_seen;
	u32 prr_delivered;
	u8 episode; /* of losses or marks, which has begun */
	u8 paces;   /* we have set sk_pacing_status */
	u8 reduces; /* CUBIC's window is on its way down */
	u8 undone;
	u8 left; /* the law was taken away in the present recovery */
};

#include "operated.h"

static __always_inline bool over_cubic(struct flow *flow)
{
	return flow->tally.role != ROLE_POLICY;
}

static __always_inline u64 generation_now(void)
{
	return force.generation;
}

static __always_inline s64 in_flight_of(struct tcp_sock *tp)
{
	return (s64)tcp_packets_in_flight(tp) << RAW_BITS;
}

/* The law's pacing rate in bytes/s; 0 does not pace. */
static __always_inline u64 paced(struct flow *flow, struct tcp_sock *tp)
{
	return scaled(pilot_pacing(&flow->pilot), tp->mss_cache, RAW_ONE);
}

/* Window and pacing rate, as the law has them; CUBIC moves its window itself. */
static __always_inline void enforce(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (over_cubic(flow)) {
		pace_at(sk, 0, &flow->paces);
		return;
	}
	set_window(tp, pilot_window(&flow->pilot));
	pace_at(sk, paced(flow, tp), &flow->paces);
}

static __always_inline u32 leave(struct flow *flow, struct tcp_sock *tp, u32 window)
{
	return window_of_rate(tp, paced(flow, tp), window);
}

/* The law knows nothing yet but the smallest RTT of a living connection, which the kernel keeps (tcp_update_rtt_min): in a
 * queue that stands when it takes up it would hold that queue's RTT for the path's. */
static __always_inline void take_up(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	struct pilot *p = &flow->pilot;

	__builtin_memset(p, 0, sizeof(*p));
	pilot_open(p, window_of(flow, tp), tp->snd_cwnd < tp->snd_ssthresh);
	if (flow->acked_ns && tp->rtt_min.s[0].v != ~0U) {
		p->seen.base.present = (u64)tp->rtt_min.s[0].v * NSEC_PER_USEC;
		p->seen.base.since = now;
	}
	p->watches = flow->tally.role == ROLE_SHADOW;
	flow->delivered_seen = tp->delivered;
	flow->lost_seen = tp->lost;
	flow->episode = 0;
	if (!p->watches)
		flow->reduces = 0;
	if (tp->packets_out)
		pilot_sent(p, now, 0, in_flight_of(tp));
}

/* Segments marked lost since the last event. */
static __always_inline u32 newly_lost(struct flow *flow, struct tcp_sock *tp)
{
	u32 lost = tp->lost - flow->lost_seen;

	flow->lost_seen = tp->lost;
	return lost;
}

/* What a window of packets, in units of 2^-RAW_BITS, lets leave in a smoothed RTT, in bytes/s. */
static __always_inline u64 rate_of(struct tcp_sock *tp, u64 window)
{
	return scaled(scaled(window, tp->mss_cache, RAW_ONE), 1000000000, max64((u64)tp->srtt_us * 125, 1));
}

static __always_inline void compare_with(struct flow *flow, struct tcp_sock *tp, struct stats *stats)
{
	u64 policy = rate_of(tp, flow->pilot.window), most = paced(flow, tp);

	if (most && most < policy)
		policy = most;
	compare(&flow->tally, stats, policy, rate_of(tp, (u64)tp->snd_cwnd << RAW_BITS));
}

/* Periods of the law have ended. */
static __noinline int decide(struct sock *sk, struct flow *flow, u64 now, s64 in_flight)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tally *tally = &flow->tally;
	struct stats *stats = stats_here();
	u64 begun = bpf_ktime_get_ns();
	u32 periods;

	if (!stats)
		return 0;
	if (tally->generation != force.generation)
		follow_policy(sk, tally, force.generation, now);
	periods = pilot_catch_up(&flow->pilot, now, in_flight);
	tally->decisions += periods;
	__sync_fetch_and_add(&stats->periods, periods);
	__sync_fetch_and_add(&stats->decisions, periods);
	if (tally->role == ROLE_SHADOW && rtt_min_of(&flow->pilot.seen))
		compare_with(flow, tp, stats);
	count_time(stats, begun);
	return 0;
}

static __always_inline void decide_if_due(struct sock *sk, struct flow *flow, u64 now, s64 in_flight)
{
	if (decides(&flow->tally) && pilot_due(&flow->pilot, now))
		decide(sk, flow, now, in_flight);
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

/* CUBIC moves its window by an ACK. */
static __always_inline void steer(struct sock *sk, struct flow *flow, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool reduces = reducing(ca_state(sk));

	end_reduction(flow, tp, reduces);
	flow->reduces = reduces;
	if (reduces)
		reduce(tp, &flow->prr_delivered, flag, rs);
	else if (may_grow(tp, flag))
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
}

SEC("struct_ops")
void BPF_PROG(pilot_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now;

	if (!flow) {
		cubic_alone(sk, ack, rs);
		return;
	}
	/* Of this ACK, and of the same clock as bpf_ktime_get_ns. */
	now = tp->tcp_mstamp * NSEC_PER_USEC;
	flow->acked_ns = now;
	if (is_made_up(tp))
		mend(tp, over_cubic(flow) ? cubic_reduced(tp->prior_cwnd) : pilot_window(&flow->pilot));
	if (flow->tally.version != operation.version)
		follow_operation(sk, flow, now);
	if (decides(&flow->tally)) {
		if (!flow->pilot.began)
			pilot_sent(&flow->pilot, now, 0, in_flight_of(tp));
		decide_if_due(sk, flow, now, (s64)rs->prior_in_flight << RAW_BITS);
		hear(sk, flow, rs, now);
	}
	tally_ack(&flow->tally, tp, rs->rtt_us, now);
	if (over_cubic(flow))
		steer(sk, flow, ack, flag, rs);
	enforce(sk, flow);
}

/* An episode of loss or marks begins. */
SEC("struct_ops")
u32 BPF_PROG(pilot_ssthresh, struct sock *sk)
{
	struct flow *flow = flow_of(sk);
	u32 window = tcp_sk(sk)->snd_cwnd;

	if (!flow)
		return cubictcp_recalc_ssthresh(sk);
	flow->episode = 1;
	flow->prr_delivered = 0;
	flow->undone = 0;
	flow->left = 0;
	if (over_cubic(flow))
		return cubictcp_recalc_ssthresh(sk);
	return window < 2 ? 2 : window;
}

SEC("struct_ops")
void BPF_PROG(pilot_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now = bpf_ktime_get_ns();

	cubictcp_state(sk, new_state);
	if (!flow)
		return;
	if (new_state != TCP_CA_Loss) {
		if (reducing(new_state) && over_cubic(flow))
			flow->reduces = 1;
		return;
	}
	flow->reduces = 0;
	if (!decides(&flow->tally))
		return;
	decide_if_due(sk, flow, now, flow->pilot.seen.in_flight);
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
		return tcp_reno_undo_cwnd(sk);
	flow->undone = 1;
	flow->pilot.ceiling = RAW_MOST;
	return over_cubic(flow) ? cubic_undone(sk, flow) : pilot_window(&flow->pilot);
}

SEC("struct_ops")
void BPF_PROG(pilot_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;
	u64 now, halvings;

	cubictcp_cwnd_event(sk, event);
	/* The first packet in flight. */
	if (event != CA_EVENT_TX_START)
		return;
	flow = flow_of(sk);
	if (!flow)
		return;
	now = bpf_ktime_get_ns();
	if (!flow->tally.busy_since_ns)
		flow->tally.busy_since_ns = now;
	decide_if_due(sk, flow, now, 0);
	if (decides(&flow->tally))
		pilot_sent(&flow->pilot, now, 0, RAW_ONE);
	halvings = idle_halvings_of(flow, tp, now);
	if (halvings) {
		restart(tp, halvings);
		flow->acked_ns = now;
	}
	enforce(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(pilot_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = flow_of(sk);

	if (!flow || over_cubic(flow))
		cubictcp_acked(sk, sample);
}

SEC("struct_ops")
u32 BPF_PROG(pilot_min_tso_segs, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	return flow && !over_cubic(flow) ? 1 : 2;
}

SEC("struct_ops")
void BPF_PROG(pilot_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct stats *stats = stats_here();
	struct flow *flow;
	u64 now = bpf_ktime_get_ns();

	cubictcp_init(sk);
	if (!stats)
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return;
	open_record(&flow->tally, sk, force.generation, now);
	take_up(flow, tp, now);
	__sync_fetch_and_add(&stats->opened, 1);
	enforce(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(pilot_release, struct sock *sk)
{
	struct stats *stats = stats_here();
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	if (flow->paces)
		sk->sk_pacing_status = SK_PACING_NONE;
	end_record(&flow->tally, sk, ENDED_CLOSED, bpf_ktime_get_ns());
	bpf_sk_storage_delete(&flows, sk);
	if (stats)
		__sync_fetch_and_add(&stats->closed, 1);
}

CONGESTION_CONTROL(pilot);
