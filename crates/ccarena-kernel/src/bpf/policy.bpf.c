/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A learned congestion control in the kernel: clock, signals, network, actuator and base, as the image of a policy says
 * (learned.h). No decision waits for user space. Another image takes over while sockets live: they see it at the end of
 * their next period.
 *
 * Through cong_control Linux leaves all of the window to us (window.h), as in bridge.bpf.c.
 */
#include "kernel.h"
#include "intf.h"

const volatile struct config config SEC(".rodata.config");

#include "option.h"
#include "skipped.h"

#define FIXED_FUNCTION __noinline
#define FIXED_NONNULL __arg_nonnull
#define CCARENA_FUNCTION __noinline
#define CCARENA_FOR(i, n) bpf_for(i, 0, n)
#define CCARENA_DOT(weights, values, first, from, inputs) \
	dots((const struct all_weights *)(weights), (const struct all_values *)(values), first, from, inputs)
#define CCARENA_IN_TURN(sum) asm volatile("" : "+r"(sum)::"memory")
#define CCARENA_AT(i, length) ((i) & ((length) - 1))
struct all_weights;
struct all_values;
s64 dots(const struct all_weights *weights, const struct all_values *values, u32 first, u32 from, u32 inputs);

#include "policy.h"
#include "policy_flow.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

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

static __always_inline struct image *image_now(void)
{
	u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&images, &zero);

	return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

static __always_inline u64 generation_now(void)
{
	struct image *image = image_now();

	return image ? image->generation : 0;
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

/* Then `learned.window` is the policy's wish, which starts from the window at each decision. */
static __always_inline bool over_cubic(struct flow *flow)
{
	return flow->tally.role != ROLE_POLICY || flow->learned.base == BASE_OVER_CUBIC;
}

static __always_inline u32 segments(struct flow *flow)
{
	return min64(whole_window(&flow->learned), LARGEST_WINDOW);
}

/* CUBIC moves a window of its own, of which the socket has no more than the policy's cap. */
static __always_inline void uncap(struct flow *flow, struct tcp_sock *tp)
{
	if (flow->uncapped)
		tp->snd_cwnd = flow->uncapped;
	flow->uncapped = 0;
}

static __always_inline void cap(struct flow *flow, struct tcp_sock *tp, bool reduces)
{
	u64 most = flow->learned.cap >> WINDOW_BITS;
	u32 window = tp->snd_cwnd;

	if (flow->tally.role != ROLE_POLICY || most >= window)
		return;
	/* On its way down it is nobody's. */
	flow->uncapped = reduces ? 0 : window;
	set_window(tp, most);
}

/* The window stays as the policy set it, through recovery and timeouts. */
static __always_inline bool owns_recovery(struct flow *flow)
{
	return flow->learned.base == BASE_NONE && !over_cubic(flow);
}

/* The window is on its way down. */
static __always_inline bool reduces_in(struct flow *flow, u32 state)
{
	return reducing(state) && !owns_recovery(flow);
}

static __always_inline void open_policy(struct ccarena_policy *policy, const struct image *image)
{
	policy->steps = image->steps;
	policy->weights = image->weights;
	policy->constants = image->constants;
	policy->steps_length = image->steps_length;
}

/* Functions of their own, which the verifier looks at once. It wants to know the size of what they are given. */
struct all_weights {
	ccarena_u16 at[IMAGE_WEIGHTS + IMAGE_SLACK];
};

struct all_values {
	s32 at[IMAGE_VALUES + IMAGE_SLACK];
};

__noinline s64 dots(const struct all_weights *weights __arg_nonnull, const struct all_values *values __arg_nonnull,
		    u32 first, u32 from, u32 inputs)
{
	return ccarena_dot(weights->at, values->at, first, from, inputs);
}

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

/* Whether the connection is taken from the policy: too many decisions in a row on an observation outside the box or the
 * range that the image knows, or if it knows none on a clipped one. In the shadow the policy has nothing that could be taken. */
static __always_inline bool trips(struct tally *tally, const struct image *image, u32 seen)
{
	u32 counts = image->has_observed ? SEEN_OUTSIDE : SEEN_BEYOND, most = operation.guard;

	tally->tripped = seen & counts ? tally->tripped + 1 : 0;
	return most && tally->tripped >= most && tally->role == ROLE_POLICY;
}

/* Whether the connection stays with the policy. */
static __always_inline bool decide(struct flow *flow, struct image *image, struct measured *m, struct stats *stats)
{
	struct learned *learned = &flow->learned;
	struct tally *tally = &flow->tally;
	struct room *room = enter_room();
	u32 seen;
	s32 answer;

	__sync_fetch_and_add(&stats->decisions, 1);
	if (!room) {
		__sync_fetch_and_add(&stats->missed, 1);
		return true;
	}
	seen = look(learned, image, m, room);
	tally->decisions++;
	if (seen & SEEN_BEYOND) {
		tally->clamps++;
		__sync_fetch_and_add(&stats->beyond, 1);
	}
	if (seen & SEEN_OUTSIDE) {
		tally->outside++;
		__sync_fetch_and_add(&stats->outside, 1);
	}
	if (trips(tally, image, seen)) {
		leave_room(room);
		return false;
	}
	answer = run_network(image, &learned->state, room);
	leave_room(room);
	if (act(learned, image, action_value(image, answer))) {
		tally->held++;
		__sync_fetch_and_add(&stats->held, 1);
	}
	return true;
}

/* What a window of segments lets leave in a smoothed RTT, in bytes/s. */
static __always_inline u64 rate_of(const struct learned *learned, u64 window)
{
	return scaled((window >> 8) * learned->mss >> (WINDOW_BITS - 8), 1000000000, max64(learned->srtt_ns, 1));
}

/* Compares what the policy would let leave, had it moved the window since it decided, with what CUBIC lets leave. */
static __always_inline void compare_with(struct flow *flow, u32 running, struct stats *stats)
{
	struct learned *learned = &flow->learned;
	u64 policy = rate_of(learned, window_now(learned)), paced = learned_pacing(learned);

	if (paced && paced < policy)
		policy = paced;
	compare(&flow->tally, stats, policy, rate_of(learned, (u64)running << WINDOW_BITS));
}

static __always_inline u32 leave(struct flow *flow, struct tcp_sock *tp, u32 window)
{
	flow->uncapped = 0;
	return window_of_rate(tp, learned_pacing(&flow->learned), window);
}

/* It begins its history anew. */
static __always_inline void take_up(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	struct learned *learned = &flow->learned;
	struct image *image = image_now();

	if (!image)
		return;
	learned_follow(learned, image);
	learned_adopt(learned, window_of(flow, tp));
	learned->mark = 0;
	__builtin_memset(&learned->period, 0, sizeof(learned->period));
	learned_start(learned, image, now);
}

/* Tells user space what the period was like. */
static __always_inline void report(const struct learned *learned, const struct image *image, struct stats *stats)
{
	if (image->reports_length && bpf_ringbuf_output(&reports, (void *)learned->report, sizeof(learned->report), 0))
		__sync_fetch_and_add(&stats->unreported, 1);
}

/* The present period ends, and the policy decides if the clock asks it. What ACKs say of the flow is in `learned`. */
static __noinline int end_period(struct sock *sk, struct flow *flow, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct learned *learned = &flow->learned;
	struct image *image = image_now();
	struct stats *stats = stats_here();
	u64 begun = bpf_ktime_get_ns();
	struct measured *m = &flow->measured;
	struct signal *signal;
	bool shadow = flow->tally.role == ROLE_SHADOW;
	u32 before = tp->snd_cwnd, window;

	if (!image || !stats)
		return 0;
	if (flow->tally.generation != image->generation) {
		follow_policy(sk, &flow->tally, image->generation, now);
		learned_follow(learned, image);
	}
	learned->advertised_kbps = image->desired_kbps;
	if (config.option) {
		signal = bpf_sk_storage_get(&signals, sk, 0, 0);
		if (signal && signal->advertised_kbps && signal->advertised_kbps < learned->advertised_kbps)
			learned->advertised_kbps = signal->advertised_kbps;
	}
	if (shadow && learned->base != BASE_OVER_CUBIC && flow->tally.decisions)
		compare_with(flow, before, stats);
	if (over_cubic(flow))
		learned_adopt(learned, before);
	__sync_fetch_and_add(&stats->periods, 1);
	if (!learned_end(learned, image, m, now)) {
		__sync_fetch_and_add(&stats->cases[learned->reasoner.situation & 7], 1);
		return 0;
	}
	__sync_fetch_and_add(&stats->cases[learned->reasoner.situation & 7], 1);
	if (over_cubic(flow) && flow->reduces) {
		before = tp->snd_ssthresh;
		learned_adopt(learned, before);
	}
	if (learned->base == BASE_ACCT)
		__sync_fetch_and_add(&stats->zones[zone_of(learned, m, ns_of(image->base_options[0])) & 3], 1);
	report(learned, image, stats);
	if (!decide(flow, image, m, stats)) {
		__sync_fetch_and_add(&stats->handed_back, 1);
		return change_role(sk, flow, ROLE_HANDED_BACK, ENDED_GUARD, now);
	}
	window = segments(flow);
	if (shadow) {
		/* From here on CUBIC would move both alike. */
		if (learned->base == BASE_OVER_CUBIC)
			compare_with(flow, before, stats);
	} else if (over_cubic(flow) && image->actuator == ACT_CAP) {
		uncap(flow, tp);
		cap(flow, tp, flow->reduces);
	} else if (over_cubic(flow)) {
		if (window != before)
			cubic_move(sk, window, flow->reduces, window < before);
	} else if (flow->reduces) {
		tp->snd_ssthresh = window < 2 ? 2 : window;
	} else {
		set_window(tp, window);
	}
	count_time(stats, begun);
	return 0;
}

/* Signals that each ACK feeds. */
static __noinline int feed(struct flow *flow)
{
	struct image *image = image_now();

	if (image && image->generation == flow->learned.generation)
		derive_of_ack(&flow->learned, image);
	return 0;
}

static __always_inline void steer(struct sock *sk, struct flow *flow, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool reduces = reduces_in(flow, ca_state(sk));

	uncap(flow, tp);
	if (is_made_up(tp))
		mend(tp, over_cubic(flow) ? cubic_reduced(tp->prior_cwnd) : segments(flow));
	end_reduction(flow, tp, reduces);
	flow->reduces = reduces;

	if (reduces) {
		reduce(tp, &flow->prr_delivered, flag, rs);
	} else if (over_cubic(flow)) {
		if (decides(&flow->tally) && may_grow(tp, flag) && tcp_is_cwnd_limited(tp))
			learned_grow(&flow->learned, rs->acked_sacked);
		if (may_grow(tp, flag))
			cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	} else {
		if (may_grow(tp, flag) && tcp_is_cwnd_limited(tp))
			learned_grow(&flow->learned, rs->acked_sacked);
		set_window(tp, segments(flow));
	}
	if (over_cubic(flow))
		cap(flow, tp, reduces);
}

/* As the base wants. */
static __always_inline void pace(struct sock *sk, struct flow *flow)
{
	if (flow->tally.role != ROLE_POLICY) {
		pace_at(sk, 0, &flow->paces);
		return;
	}
	if (over_cubic(flow))
		flow->learned.window = (u64)tcp_sk(sk)->snd_cwnd << WINDOW_BITS;
	pace_at(sk, learned_pacing(&flow->learned), &flow->paces);
}

static __always_inline void start(struct flow *flow, u64 now)
{
	struct image *image = image_now();

	if (image)
		learned_start(&flow->learned, image, now);
}

/* The first period of a clock that waits for an ACK. */
static __always_inline void begin(struct flow *flow, u64 now)
{
	struct image *image = image_now();

	if (image)
		learned_begin_period(&flow->learned, image, now);
}

/* Does what a timer of the clock would have done before the ACK that rs describes, which does not count yet. */
static __always_inline void fire(struct sock *sk, struct flow *flow, const struct rate_sample *rs, u64 now)
{
	if (!learned_timer_due(&flow->learned, now))
		return;
	measure_in_flight(flow, tcp_sk(sk));
	flow->learned.newest.in_flight = rs->prior_in_flight;
	end_period(sk, flow, now);
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
	if (flow->tally.version != operation.version)
		follow_operation(sk, flow, now);
	measure_sent(flow, tp);
	if (decides(&flow->tally))
		fire(sk, flow, rs, now);
	measure(flow, tp, rs, now);
	tally_ack(&flow->tally, tp, rs->rtt_us, now);
	if (flow->learned.by_ack && decides(&flow->tally))
		feed(flow);
	steer(sk, flow, ack, flag, rs);
	snd_una = tp->bytes_acked - flow->first_acked;
	if (decides(&flow->tally) && learned_rings(&flow->learned, now, snd_una)) {
		if (learned_waits(&flow->learned))
			begin(flow, now);
		else
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
	u32 window, threshold;

	if (!flow)
		return cubictcp_recalc_ssthresh(sk);
	flow->prr_delivered = 0;
	flow->undone = 0;
	flow->left = 0;
	learned_halve(&flow->learned);
	if (over_cubic(flow)) {
		window = tcp_sk(sk)->snd_cwnd;
		uncap(flow, tcp_sk(sk));
		threshold = cubictcp_recalc_ssthresh(sk);
		tcp_sk(sk)->snd_cwnd = window;
		return threshold;
	}
	return segments(flow) < 2 ? 2 : segments(flow);
}

SEC("struct_ops")
void BPF_PROG(policy_set_state, struct sock *sk, u8 new_state)
{
	struct flow *flow = flow_of(sk);

	cubictcp_state(sk, new_state);
	if (!flow)
		return;
	if (new_state != TCP_CA_Loss) {
		if (reduces_in(flow, new_state))
			flow->reduces = 1;
		return;
	}
	flow->reduces = 0;
	flow->uncapped = 0;
	learned_time_out(&flow->learned);
	/* tcp_enter_loss has set the window to one segment. */
	if (owns_recovery(flow))
		set_window(tcp_sk(sk), segments(flow));
}

SEC("struct_ops")
u32 BPF_PROG(policy_undo_cwnd, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_reno_undo_cwnd(sk);
	flow->undone = 1;
	return over_cubic(flow) ? cubic_undone(sk, flow) : segments(flow);
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
	if (!flow->tally.busy_since_ns)
		flow->tally.busy_since_ns = now;
	flow->idle_ns = flow->acked_ns;
	flow->idle_delivered = tp->delivered;
	halvings = idle_halvings_of(flow, tp, now);
	if (!halvings)
		return;
	uncap(flow, tp);
	restart(tp, halvings);
	cap(flow, tp, false);
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

	return flow && flow->paces && (flow->learned.base == BASE_ACCT || flow->learned.by_rate) ? 1 : 2;
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
	flow->first_acked = flow->acked_seen = tp->bytes_acked;
	flow->delivered_bytes = (u64)tp->sacked_out * tp->mss_cache;
	flow->delivered_seen = tp->delivered;
	flow->lost_seen = tp->lost;
	flow->sent_seen = tp->data_segs_out;
	flow->sent_bytes_seen = tp->bytes_sent;
	flow->learned.mss = tp->mss_cache;
	flow->learned.srtt_ns = (u64)tp->srtt_us * 125;
	learned_take(&flow->learned, image, tp->snd_cwnd);
	open_record(&flow->tally, sk, image->generation, bpf_ktime_get_ns());
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
	end_record(&flow->tally, sk, ENDED_CLOSED, bpf_ktime_get_ns());
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

CONGESTION_CONTROL(policy);
