/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Actuators: what an action moves (crates/ccarena-cc/src/learned/actuators). */
#ifndef CCARENA_ACTING_H
#define CCARENA_ACTING_H

#include "learned.h"

/* (1 + step) x for a step of 0 or more, x / (1 - step) otherwise: an action and its opposite cancel out. */
static FIXED_INLINE u64 changed(u64 x, s64 step)
{
	return step < 0 ? scaled(x, RAW_ONE, RAW_ONE - step) : scaled(x, RAW_ONE + step, RAW_ONE);
}

/* Whether it was held back. */
static FIXED_INLINE u32 act_on_rate(struct learned *learned, const struct image *image, s64 value)
{
	u64 mbps = value > 0 ? value : 0, wish = scaled(mbps, 1000000, 1ull << (RAW_BITS - RATE_BITS));

	learned->action = value;
	if (image->actuator == ACT_RATE_FACTOR)
		wish = changed(learned->rate, product(image->actuator_options[0], value));
	set_rate(learned, wish);
	return learned->rate != wish;
}

/* What ACT_WINDOW_FACTOR makes of `segments`, in segments (actuators/window_factor.rs). A factor is known to 2^-20, so
 * that what is as close to a whole number counts as that number. */
FIXED_FUNCTION u64 factored(const struct image *image FIXED_NONNULL, u64 segments, s64 value)
{
	const ccarena_s64 *o = image->actuator_options;
	u64 parts = o[2] > 0 ? (u64)o[2] >> RAW_BITS : 0, rounding = ((u64)o[3] + RAW_ONE / 2) >> RAW_BITS;
	u64 factor = o[1] ? exp2_of(product(o[1], value)) >> (EXP_BITS - RAW_BITS) : changed(RAW_ONE, product(o[0], value));
	u64 exact = scaled(factor, segments, 1), slack = segments;
	bool up = rounding == 2 || (rounding == 3 && value > 0);

	if (parts) {
		exact = scaled((factor * parts + parts) >> RAW_BITS, segments << RAW_BITS, parts);
		slack = 1;
	}
	if (!rounding)
		exact += RAW_ONE / 2 + slack;
	else
		exact = up ? exact + RAW_ONE - 1 - min64(slack, RAW_ONE - 1) : exact + slack;
	return min64(max64(exact >> RAW_BITS, (u64)o[4] >> RAW_BITS), LARGEST_WINDOW);
}

/* The window that the action `value` asks for, and in `most` the segments that it may lead to. */
static FIXED_INLINE u64 wished_window(struct learned *learned, const struct image *image, s64 value, u64 *most)
{
	const ccarena_s64 *o = image->actuator_options;
	u64 before = max64(learned->window, WINDOW_ONE), filled;
	const struct image_op *op;
	s64 wish;

	*most = LARGEST_WINDOW;
	learned->action = value;
	switch (image->actuator) {
	case ACT_WINDOW_EXP2:
		learned->action = product(value, o[0]);
		filled = scaled(scaled(learned->throughput_max, learned->srtt_ns, 1000000000), o[1], RAW_ONE);
		*most = min64(max64(filled / max64(learned->mss, 1), 10), LARGEST_WINDOW);
		return scaled(learned->window, exp2_of(learned->action), 1ull << EXP_BITS);
	case ACT_WINDOW_FACTOR:
		*most = min64((u64)o[5] >> RAW_BITS, LARGEST_WINDOW);
		return factored(image, (before + WINDOW_ONE / 2) >> WINDOW_BITS, value) << WINDOW_BITS;
	case ACT_WINDOW_OPS:
		op = &image->ops[(value >> RAW_BITS) & (IMAGE_ACTIONS - 1)];
		wish = (s64)scaled(before, op->factor, RAW_ONE) + (op->add << (WINDOW_BITS - RAW_BITS));
		return wish > (s64)WINDOW_ONE ? wish : (s64)WINDOW_ONE;
	}
	return value > 0 ? (u64)value << (WINDOW_BITS - RAW_BITS) : 0;
}

/* The window is at most so many times the highest throughput by the smallest RTT, once there is one. */
static FIXED_INLINE void set_cap(struct learned *learned, s64 value)
{
	u64 bytes = scaled(learned->throughput_max, learned->rtt_min_ns, 1000000000);

	if (!bytes)
		return;
	bytes = scaled(bytes, value > 0 ? value : 0, 1ull << (RAW_BITS - 4));
	learned->cap = max64(scaled(bytes, 1ull << (WINDOW_BITS - 4), max64(learned->mss, 1)), SMALLEST_WINDOW * WINDOW_ONE);
}

/* Puts an action in force. With CUBIC as the base `learned->window` is a wish, which the caller carries out. Whether it was
 * held back. */
FIXED_FUNCTION u32 act(struct learned *learned FIXED_NONNULL, const struct image *image FIXED_NONNULL, s64 value)
{
	u64 segments = learned->window >> WINDOW_BITS, before = learned->window, wish, most, least;

	if (image->actuator == ACT_ALPHA) {
		learned->action = value;
		learned->alpha = value > 0 ? value : 0;
		return false;
	}
	if (image->actuator == ACT_PACING_GAIN) {
		learned->action = value;
		learned->pacing_gain = value > 0 ? value : 0;
		learned->geared = 1;
		return false;
	}
	if (image->actuator == ACT_CAP) {
		learned->action = value;
		set_cap(learned, value);
		return false;
	}
	if (image->by_rate)
		return act_on_rate(learned, image, value);
	wish = wished_window(learned, image, value, &most);
	if (image->base == BASE_OVER_CUBIC) {
		wish = (wish + WINDOW_ONE / 2) >> WINDOW_BITS << WINDOW_BITS;
		most = max64(most, segments) << WINDOW_BITS;
		least = min64(segments, 2) << WINDOW_BITS;
	} else {
		most = max64(most << WINDOW_BITS, before);
		least = image->base == BASE_ACCT ? learned->least_window : SMALLEST_WINDOW * WINDOW_ONE;
	}
	learned->window = max64(min64(wish, most), least);
	return wish != learned->window;
}

#endif
