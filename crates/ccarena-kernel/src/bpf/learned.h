/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A learned controller in integers: what crates/ccarena-cc/src/learned (monitor, clocks, signals, actuators, bases) does
 * in floating point, for the parts that a policy's image (ccarena_image.h) can name. It has no kernel in it and compiles
 * natively too; a test drives both with the same operations.
 *
 * Signals, options and actions are in units of 2^-20, windows in units of 2^-24 segments, times in ns, rates in bytes/s.
 */
#ifndef CCARENA_LEARNED_H
#define CCARENA_LEARNED_H

#include "ccarena_image.h"
#include "fixed.h"
#include "reasoner.h"

#define WINDOW_BITS 24
#define WINDOW_ONE (1ull << WINDOW_BITS)
/* No action lifts the window beyond so many segments (snd_cwnd_clamp). */
#define LARGEST_WINDOW (1u << 24)
#define INITIAL_RTT_NS 100000000ull

enum { ZONE_GREEN, ZONE_YELLOW, ZONE_RED, ZONE_BLUE, ZONES };

/* Sums of the present period. */
struct period {
	u64 begun_ns;
	u64 acked_bytes;
	u64 lost_bytes;
	u64 sent_bytes; /* retransmissions included, as in `sent` */
	u64 rtt_ns;
	u32 rtt_count;
	u32 acked;
	u32 lost;
	u32 sent;
};

/* What a period came to. */
struct measured {
	u64 interval_ns;
	u64 acked_bytes;
	u64 lost_bytes;
	u64 sent_bytes;
	u64 throughput;
	u64 rtt_ns;	   /* mean; the mean before it without a sample, 0 if there never was one */
	u64 rtt_before_ns; /* mean of the period before */
	u64 rtt_or_min_ns;
	u64 delay_ns;	   /* mean less smallest RTT; 0 without a sample */
	u64 target;	   /* window that fills the smallest RTT at the advertised rate; all ones without an RTT */
	u32 acked;
	u32 lost;
	u32 sent;
	u32 unused;
};

/* What the policy remembers. */
struct learned_state {
	s32 numbers[IMAGE_STATE];
};

/* A flow's controller. */
struct learned {
	/* Of the image, so that an ACK looks up none. */
	u64 generation;
	u32 clock;
	u32 base;
	u64 pacing_gain;
	u64 least_window; /* of ACCT's rules */
	s64 round_trips;  /* of CLOCK_RTT */
	u64 header_bytes;

	/* What is known of the flow; whoever drives it writes these before each call. */
	u64 srtt_ns;
	u64 rtt_min_ns;
	u64 advertised_kbps;
	u32 mss;
	u32 over_budget; /* periods in a row, of ACCT's rules */
	u64 rtt_ns;
	u64 rtt_before_ns;
	u64 throughput_max;

	/* The clock. A period ends with an ACK: of the byte `mark`, or at or after `ends_ns`. */
	u64 mark;
	u64 ends_ns;
	struct reasoner reasoner; /* CLOCK_FIXED has its length in it */
	u8 begun;
	u8 unused[7];

	/* The base. */
	u64 window;
	s64 action;
	s64 action_before;
	u64 alpha; /* of ACCT's rules: segments that the window grows by per window of data */
	struct period period;

	u32 remembered; /* periods; they say where each ring of the history begins */
	u32 unused_too;
	s64 history[IMAGE_OBSERVATION];
	s64 report[IMAGE_COLUMNS]; /* of the last period, if the image wants one */
	struct learned_state state;
};

/* An RTT before there is a sample is 100 ms. */
static FIXED_INLINE u64 round_trips(const struct learned *learned, s64 count)
{
	return max64(scaled(count > 0 ? count : 0, learned->srtt_ns ? learned->srtt_ns : INITIAL_RTT_NS, RAW_ONE), 1);
}

/* The clock begins a period at `now`. */
static FIXED_INLINE void learned_begin_period(struct learned *learned, const struct image *image, u64 now)
{
	if (image->clock == CLOCK_FIXED)
		learned->reasoner.length_ns = ns_of(image->clock_options[0]);
	learned->ends_ns = now + learned->reasoner.length_ns;
}

static FIXED_INLINE const struct reasoner_options *reasoner_of(const struct image *image)
{
	return (const struct reasoner_options *)image->clock_options;
}

/* A flow begins, or another policy takes it over: `window` in segments. */
static FIXED_INLINE void learned_take(struct learned *learned, const struct image *image, u32 window)
{
	learned->generation = image->generation;
	learned->clock = image->clock;
	learned->base = image->base;
	learned->header_bytes = image->header_bytes;
	learned->pacing_gain = image->base_options[image->base == BASE_ACCT ? 5 : 3];
	learned->least_window = (u64)image->base_options[2] << (WINDOW_BITS - RAW_BITS);
	learned->round_trips = image->clock_options[0];
	learned->window = (u64)window << WINDOW_BITS;
	learned->action = learned->action_before = image->first_action;
	learned->alpha = RAW_ONE;
	if (image->actuator == ACT_ALPHA)
		learned->alpha = image->first_action > 0 ? image->first_action : 0;
	if (image->clock == CLOCK_REASONER)
		reasoner_begin(&learned->reasoner, reasoner_of(image));
}

/* Another policy takes a living flow over, which begins its history anew. */
FIXED_FUNCTION u32 learned_follow(struct learned *learned FIXED_NONNULL, const struct image *image FIXED_NONNULL)
{
	u64 window = learned->window, length_ns = learned->reasoner.length_ns;
	u32 i;

	CCARENA_FOR(i, IMAGE_OBSERVATION)
		learned->history[i & (IMAGE_OBSERVATION - 1)] = 0;
	CCARENA_FOR(i, IMAGE_STATE)
		learned->state.numbers[i & (IMAGE_STATE - 1)] = 0;
	learned_take(learned, image, 0);
	learned->window = window;
	if (length_ns)
		learned->reasoner.length_ns = length_ns;
	learned->remembered = 0;
	learned->over_budget = 0;
	return 0;
}

/* The first packet leaves. */
static FIXED_INLINE void learned_start(struct learned *learned, const struct image *image, u64 now)
{
	learned->begun = 1;
	learned->period.begun_ns = now;
	learned_begin_period(learned, image, now);
}

/* The window that fills the smallest RTT at the advertised rate (ACCT's twnd, equation 1). */
static FIXED_INLINE u64 target_window(const struct learned *learned)
{
	u64 wire = learned->mss + learned->header_bytes;

	/* kbit/s times us are thousandths of 8 bytes. */
	return scaled(scaled(learned->advertised_kbps, learned->rtt_min_ns, 8), WINDOW_ONE, wire * 1000000);
}

/* Acknowledged segments let ACCT's window grow by alpha for each window of them. */
static FIXED_INLINE void learned_grow(struct learned *learned, u32 acked)
{
	if (learned->base != BASE_ACCT || !learned->window)
		return;
	learned->window += scaled(learned->alpha * acked, 1ull << (2 * WINDOW_BITS - RAW_BITS), learned->window);
	learned->window = min64(learned->window, (u64)LARGEST_WINDOW << WINDOW_BITS);
}

/* A loss episode halves ACCT's window. */
static FIXED_INLINE void learned_halve(struct learned *learned)
{
	learned->window = max64(learned->window / 2, learned->least_window);
}

static FIXED_INLINE bool learned_rings(const struct learned *learned, u64 now, u64 snd_una)
{
	if (learned->clock == CLOCK_WINDOW)
		return snd_una >= learned->mark;
	if (learned->clock == CLOCK_RTT)
		return now >= learned->period.begun_ns + round_trips(learned, learned->round_trips);
	return now >= learned->ends_ns;
}

static FIXED_INLINE void learned_measure(struct learned *learned, struct measured *m, u64 now)
{
	struct period *period = &learned->period;
	u64 us = (now - period->begun_ns) / 1000;

	m->interval_ns = now - period->begun_ns;
	m->acked_bytes = period->acked_bytes;
	m->lost_bytes = period->lost_bytes;
	m->acked = period->acked;
	m->lost = period->lost;
	m->sent_bytes = period->sent_bytes;
	m->sent = period->sent;
	m->unused = 0;
	m->throughput = us ? scaled(m->acked_bytes, 1000000, us) : 0;
	m->rtt_before_ns = learned->rtt_before_ns;
	m->rtt_ns = period->rtt_count ? period->rtt_ns / period->rtt_count : learned->rtt_ns;
	m->rtt_or_min_ns = period->rtt_count ? m->rtt_ns : learned->rtt_min_ns;
	m->delay_ns = m->rtt_or_min_ns > learned->rtt_min_ns ? m->rtt_or_min_ns - learned->rtt_min_ns : 0;
	m->target = learned->rtt_min_ns ? target_window(learned) : ~0ull;
	learned->throughput_max = max64(learned->throughput_max, m->throughput);
	learned->rtt_before_ns = learned->rtt_ns;
	learned->rtt_ns = m->rtt_ns;
	__builtin_memset(period, 0, sizeof(*period));
	period->begun_ns = now;
}

static FIXED_INLINE s64 loss_ratio(const struct measured *m)
{
	return ratio(m->lost_bytes, m->lost_bytes + m->acked_bytes);
}

static FIXED_INLINE s64 srtt_ratio(const struct learned *learned)
{
	return learned->rtt_min_ns && learned->srtt_ns ? ratio(learned->srtt_ns, learned->rtt_min_ns) : RAW_ONE;
}

static FIXED_INLINE u32 zone_of(const struct learned *learned, const struct measured *m, u64 budget_ns)
{
	bool below = learned->window < m->target, within = m->delay_ns < budget_ns;

	return within ? (below ? ZONE_GREEN : ZONE_YELLOW) : (below ? ZONE_BLUE : ZONE_RED);
}

/* ACCT's periodic window reduction; bases/acct.rs has the reasons. */
static FIXED_INLINE void reset_window(struct learned *learned, const struct image *image, const struct measured *m)
{
	const ccarena_s64 *o = image->base_options;
	u64 budget_ns = ns_of(o[0]), target = m->target, patience, slack, unqueued;
	u64 reduce_ns = scaled(budget_ns, o[1], RAW_ONE);

	learned->over_budget = m->delay_ns < budget_ns ? 0 : learned->over_budget % 16 + 1;
	patience = (u64)(learned->over_budget ? learned->over_budget - 1 : 0) << RAW_BITS;
	patience = min64(patience, o[4]);
	if (target >> 62)
		return;
	slack = (o[3] + patience) << (WINDOW_BITS - RAW_BITS);
	target = max64(target + slack, learned->least_window);
	if (learned->window >= target && m->delay_ns >= reduce_ns) {
		learned->window = target;
	} else if (o[6] && learned->window < m->target && m->delay_ns >= scaled(budget_ns, o[6], RAW_ONE)) {
		unqueued = scaled(learned->window, learned->rtt_min_ns, m->rtt_or_min_ns) + slack;
		learned->window = min64(learned->window, max64(unqueued, learned->least_window));
	}
}

FIXED_FUNCTION s64 signal_value(const struct learned *learned FIXED_NONNULL, const struct measured *m FIXED_NONNULL,
				const struct image_column *column FIXED_NONNULL)
{
	u64 mss = learned->mss, bytes = learned->window >> WINDOW_BITS, budget_ns;
	s64 difference;

	bytes = max64(bytes, 1) * mss;
	switch (column->signal) {
	case SIGNAL_THROUGHPUT_MBPS:
		return ratio(m->throughput, 125000);
	case SIGNAL_THROUGHPUT_MAX_MBPS:
		return ratio(learned->throughput_max, 125000);
	case SIGNAL_THROUGHPUT_RATIO:
		return ratio(m->throughput, learned->throughput_max);
	case SIGNAL_THROUGHPUT_PER_RTT_MBPS:
		return ratio(scaled(m->acked_bytes, 8000, 1), m->rtt_or_min_ns);
	case SIGNAL_THROUGHPUT_PER_RTT_MBYTEPS:
		return ratio(scaled(m->acked_bytes, 1000, 1), m->rtt_or_min_ns);
	case SIGNAL_DELIVERY_RATIO:
		return ratio(scaled(m->throughput, learned->rtt_min_ns, 1000), scaled(bytes, 1000000, 1));
	case SIGNAL_DELIVERED_BYTES:
		return ratio(m->acked_bytes, 1);
	case SIGNAL_ACKED_PACKETS:
		return ratio(m->acked, 1);
	case SIGNAL_SEND_RATE_MBPS:
		return ratio(scaled(m->sent_bytes, 8000, 1), m->interval_ns);
	case SIGNAL_SENT_PACKETS:
		return ratio(m->sent, 1);
	case SIGNAL_SEND_RATIO:
		return ratio(m->sent, m->acked ? m->acked : 1);
	case SIGNAL_RTT_MS:
		return ratio(m->rtt_ns, 1000000);
	case SIGNAL_RTT_MIN_MS:
		return ratio(learned->rtt_min_ns, 1000000);
	case SIGNAL_SRTT_MS:
		return ratio(learned->srtt_ns, 1000000);
	case SIGNAL_RTT_OR_MIN_MS:
		return ratio(m->rtt_or_min_ns, 1000000);
	case SIGNAL_RTT_RATIO:
		return ratio(m->rtt_ns, learned->rtt_min_ns);
	case SIGNAL_LATENCY_RATIO:
		return learned->rtt_min_ns ? ratio(m->rtt_ns, learned->rtt_min_ns) : RAW_ONE;
	case SIGNAL_SRTT_RATIO:
		return srtt_ratio(learned);
	case SIGNAL_QUEUEING_DELAY_MS:
		return m->rtt_ns > learned->rtt_min_ns ? ratio(m->rtt_ns - learned->rtt_min_ns, 1000000) : 0;
	case SIGNAL_DELAY_OR_ZERO_MS:
		return ratio(m->delay_ns, 1000000);
	case SIGNAL_DELAY_RATIO:
		return ratio(m->delay_ns, ns_of(column->option));
	case SIGNAL_RTT_GRADIENT:
		if (!m->rtt_before_ns)
			return 0;
		difference = m->rtt_ns - m->rtt_before_ns;
		return difference < 0 ? -ratio(-difference, m->interval_ns) : ratio(difference, m->interval_ns);
	case SIGNAL_LOSS_RATIO:
		return loss_ratio(m);
	case SIGNAL_PACKET_LOSS_RATIO:
		return ratio(m->lost, (u64)m->lost + m->acked);
	case SIGNAL_LOST_PACKETS:
		return ratio(m->lost, 1);
	case SIGNAL_LOSS_RATE_PPS:
		return ratio((u64)m->lost * 1000000000, m->interval_ns);
	case SIGNAL_LOSS_MBPS:
		return ratio(scaled(m->lost_bytes, 8000, 1), m->interval_ns);
	case SIGNAL_CWND_PACKETS:
		return learned->window >> (WINDOW_BITS - RAW_BITS);
	case SIGNAL_WINDOW_RATIO:
		return ratio(scaled(bytes, 1000000, 1), scaled(learned->throughput_max, learned->rtt_min_ns, 1000));
	case SIGNAL_TWND_PACKETS:
		return m->target >> 62 ? RAW_MOST : (s64)(m->target >> (WINDOW_BITS - RAW_BITS));
	case SIGNAL_TARGET_RATIO:
		return m->target >> 62 ? 0 : ratio(learned->window, m->target);
	case SIGNAL_ADVERTISED_MBPS:
		return ratio(learned->advertised_kbps, 1000);
	case SIGNAL_ZONE:
		budget_ns = ns_of(column->option);
		return zone_of(learned, m, budget_ns) == column->channel ? RAW_ONE : 0;
	case SIGNAL_ZONE_INDEX:
		budget_ns = ns_of(column->option);
		return (s64)zone_of(learned, m, budget_ns) << RAW_BITS;
	case SIGNAL_LAST_ACTION:
		return learned->action;
	case SIGNAL_ACTION_BEFORE:
		return learned->action_before;
	case SIGNAL_INTERVAL_MS:
		return ratio(m->interval_ns, 1000000);
	case SIGNAL_INTERVAL_RATIO:
		return ratio(m->interval_ns, learned->rtt_min_ns);
	case SIGNAL_CASE:
		return (s64)learned->reasoner.situation << RAW_BITS;
	}
	return 0;
}

static FIXED_INLINE u32 ring_place(const struct learned *learned, const struct image_column *column, u32 k)
{
	u32 length = column->length ? column->length : 1;

	return (column->at + (learned->remembered + k) % length) & (IMAGE_OBSERVATION - 1);
}

/* Appends the period to the history, and reports it. */
static FIXED_INLINE void remember(struct learned *learned, const struct image *image, const struct measured *m)
{
	u32 c;

	CCARENA_FOR(c, image->columns_length) {
		const struct image_column *column = &image->columns[c & (IMAGE_COLUMNS - 1)];

		if (!column->live)
			learned->history[ring_place(learned, column, 0)] =
				clamped(signal_value(learned, m, column), column->low, column->high);
	}
	learned->remembered++;
	CCARENA_FOR(c, image->reports_length) {
		const struct image_column *column = &image->reports[c & (IMAGE_COLUMNS - 1)];

		learned->report[c & (IMAGE_COLUMNS - 1)] = clamped(signal_value(learned, m, column), column->low, column->high);
	}
}

/* The period ends at `now`; the next begins. Whether the policy is asked. For CLOCK_WINDOW, `learned->mark` is the caller's. */
FIXED_FUNCTION u32 learned_end(struct learned *learned FIXED_NONNULL, const struct image *image FIXED_NONNULL,
			    struct measured *m FIXED_NONNULL, u64 now)
{
	u32 asked = 1;

	learned_measure(learned, m, now);
	remember(learned, image, m);
	if (image->clock == CLOCK_REASONER) {
		u64 delay_ns = learned->srtt_ns > learned->rtt_min_ns ? learned->srtt_ns - learned->rtt_min_ns : 0;
		s64 counted = reasoner_counted(reasoner_of(image), srtt_ratio(learned), (u64)m->acked << RAW_BITS, delay_ns,
					       m->interval_ns);

		asked = reasoner_judge(&learned->reasoner, reasoner_of(image), counted, learned->srtt_ns, loss_ratio(m));
	}
	learned_begin_period(learned, image, now);
	if (asked)
		learned->action_before = learned->action;
	if (image->base == BASE_ACCT)
		reset_window(learned, image, m);
	return asked;
}

/* What may be said of an observation. */
enum {
	SEEN_BEYOND = 1 << 0,  /* an entry is beyond what the policy admits */
	SEEN_OUTSIDE = 1 << 1, /* an entry is outside of what training saw */
};

static FIXED_INLINE u32 is_outside(const struct image *image, u32 at, s64 raw)
{
	const struct image_range *range = &image->observed[at & (IMAGE_OBSERVATION - 1)];

	return raw < range->low || raw > range->high ? SEEN_OUTSIDE : 0;
}

/* The observation, normalised, and what the policy remembers, into `values`. Returns SEEN_*. */
static FIXED_INLINE u32 observe(struct learned *learned, const struct image *image, const struct ccarena_policy *policy,
				const struct measured *m, s32 *values)
{
	u32 c, k, seen = 0;

	CCARENA_FOR(c, image->columns_length) {
		const struct image_column *column = &image->columns[c & (IMAGE_COLUMNS - 1)];
		u32 at = column->at;

		if (column->live) {
			s64 raw = clamped(signal_value(learned, m, column), column->low, column->high);

			seen |= is_outside(image, at, raw);
			values[CCARENA_AT(at, IMAGE_VALUES)] = ccarena_normalise(policy, at, raw);
			continue;
		}
		CCARENA_FOR(k, column->length) {
			s64 raw = learned->history[ring_place(learned, column, k)];
			u32 entry = CCARENA_AT((at + k) * CCARENA_PER_ENTRY, IMAGE_CONSTANTS);

			if (raw < policy->constants[entry] || raw > policy->constants[entry + 1])
				seen |= SEEN_BEYOND;
			seen |= is_outside(image, at + k, raw);
			values[CCARENA_AT(at + k, IMAGE_VALUES)] = ccarena_normalise(policy, at + k, raw);
		}
	}
	return seen;
}

/* The network on observed `values`; `state` goes in and comes out. Returns the action, as the outputs have it: an index, or
 * in units of 2^-output_bits. */
static FIXED_INLINE s32 infer(const struct image *image, const struct ccarena_policy *policy, s32 *state, s32 *values)
{
	u32 i, p, best = 0, from = 0, place = image->output;
	s32 most = 0;

	CCARENA_FOR(i, image->state)
		values[CCARENA_AT(image->observation + i, IMAGE_VALUES)] = state[i & (IMAGE_STATE - 1)];
	ccarena_policy_run(policy, values);
	CCARENA_FOR(p, image->parts_length) {
		const struct image_part *part = &image->parts[p & (IMAGE_PARTS - 1)];

		CCARENA_FOR(i, part->length)
			state[(from + i) & (IMAGE_STATE - 1)] = values[CCARENA_AT(part->place + i, IMAGE_VALUES)];
		from += part->length;
	}
	if (!image->discrete) {
		most = values[CCARENA_AT(place, IMAGE_VALUES)];
		most = most < image->output_low ? image->output_low : most > image->output_high ? image->output_high : most;
		values[CCARENA_AT(place, IMAGE_VALUES)] = most;
		return most;
	}
	CCARENA_FOR(i, image->outputs) {
		s32 value = values[CCARENA_AT(place + i, IMAGE_VALUES)];

		if (!i || value > most) {
			most = value;
			best = i;
		}
	}
	return (s32)best;
}

/* What the spec makes of an answer of `infer`. */
static FIXED_INLINE s64 action_value(const struct image *image, s32 answer)
{
	if (image->discrete)
		return image->actions[(u32)answer & (IMAGE_ACTIONS - 1)];
	return (s64)answer << ((RAW_BITS - image->output_bits) & 31);
}

/* Puts an action in force. With CUBIC as the base `learned->window` is a wish, which the caller carries out. Whether it was
 * held back. */
FIXED_FUNCTION u32 act(struct learned *learned FIXED_NONNULL, const struct image *image FIXED_NONNULL, s64 value)
{
	const ccarena_s64 *o = image->actuator_options;
	u64 segments = learned->window >> WINDOW_BITS, before = learned->window, wish, most, least;

	if (image->actuator == ACT_ALPHA) {
		learned->action = value;
		learned->alpha = value > 0 ? value : 0;
		return false;
	}
	if (image->actuator == ACT_WINDOW) {
		learned->action = value;
		wish = value > 0 ? (u64)value << (WINDOW_BITS - RAW_BITS) : 0;
		most = LARGEST_WINDOW;
	} else {
		learned->action = product(value, o[0]);
		wish = scaled(before, exp2_of(learned->action), 1ull << EXP_BITS);
		most = scaled(scaled(learned->throughput_max, learned->srtt_ns, 1000000000), o[1], RAW_ONE) / max64(learned->mss, 1);
		most = min64(max64(most, 10), LARGEST_WINDOW);
	}
	if (image->base == BASE_ACCT) {
		most = max64(most << WINDOW_BITS, before);
		least = learned->least_window;
	} else {
		wish = (wish + WINDOW_ONE / 2) >> WINDOW_BITS << WINDOW_BITS;
		most = max64(most, segments) << WINDOW_BITS;
		least = min64(segments, 2) << WINDOW_BITS;
	}
	learned->window = max64(min64(wish, most), least);
	return wish != learned->window;
}

/* The pacing rate in bytes/s; 0 for none. */
FIXED_FUNCTION u64 learned_pacing(const struct learned *learned FIXED_NONNULL)
{
	u64 window = max64(learned->window, WINDOW_ONE);

	if (!learned->pacing_gain || !learned->srtt_ns || learned->over_budget)
		return 0;
	window = (window >> 8) * learned->mss >> (WINDOW_BITS - 8);
	return max64(scaled(scaled(window, learned->pacing_gain, RAW_ONE), 1000000000, learned->srtt_ns), 1);
}

#endif
