/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What user space gives the scheme `pilot` (src/pilot.rs). */
#ifndef CCARENA_PILOT_NUMBERS_H
#define CCARENA_PILOT_NUMBERS_H

/* All parameters at the flow's preference, in the registry's order (numbers.rs; a test compares the names). */
#define PILOT_NUMBERS(_)                                                                                                   \
	_(preference) _(period_ms) _(fast_ms) _(slow_ms) _(fast_packets) _(slow_packets) _(mix) _(trend) _(deviation)      \
	_(deviation_throughput) _(grain) _(grain_slow) _(slack_ms) _(slack_throughput_ms) _(slack_per_rtt)                 \
	_(slack_per_rate) _(steady) _(steady_ms) _(feedback) _(feedback_throughput) _(feedback_below) _(extra) _(silence)  \
	_(rise) _(rise_throughput) _(fall) _(fall_throughput) _(search) _(pacing) _(pacing_early) _(early_rtts)            \
	_(trickle_ms) _(trickle_packets) _(trickle_rtts) _(loss_share) _(base_s) _(probe_s) _(probe_early_s) _(probe_rtts) \
	_(drain) _(competing_ms) _(competing_share) _(push) _(push_follows) _(push_delay) _(push_least) _(starved_s)       \
	_(starved_rtts) _(train_packets) _(train_rate) _(train_queue) _(successes) _(growth) _(back_off) _(leave_s)        \
	_(leave_share)

struct pilot_numbers {
#define PILOT_FIELD(name) s64 name;
	PILOT_NUMBERS(PILOT_FIELD)
#undef PILOT_FIELD
};

/* `generation` is written last, while connections live. Each number by itself is within its bounds, so that a period that sees
 * some of before and some of now does no harm. */
struct pilot_force {
	u64 generation;
	char label[64];
	struct pilot_numbers numbers;
};

#endif
