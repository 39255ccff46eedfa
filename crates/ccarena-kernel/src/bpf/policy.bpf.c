/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A learned congestion control that thinks in the kernel: clock, signals, network, actuator and base, as the image of a
 * policy says (learned.h). Nobody in user space is asked. Another image takes over while sockets live: they see it at the
 * end of their next period.
 *
 * Through cong_control Linux leaves all of the window to us (window.h), as in bridge.bpf.c.
 */
#include "kernel.h"
#include "intf.h"

const volatile struct config config SEC(".rodata.config");

#include "cubic.h"
#include "option.h"
#include "skipped.h"

#define FIXED_FUNCTION __noinline
#define FIXED_NONNULL __arg_nonnull
#define CCARENA_FUNCTION __noinline
#define CCARENA_FOR(i, n) bpf_for(i, 0, n)
#define CCARENA_LOCAL static __noinline
#define CCARENA_IN_TURN(sum) asm volatile("" : "+r"(sum)::"memory")
#define CCARENA_AT(i, length) ((i) & ((length) - 1))
#include "policy.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct flow {
	u64 first_acked; /* bytes_acked when the flow began */
	u64 delivered_bytes;
	u64 sent_bytes_seen;
	u64 acked_ns;
	u32 delivered_seen;
	u32 lost_seen;
	u32 sent_seen;
	u32 prr_delivered;
	u8 reduces; /* the window is on its way down */
	u8 undone;
	u8 paces; /* we have set sk_pacing_status */
	u8 unused[5];
	struct learned learned;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

struct image_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct image);
};

/* The policy. User space replaces the inner map, whose content never changes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct image_map);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stats);
} statistics SEC(".maps");

/* Reports of decisions, if the image wants them; sized by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} reports SEC(".maps");

/* Room to work. Softirqs and preemption nest decisions on one CPU, so each takes a room of its own. */
#define ROOMS 4

struct room {
	u32 taken;
	u32 unused;
	s32 values[IMAGE_VALUES + IMAGE_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROOMS);
	__type(key, u32);
	__type(value, struct room);
} rooms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct trial);
} trials SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static __always_inline struct image *image_now(void)
{
	u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&images, &zero);

	return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

static __always_inline struct stats *stats_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&statistics, &zero);
}

static __always_inline struct room *enter_room(void)
{
	u32 i;

	for (i = 0; i < ROOMS; i++) {
		u32 key = i;
		struct room *room = bpf_map_lookup_elem(&rooms, &key);

		if (room && !__sync_val_compare_and_swap(&room->taken, 0, 1))
			return room;
	}
	return NULL;
}

static __always_inline void leave_room(struct room *room)
{
	*(volatile u32 *)&room->taken = 0;
}

static __always_inline bool over_cubic(struct flow *flow)
{
	return flow->learned.base == BASE_OVER_CUBIC;
}

static __always_inline u32 segments(struct flow *flow)
{
	u64 window = flow->learned.window >> WINDOW_BITS;

	return window < 1 ? 1 : window < LARGEST_WINDOW ? window : LARGEST_WINDOW;
}

static __always_inline void open_policy(struct ccarena_policy *policy, const struct image *image)
{
	policy->steps = image->steps;
	policy->weights = image->weights;
	policy->constants = image->constants;
	policy->steps_length = image->steps_length;
}

/* Functions of their own, which the verifier looks at once. */
__noinline int run_network(const struct image *image __arg_nonnull, struct learned_state *state __arg_nonnull,
			   struct room *room __arg_nonnull)
{
	struct ccarena_policy policy;

	open_policy(&policy, image);
	return infer(image, &policy, state->numbers, room->values);
}

__noinline int look(struct learned *learned __arg_nonnull, const struct image *image __arg_nonnull,
		    const struct measured *m __arg_nonnull, struct room *room __arg_nonnull)
{
	struct ccarena_policy policy;

	open_policy(&policy, image);
	return observe(learned, image, &policy, m, room->values);
}

static __always_inline void decide(struct learned *learned, struct image *image, struct measured *m, struct stats *stats)
{
	struct room *room = enter_room();
	u32 seen;
	s32 answer;

	if (!room) {
		__sync_fetch_and_add(&stats->missed, 1);
		return;
	}
	seen = look(learned, image, m, room);
	if (seen & SEEN_BEYOND)
		__sync_fetch_and_add(&stats->beyond, 1);
	if (seen & SEEN_OUTSIDE)
		__sync_fetch_and_add(&stats->outside, 1);
	answer = run_network(image, &learned->state, room);
	leave_room(room);
	if (act(learned, image, action_value(image, answer)))
		__sync_fetch_and_add(&stats->held, 1);
}

/* Tells user space what the period was like. */
static __always_inline void report(const struct learned *learned, const struct image *image, struct stats *stats)
{
	if (image->reports_length && bpf_ringbuf_output(&reports, (void *)learned->report, sizeof(learned->report), 0))
		__sync_fetch_and_add(&stats->unreported, 1);
}

/* The present period ends, and the policy decides if the clock asks it. */
static __noinline int end_period(struct sock *sk, struct flow *flow, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct learned *learned = &flow->learned;
	struct image *image = image_now();
	struct stats *stats = stats_here();
	u64 begun = bpf_ktime_get_ns(), spent;
	struct signal *signal;
	struct measured m;
	u32 before = tp->snd_cwnd, window;

	if (!image || !stats)
		return 0;
	if (learned->generation != image->generation)
		learned_follow(learned, image);
	learned->srtt_ns = (u64)tp->srtt_us * 125;
	learned->mss = tp->mss_cache;
	learned->advertised_kbps = image->desired_kbps;
	if (config.option) {
		signal = bpf_sk_storage_get(&signals, sk, 0, 0);
		if (signal && signal->advertised_kbps && signal->advertised_kbps < learned->advertised_kbps)
			learned->advertised_kbps = signal->advertised_kbps;
	}
	if (over_cubic(flow))
		learned->window = (u64)before << WINDOW_BITS;
	__sync_fetch_and_add(&stats->periods, 1);
	if (!learned_end(learned, image, &m, now)) {
		__sync_fetch_and_add(&stats->cases[learned->reasoner.situation & 7], 1);
		return 0;
	}
	__sync_fetch_and_add(&stats->cases[learned->reasoner.situation & 7], 1);
	if (over_cubic(flow)) {
		if (flow->reduces) {
			before = tp->snd_ssthresh;
			learned->window = (u64)before << WINDOW_BITS;
		}
	} else {
		__sync_fetch_and_add(&stats->zones[zone_of(learned, &m, ns_of(image->base_options[0])) & 3], 1);
	}
	report(learned, image, stats);
	decide(learned, image, &m, stats);
	window = segments(flow);
	if (over_cubic(flow)) {
		if (window != before)
			cubic_move(sk, window, flow->reduces, window < before);
	} else if (flow->reduces) {
		tp->snd_ssthresh = window < 2 ? 2 : window;
	} else {
		set_window(tp, window);
	}
	spent = bpf_ktime_get_ns() - begun;
	__sync_fetch_and_add(&stats->decisions, 1);
	__sync_fetch_and_add(&stats->ns, spent);
	if (spent > stats->ns_most)
		stats->ns_most = spent;
	return 0;
}

/* Adds what an ACK says. */
static __always_inline void measure(struct flow *flow, struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct period *period = &flow->learned.period;
	u32 mss = tp->mss_cache, delivered = tp->delivered, lost = tp->lost;
	u64 bytes = tp->bytes_acked - flow->first_acked + (u64)tp->sacked_out * mss;
	long rtt_us = rs->rtt_us;

	period->acked += delivered - flow->delivered_seen;
	period->lost += lost - flow->lost_seen;
	period->lost_bytes += (u64)(lost - flow->lost_seen) * mss;
	period->sent += tp->data_segs_out - flow->sent_seen;
	period->sent_bytes += tp->bytes_sent - flow->sent_bytes_seen;
	flow->sent_seen = tp->data_segs_out;
	flow->sent_bytes_seen = tp->bytes_sent;
	flow->delivered_seen = delivered;
	flow->lost_seen = lost;
	/* Short segments count as full ones while they are only SACKed: never count backwards. */
	if ((s64)(bytes - flow->delivered_bytes) > 0) {
		period->acked_bytes += bytes - flow->delivered_bytes;
		flow->delivered_bytes = bytes;
	}
	if (rtt_us > 0) {
		u64 rtt_ns = rtt_us * NSEC_PER_USEC;

		period->rtt_ns += rtt_ns;
		period->rtt_count++;
		if (!flow->learned.rtt_min_ns || rtt_ns < flow->learned.rtt_min_ns)
			flow->learned.rtt_min_ns = rtt_ns;
	}
}

static __always_inline void steer(struct sock *sk, struct flow *flow, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool reduces = reducing(ca_state(sk));

	if (is_made_up(tp))
		mend(tp, over_cubic(flow) ? cubic_reduced(tp->prior_cwnd) : segments(flow));
	/* tcp_end_cwnd_reduction, which leaves this to cong_control. */
	if (over_cubic(flow) && flow->reduces && !reduces && !flow->undone && tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		set_window(tp, tp->snd_ssthresh);
	flow->reduces = reduces;

	if (reduces) {
		reduce(tp, &flow->prr_delivered, flag, rs);
	} else if (over_cubic(flow)) {
		if (may_grow(tp, flag))
			cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	} else {
		if (may_grow(tp, flag) && tcp_is_cwnd_limited(tp))
			learned_grow(&flow->learned, rs->acked_sacked);
		set_window(tp, segments(flow));
	}
}

/* As the base wants. */
static __always_inline void pace(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	flow->learned.srtt_ns = (u64)tp->srtt_us * 125;
	flow->learned.mss = tp->mss_cache;
	if (over_cubic(flow))
		flow->learned.window = (u64)tp->snd_cwnd << WINDOW_BITS;
	pace_at(sk, learned_pacing(&flow->learned), &flow->paces);
}

static __always_inline void start(struct flow *flow, u64 now)
{
	struct image *image = image_now();

	if (image)
		learned_start(&flow->learned, image, now);
}

SEC("struct_ops")
void BPF_PROG(policy_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now, snd_una, snd_nxt;

	if (!flow) {
		cubic_alone(sk, ack, rs);
		return;
	}
	/* Of this ACK, and of the same clock as bpf_ktime_get_ns. */
	now = tp->tcp_mstamp * NSEC_PER_USEC;
	flow->acked_ns = now;
	if (!flow->learned.begun)
		start(flow, now);
	measure(flow, tp, rs);
	steer(sk, flow, ack, flag, rs);
	snd_una = tp->bytes_acked - flow->first_acked;
	if (learned_rings(&flow->learned, now, snd_una)) {
		if (flow->learned.clock != CLOCK_WINDOW || flow->learned.mark)
			end_period(sk, flow, now);
		snd_nxt = snd_una + (u32)(tp->snd_nxt - tp->snd_una);
		flow->learned.mark = snd_nxt > snd_una ? snd_nxt : snd_una + 1;
	}
	pace(sk, flow);
}

/* An episode of loss or marks begins. */
SEC("struct_ops")
u32 BPF_PROG(policy_ssthresh, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return cubictcp_recalc_ssthresh(sk);
	flow->prr_delivered = 0;
	flow->undone = 0;
	if (over_cubic(flow))
		return cubictcp_recalc_ssthresh(sk);
	learned_halve(&flow->learned);
	return segments(flow) < 2 ? 2 : segments(flow);
}

SEC("struct_ops")
void BPF_PROG(policy_set_state, struct sock *sk, u8 new_state)
{
	struct flow *flow = flow_of(sk);

	cubictcp_state(sk, new_state);
	if (!flow)
		return;
	if (new_state == TCP_CA_Loss) {
		flow->reduces = 0;
		if (!over_cubic(flow))
			flow->learned.window = WINDOW_ONE;
	} else if (reducing(new_state)) {
		flow->reduces = 1;
	}
}

SEC("struct_ops")
u32 BPF_PROG(policy_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_reno_undo_cwnd(sk);
	flow->undone = 1;
	return over_cubic(flow) ? tcp_reno_undo_cwnd(sk) : segments(flow);
}

SEC("struct_ops")
void BPF_PROG(policy_cwnd_event, struct sock *sk, enum tcp_ca_event event)
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
	if (!flow->learned.begun)
		start(flow, now);
	if (!flow->acked_ns || !over_cubic(flow))
		return;
	halvings = idle_halvings(tp, now - flow->acked_ns);
	if (!halvings)
		return;
	restart(tp, halvings);
	flow->acked_ns = now;
}

SEC("struct_ops")
void BPF_PROG(policy_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = flow_of(sk);

	if (!flow || over_cubic(flow))
		cubictcp_acked(sk, sample);
}

SEC("struct_ops")
u32 BPF_PROG(policy_min_tso_segs, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	return flow && flow->paces && !over_cubic(flow) ? 1 : 2;
}

SEC("struct_ops")
void BPF_PROG(policy_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct image *image = image_now();
	struct stats *stats = stats_here();
	struct signal *signal;
	struct flow *flow;

	cubictcp_init(sk);
	if (!image || !stats)
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return;
	/* In mid-connection, what was before is not ours. */
	flow->first_acked = tp->bytes_acked;
	flow->delivered_bytes = (u64)tp->sacked_out * tp->mss_cache;
	flow->delivered_seen = tp->delivered;
	flow->lost_seen = tp->lost;
	flow->sent_seen = tp->data_segs_out;
	flow->sent_bytes_seen = tp->bytes_sent;
	learned_take(&flow->learned, image, tp->snd_cwnd);
	if (config.option) {
		signal = bpf_sk_storage_get(&signals, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (signal)
			signal->desired_kbps = image->desired_kbps < 0xffffffff ? image->desired_kbps : 0xffffffff;
	}
	__sync_fetch_and_add(&stats->opened, 1);
	pace(sk, flow);
}

SEC("struct_ops")
void BPF_PROG(policy_release, struct sock *sk)
{
	struct stats *stats = stats_here();
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	if (flow->paces)
		sk->sk_pacing_status = SK_PACING_NONE;
	bpf_sk_storage_delete(&flows, sk);
	bpf_sk_storage_delete(&signals, sk);
	if (stats)
		__sync_fetch_and_add(&stats->closed, 1);
}

/* Decides on the rows of `trials`. */
SEC("syscall")
int replay(void *ctx)
{
	u32 zero = 0, row, i;
	struct trial *trial = bpf_map_lookup_elem(&trials, &zero);
	struct image *image = image_now();
	struct ccarena_policy policy;
	struct room *room;
	u64 begun;

	if (!trial || !image)
		return 1;
	room = enter_room();
	if (!room)
		return 2;
	open_policy(&policy, image);
	trial->ns = 0;
	bpf_for(row, 0, trial->rows) {
		u32 r = row & (TRIAL_ROWS - 1);

		begun = bpf_ktime_get_ns();
		bpf_for(i, 0, image->observation)
			room->values[i & (IMAGE_VALUES - 1)] =
				ccarena_normalise(&policy, i, trial->observations[r][i & (IMAGE_OBSERVATION - 1)]);
		run_network(image, &trial->states[r], room);
		trial->ns += bpf_ktime_get_ns() - begun;
		bpf_for(i, 0, image->outputs)
			trial->outputs[r][i & (IMAGE_ACTIONS - 1)] = room->values[(image->output + i) & (IMAGE_VALUES - 1)];
	}
	leave_room(room);
	return 0;
}

/* User space writes the name and, unless asked otherwise, leaves the control to those with CAP_NET_ADMIN. */
SEC(".struct_ops.link")
struct tcp_congestion_ops policy = {
	.name = "policy",
	.init = (void *)policy_init,
	.release = (void *)policy_release,
	.ssthresh = (void *)policy_ssthresh,
	.cong_control = (void *)policy_cong_control,
	.set_state = (void *)policy_set_state,
	.undo_cwnd = (void *)policy_undo_cwnd,
	.cwnd_event = (void *)policy_cwnd_event,
	.pkts_acked = (void *)policy_pkts_acked,
	.min_tso_segs = (void *)policy_min_tso_segs,
};
