/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The end of a period of a learned controller: what it came to, what the policy sees of it, and the network's answer. */
#ifndef CCARENA_DECISION_H
#define CCARENA_DECISION_H

#include "signals.h"

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
	m->rtt_count = period->rtt_count;
	m->rate_mean = period->rate_count ? period->rates / period->rate_count : 0;
	m->app_limited = ratio(period->app_limited, period->rate_count);
	m->slope = line_slope(&period->line);
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

static FIXED_INLINE s64 column_value(const struct learned *learned, const struct measured *m,
				     const struct image_column *column)
{
	return clamped(signal_value(learned, m, column->signal, column->channel, column->option), column->low, column->high);
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

	derive_of_period(learned, image, m);
	CCARENA_FOR(c, image->columns_length) {
		const struct image_column *column = &image->columns[c & (IMAGE_COLUMNS - 1)];

		if (!column->live)
			learned->history[ring_place(learned, column, 0)] = column_value(learned, m, column);
	}
	learned->remembered++;
	CCARENA_FOR(c, image->reports_length) {
		const struct image_column *column = &image->reports[c & (IMAGE_COLUMNS - 1)];

		learned->report[c & (IMAGE_COLUMNS - 1)] = column_value(learned, m, column);
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

/* Flags of an observation. */
enum {
	SEEN_BEYOND = 1 << 0,  /* an entry is beyond what the policy admits */
	SEEN_OUTSIDE = 1 << 1, /* an entry is outside of what training saw */
};

static FIXED_INLINE u32 seen_at(const struct image *image, const struct ccarena_policy *policy, u32 at, s64 raw)
{
	const struct image_range *range = &image->observed[at & (IMAGE_OBSERVATION - 1)];
	u32 entry = CCARENA_AT(at * CCARENA_PER_ENTRY, IMAGE_CONSTANTS);
	u32 seen = raw < range->low || raw > range->high ? SEEN_OUTSIDE : 0;

	if (raw < policy->constants[entry] || raw > policy->constants[entry + 1])
		seen |= SEEN_BEYOND;
	return seen;
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
			s64 raw = column_value(learned, m, column);

			seen |= seen_at(image, policy, at, raw);
			values[CCARENA_AT(at, IMAGE_VALUES)] = ccarena_normalise(policy, at, raw);
			continue;
		}
		CCARENA_FOR(k, column->length) {
			s64 raw = learned->history[ring_place(learned, column, k)];

			seen |= seen_at(image, policy, at + k, raw);
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

#endif
