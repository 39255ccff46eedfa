/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Hyvar's reasoner in integers: which case a period was, how long the next one is, and whether the decider is asked.
 * crates/ccarena-cc/src/learned/clocks/reasoner.rs has the table. Ratios and options are in units of 2^-20. */
#ifndef CCARENA_REASONER_H
#define CCARENA_REASONER_H

#include "fixed.h"

enum { CASE_NONE, CASE_FALLING, CASE_RISING, CASE_LOSSY, CASE_QUEUED, CASES };

/* The options of clock `reasoner`, in the registry's order. */
enum {
	REASONER_ALPHA,
	REASONER_DELTA,
	REASONER_PERIOD_MS,
	REASONER_LEAST_MS,
	REASONER_MOST_MS,
	REASONER_STEEPNESS,
	REASONER_AS_PRINTED,
	REASONER_ASK_FALLING,
	REASONER_ASK_RISING,
	REASONER_ASK_LOSSY,
	REASONER_ASK_QUEUED,
	REASONER_LEAST_RTTS,
	REASONER_LEAST_PACKETS,
};

struct reasoner_options {
	s64 of[13];
};

/* What it knows of a flow. */
struct reasoner {
	u64 length_ns; /* of the present period */
	s64 ratio;     /* smoothed over smallest RTT when the last one ended */
	u32 situation; /* the last one's case */
	u32 has_ratio;
};

/* Before the first period. */
static FIXED_INLINE void reasoner_begin(struct reasoner *reasoner, const struct reasoner_options *options)
{
	s64 least = options->of[REASONER_LEAST_MS], most = options->of[REASONER_MOST_MS];

	most = most > least ? most : least;
	reasoner->length_ns = ns_of(clamped(options->of[REASONER_PERIOD_MS], least, most));
}

/* The ratio of RTTs as it counts for a period of `interval_ns` in which `acked` packets, in units of 2^-20, met `delay_ns`
 * of queue: alpha at most while fewer packets than LEAST_PACKETS are queued. */
FIXED_FUNCTION s64 reasoner_counted(const struct reasoner_options *options FIXED_NONNULL, s64 rtt_ratio, u64 acked,
				    u64 delay_ns, u64 interval_ns)
{
	s64 least = options->of[REASONER_LEAST_PACKETS], alpha = options->of[REASONER_ALPHA];

	if (least <= 0 || rtt_ratio <= alpha || scaled(acked, delay_ns, max64(interval_ns, 1)) >= (u64)least)
		return rtt_ratio;
	return alpha;
}

/* Judges a period that ends with these RTTs and has lost `loss` of its bytes. Whether the decider is asked. */
FIXED_FUNCTION u32 reasoner_judge(struct reasoner *reasoner FIXED_NONNULL,
				  const struct reasoner_options *options FIXED_NONNULL, s64 rtt_ratio, u64 srtt_ns,
				  s64 loss)
{
	const s64 *o = options->of;
	s64 gradient = reasoner->has_ratio ? rtt_ratio - reasoner->ratio : 0;
	s64 alpha = o[REASONER_ALPHA] > 0 ? o[REASONER_ALPHA] : RAW_ONE, exponent = 0, asks = 0;
	s64 least = o[REASONER_LEAST_MS], most = o[REASONER_MOST_MS] > least ? o[REASONER_MOST_MS] : least;
	u64 least_ns;
	bool printed = o[REASONER_AS_PRINTED] >= RAW_ONE / 2;

	reasoner->ratio = rtt_ratio;
	reasoner->has_ratio = 1;
	if (rtt_ratio > o[REASONER_ALPHA]) {
		reasoner->situation = CASE_QUEUED;
		asks = o[REASONER_ASK_QUEUED];
		exponent = -log2_of_exp(quotient(rtt_ratio, alpha));
	} else if (loss >= o[REASONER_DELTA]) {
		reasoner->situation = printed ? CASE_NONE : CASE_LOSSY;
		asks = printed ? 0 : o[REASONER_ASK_LOSSY];
	} else {
		if (gradient < 0) {
			s64 grown = product(o[REASONER_STEEPNESS], gradient);

			/* 2^S(-gradient), S(x) = 1/(1 + e^(-kx)). */
			reasoner->situation = CASE_FALLING;
			asks = o[REASONER_ASK_FALLING];
			exponent = ratio(1ull << EXP_BITS, (1ull << EXP_BITS) + exp2_of(log2_of_exp(grown)));
		} else {
			reasoner->situation = CASE_RISING;
			asks = o[REASONER_ASK_RISING];
			exponent = -log2_of_exp(quotient(gradient, alpha));
		}
		if (printed && o[REASONER_ASK_LOSSY] > asks)
			asks = o[REASONER_ASK_LOSSY];
	}
	reasoner->length_ns = scaled(reasoner->length_ns, exp2_of(exponent), 1ull << EXP_BITS);
	least_ns = max64(ns_of(least), min64(scaled(srtt_ns, o[REASONER_LEAST_RTTS], RAW_ONE), ns_of(most)));
	reasoner->length_ns = max64(min64(reasoner->length_ns, ns_of(most)), least_ns);
	return asks >= RAW_ONE / 2;
}

#endif
