/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A congestion control that measures, tells user space, and does what it answers; without an answer in time, the
 * kernel's CUBIC. intf.h says what passes.
 *
 * Through cong_control Linux leaves all of the window to us (window.h).
 */
#define FIXED_FUNCTION __noinline
#define FIXED_NONNULL __arg_nonnull
#include "flow.h"
#include "cubic.h"
#include "option.h"
#include "skipped.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Numbers flows whose socket has no cookie yet. */
u64 opened;

static __always_inline bool cubic(struct flow *flow)
{
	return flow->fallback || flow->answer.base == BASE_CUBIC;
}

static __always_inline bool owns_recovery(struct flow *flow)
{
	return !cubic(flow) && flow->answer.flags & ANSWER_OWNS_RECOVERY;
}

/* The kernel's CUBIC takes over at the present window, without another slow start. */
static __always_inline void begin_cubic(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	cubictcp_init(sk);
	if (flow->answer.sequence && tp->snd_ssthresh > tp->snd_cwnd && !flow->reduces)
		tp->snd_ssthresh = tp->snd_cwnd > 2 ? tp->snd_cwnd : 2;
}

static __always_inline void multiply(struct sock *sk, struct flow *flow, u32 multiplier)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 window = flow->reduces ? tp->snd_ssthresh : tp->snd_cwnd;

	window = (window * multiplier + 500) / 1000;
	window = window < 2 ? 2 : window < TCP_INFINITE_SSTHRESH ? window : TCP_INFINITE_SSTHRESH;
	cubic_move(sk, window, flow->reduces, multiplier < 1000);
}

static __always_inline void put_in_force(struct sock *sk, struct flow *flow, struct answer *new, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool was_cubic = cubic(flow), fresh = new->report >= flow->barrier;

	flow->answer = *new;
	flow->enforced_ns = now;
	flow->asked_ns = 0;
	flow->fallback = 0;
	if (reasons(flow))
		quietly = 1;
	else
		flow->ends_ns = 0;
	if (cubic(flow)) {
		if (!was_cubic)
			begin_cubic(sk, flow);
		if (fresh && new->multiplier != 1000)
			multiply(sk, flow, new->multiplier);
	} else if (fresh && new->window_packets) {
		/* In recovery the window is where proportional rate reduction leads. */
		if (flow->reduces && !owns_recovery(flow))
			tp->snd_ssthresh = new->window_packets;
		else
			set_window(tp, new->window_packets);
	}
	if (fresh && new->ssthresh_packets && (cubic(flow) || !flow->reduces))
		tp->snd_ssthresh = new->ssthresh_packets;
}

static __always_inline void take_answer(struct sock *sk, struct flow *flow, u64 now)
{
	struct answer *entry = flow->silent ? NULL : bpf_map_lookup_elem(&answers, &flow->id), new;
	struct signal *signal;
	bool desires;

	if (!entry)
		return;
	desires = config.option && entry->desired_kbps && entry->desired_kbps != flow->answer.desired_kbps;
	if (!desires && entry->sequence == flow->answer.sequence)
		return;
	new = *entry;
	/* While it is read the entry may be replaced, and its memory become another flow's: the next ACK looks again. */
	barrier();
	if (new.flow != flow->id || *(volatile u64 *)&entry->flow != flow->id ||
	    *(volatile u64 *)&entry->sequence != new.sequence)
		return;
	if (desires) {
		signal = bpf_sk_storage_get(&signals, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (signal) {
			signal->desired_kbps = new.desired_kbps;
			flow->answer.desired_kbps = new.desired_kbps;
		}
	}
	if (new.sequence != flow->answer.sequence)
		put_in_force(sk, flow, &new, now);
}

/* An answer waits for the next ACK. */
static __always_inline bool is_answered(struct flow *flow)
{
	struct answer *entry = bpf_map_lookup_elem(&answers, &flow->id);

	return entry && entry->flow == flow->id && entry->sequence != flow->answer.sequence;
}

/* Nobody answers: nothing of ours may hold the socket. */
static __always_inline void fall_back_if_late(struct sock *sk, struct flow *flow, u64 now)
{
	u32 interval_us = flow->answer.interval_us;
	u64 deadline_ns;

	if (!flow->asked_ns || flow->fallback)
		return;
	if (interval_us == INTERVAL_WINDOW)
		interval_us = tcp_sk(sk)->srtt_us >> 3;
	deadline_ns = 4 * interval_us * NSEC_PER_USEC;
	if (now - flow->asked_ns < (deadline_ns > config.deadline_ns ? deadline_ns : config.deadline_ns) || is_answered(flow))
		return;
	if (!cubic(flow))
		begin_cubic(sk, flow);
	flow->fallback = 1;
}

/* `alpha` thousandths of a segment per window of acknowledged data. */
static __always_inline void extrapolate(struct tcp_sock *tp, struct flow *flow, u32 acked)
{
	u64 per_growth = (u64)tp->snd_cwnd * 1000, credit = flow->credit + (u64)acked * flow->answer.alpha;

	if (!flow->answer.alpha || !tcp_is_cwnd_limited(tp))
		return;
	if (per_growth && credit >= per_growth) {
		u64 window = tp->snd_cwnd + credit / per_growth;

		credit %= per_growth;
		set_window(tp, window < TCP_INFINITE_SSTHRESH ? window : TCP_INFINITE_SSTHRESH);
	}
	flow->credit = credit < 0xffffffff ? credit : 0xffffffff;
}

static __always_inline void steer(struct sock *sk, struct flow *flow, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool reduces = reducing(ca_state(sk));

	if (is_made_up(tp))
		mend(tp, cubic(flow) ? cubic_reduced(tp->prior_cwnd) : (u64)tp->prior_cwnd * flow->answer.beta / 1000);
	/* tcp_end_cwnd_reduction, which leaves this to cong_control. */
	if (flow->reduces && !reduces && !flow->undone && !owns_recovery(flow) &&
	    tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		set_window(tp, tp->snd_ssthresh);
	flow->reduces = reduces;

	if (reduces && !owns_recovery(flow))
		reduce(tp, &flow->prr_delivered, flag, rs);
	else if (reduces || !may_grow(tp, flag))
		return;
	else if (cubic(flow))
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	else
		extrapolate(tp, flow, rs->acked_sacked);
}

static __always_inline void pace(struct sock *sk, struct flow *flow)
{
	pace_at(sk, flow->fallback ? 0 : flow->answer.pacing_bytes_per_s, &flow->paces);
}

static __always_inline bool is_due(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	u32 interval_us = flow->answer.interval_us, default_us = tp->srtt_us >> 6;

	if (flow->pending)
		return true;
	/* ACKs without news, as a receiver gets with data, make no report. */
	if (!flow->sums.acked || reasons(flow))
		return false;
	if (interval_us == INTERVAL_WINDOW)
		return tp->bytes_acked - flow->first_acked >= flow->end;
	if (!interval_us)
		interval_us = default_us > 1000 ? default_us : 1000;
	return now - flow->begun_ns >= interval_us * NSEC_PER_USEC;
}

SEC("struct_ops")
void BPF_PROG(bridge_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now;

	if (!flow) {
		cubic_alone(sk, ack, rs);
		return;
	}
	now = bpf_ktime_get_ns();
	flow->acked_ns = now;
	if (flow->pending & FLAG_RECOVERY && flag & ACK_ECE)
		flow->pending ^= FLAG_RECOVERY | FLAG_ECN;
	measure(flow, tp, rs);
	take_answer(sk, flow, now);
	fall_back_if_late(sk, flow, now);
	steer(sk, flow, ack, flag, rs);
	pace(sk, flow);
	if (reasons(flow))
		end_period(flow, tp, now);
	if (is_due(flow, tp, now))
		tell(sk, flow, EVENT_REPORT, ca_state(sk), now);
}

/* An episode of loss or marks begins. */
SEC("struct_ops")
u32 BPF_PROG(bridge_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 window;

	if (!flow)
		return cubictcp_recalc_ssthresh(sk);
	flow->pending |= FLAG_EPISODE;
	flow->barrier = flow->sequence;
	flow->prr_delivered = 0;
	flow->credit = 0;
	flow->undone = 0;
	if (cubic(flow))
		return cubictcp_recalc_ssthresh(sk);
	window = (u64)tp->snd_cwnd * flow->answer.beta / 1000;
	return window < 2 ? 2 : window < TCP_INFINITE_SSTHRESH ? window : TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops")
void BPF_PROG(bridge_set_state, struct sock *sk, u8 new_state)
{
	struct flow *flow = flow_of(sk);
	u32 old = ca_state(sk);
	u64 now;

	cubictcp_state(sk, new_state);
	if (!flow)
		return;
	if (new_state == TCP_CA_Loss) {
		/* No ACK may follow for long: tell now. */
		now = bpf_ktime_get_ns();
		flow->pending |= FLAG_TIMEOUT;
		flow->barrier = flow->sequence;
		flow->credit = 0;
		flow->reduces = 0;
		flow->sums.lost += tcp_sk(sk)->lost - flow->lost_seen;
		flow->lost_seen = tcp_sk(sk)->lost;
		fall_back_if_late(sk, flow, now);
		tell(sk, flow, EVENT_REPORT, new_state, now);
	} else if (reducing(new_state)) {
		flow->pending |= FLAG_RECOVERY;
		flow->reduces = 1;
	} else if (new_state < TCP_CA_CWR && old >= TCP_CA_CWR) {
		flow->pending |= FLAG_LEFT;
	}
}

SEC("struct_ops")
u32 BPF_PROG(bridge_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (flow) {
		flow->pending |= FLAG_SPURIOUS;
		flow->barrier = flow->sequence;
		flow->undone = 1;
		if (owns_recovery(flow))
			return tcp_sk(sk)->snd_cwnd;
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(bridge_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;
	u64 now, halvings;

	cubictcp_cwnd_event(sk, event);
	if (event != CA_EVENT_TX_START)
		return;
	flow = flow_of(sk);
	if (!flow)
		return;
	now = bpf_ktime_get_ns();
	if (!flow->acked_ns) {
		if (reasons(flow))
			end_period(flow, tp, now);
		return;
	}
	halvings = idle_halvings(tp, now - flow->acked_ns);
	if (!halvings)
		return;
	if (cubic(flow))
		restart(tp, halvings);
	flow->pending |= FLAG_RESTART;
	tell(sk, flow, EVENT_REPORT, ca_state(sk), now);
	flow->acked_ns = now;
}

SEC("struct_ops")
void BPF_PROG(bridge_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = flow_of(sk);

	if (!flow || cubic(flow))
		cubictcp_acked(sk, sample);
}

SEC("struct_ops")
u32 BPF_PROG(bridge_min_tso_segs, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow || !flow->paces)
		return 2;
	/* A new rate counts from the next burst on, not from the next ACK. */
	take_answer(sk, flow, bpf_ktime_get_ns());
	pace(sk, flow);
	return flow->answer.min_burst ? flow->answer.min_burst : 2;
}

SEC("struct_ops")
void BPF_PROG(bridge_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;
	u64 now = bpf_ktime_get_ns(), cookie = sk->__sk_common.skc_cookie.counter;
	u64 in_flight = tp->snd_nxt - tp->snd_una;

	cubictcp_init(sk);
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return;
	flow->id = cookie ? cookie : 1ull << 63 | __sync_fetch_and_add(&opened, 1);
	flow->begun_ns = now;
	/* In mid-connection, what was before is not ours, but for what is in flight. */
	flow->first_acked = tp->bytes_acked;
	flow->first_sent = tp->bytes_sent - (in_flight < tp->bytes_sent ? in_flight : tp->bytes_sent);
	flow->first_retransmitted = tp->bytes_retrans;
	flow->sent_seen = tp->data_segs_out - tp->packets_out;
	flow->delivered_bytes = (u64)tp->sacked_out * tp->mss_cache;
	flow->delivered_seen = tp->delivered;
	flow->lost_seen = tp->lost;
	flow->ce_seen = tp->delivered_ce;
	flow->fallback = 1;
	flow->answer.beta = 1000;
	flow->uid = sk->sk_uid.val;
	flow->silent = !enter(flow->uid, now);
	take_answer(sk, flow, now);
	pace(sk, flow);
	tell(sk, flow, EVENT_OPENED, ca_state(sk), now);
}

SEC("struct_ops")
void BPF_PROG(bridge_release, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	flow->closed = 1;
	tell(sk, flow, EVENT_CLOSED, ca_state(sk), bpf_ktime_get_ns());
	if (!flow->silent) {
		bpf_map_delete_elem(&answers, &flow->id);
		leave(flow->uid);
	}
	if (flow->paces)
		sk->sk_pacing_status = SK_PACING_NONE;
	bpf_sk_storage_delete(&flows, sk);
	bpf_sk_storage_delete(&signals, sk);
}

/* The list of flows: a struct event for each, to whoever reads it. */
SEC("iter/bpf_sk_storage_map")
int list(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct flow *flow = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;
	struct event e;

	if (!sk || !flow || flow->silent || flow->closed)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	describe(&e, tp, flow, EVENT_LISTED, ca_state((struct sock *)tp), bpf_ktime_get_ns());
	bpf_seq_write(ctx->meta->seq, &e, sizeof(e));
	return 0;
}

CONGESTION_CONTROL(bridge);
