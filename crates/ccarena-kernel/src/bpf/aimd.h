/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The arithmetic of the WCC family (Zheng et al., "Revisiting Weighted AIMD-based Congestion Control", sections II-III)
 * in whole thousandths of a weight: crates/ccarena-cc/src/schemes/{aimd,cwnd}.rs in C. It compiles natively too; a test
 * drives both with the same operations. */
#ifndef CCARENA_AIMD_H
#define CCARENA_AIMD_H

#define AIMD_ONE 1000u

enum aimd_scheme { WCC_AI, WCC_MD, MULTCP, EWTCP };

/* AI in thousandths of a segment per window; MD = 1/(2 divisor), the divisor in thousandths. */
struct aimd_steps {
	__u32 increase;
	__u32 divisor;
};

/* `weight` in thousandths, at most 1,000,000. */
static inline struct aimd_steps aimd_steps(enum aimd_scheme scheme, __u32 weight)
{
	struct aimd_steps steps = { AIMD_ONE, AIMD_ONE };
	__u64 a = weight < 1 ? 1 : weight < 1000 * AIMD_ONE ? weight : 1000 * AIMD_ONE;

	if (scheme == WCC_AI || scheme == MULTCP)
		steps.increase = a;
	if (scheme == EWTCP)
		steps.increase = a * a < AIMD_ONE ? 1 : a * a / AIMD_ONE;
	if (scheme == WCC_MD || scheme == MULTCP)
		steps.divisor = a;
	/* A loss takes no more than the whole window. */
	if (steps.divisor < AIMD_ONE / 2)
		steps.divisor = AIMD_ONE / 2;
	return steps;
}

/* What a loss episode leaves of the window, rounded down as NewReno's half is. */
static inline __u32 aimd_reduced(__u32 window, __u32 divisor)
{
	__u32 left = (__u64)window * (2 * divisor - AIMD_ONE) / (2 * divisor);

	return left < 2 ? 2 : left;
}

/* The window after `acked` segments: tcp_slow_start up to the threshold, then tcp_cong_avoid_ai. `credit` counts
 * thousandths of acknowledged segments that have not led to growth. */
static inline __u32 aimd_grown(__u32 window, __u32 threshold, __u32 clamp, __u64 *credit, __u32 acked, __u32 increase)
{
	__u64 per_growth, growth;

	if (window < threshold) {
		__u64 grown = (__u64)window + acked;

		grown = grown < threshold ? grown : threshold;
		grown = grown < clamp ? grown : clamp;
		acked -= grown - window;
		window = grown;
	}
	if (!acked)
		return window;
	per_growth = (__u64)window * AIMD_ONE;
	if (*credit >= per_growth) {
		*credit = 0;
		window++;
	}
	*credit += (__u64)acked * increase;
	if (*credit >= per_growth) {
		growth = *credit / per_growth;
		*credit -= growth * per_growth;
		window = growth < clamp - (window < clamp ? window : clamp) ? window + growth : clamp;
	}
	return window < clamp ? window : clamp;
}

#endif
