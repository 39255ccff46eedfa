/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Signals of a learned controller, at the end of a period and at an ACK, and what an image derives from them:
 * crates/ccarena-cc/src/learned/{signals,derived}. */
#ifndef CCARENA_SIGNALS_H
#define CCARENA_SIGNALS_H

#include "learned.h"

/* There is no sample; beyond all bounds. */
#define NO_VALUE (-2 * RAW_MOST)

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
	bool below = window_now(learned) < m->target, within = m->delay_ns < budget_ns;

	return within ? (below ? ZONE_GREEN : ZONE_YELLOW) : (below ? ZONE_BLUE : ZONE_RED);
}

/* The pacing rate; without pacing the window per smoothed RTT. */
static FIXED_INLINE s64 rate_mbps(const struct learned *learned)
{
	u64 bytes = (learned->window >> 8) * learned->mss >> (WINDOW_BITS - 8), gain = learned->pacing_gain;

	if (learned->by_rate)
		return scaled(learned->rate, 1ull << (RAW_BITS - RATE_BITS), 1000000);
	if (!gain || (learned->over_budget && !learned->geared))
		gain = RAW_ONE;
	return (s64)min64(scaled(scaled(bytes, gain, 1), 8000, learned->srtt_ns), RAW_MOST);
}

/* On a clock of ticks of `tick` ms, if that is above 0. */
static FIXED_INLINE s64 elapsed_ms(u64 earlier_ns, u64 later_ns, s64 tick)
{
	u64 length_ns = max64(ns_of(tick), 1);

	if (tick <= 0)
		return later_ns > earlier_ns ? ratio(later_ns - earlier_ns, 1000000) : 0;
	return (s64)(later_ns / length_ns - earlier_ns / length_ns) * tick;
}

/* Of a segment that has been acknowledged, on such a clock; of rates the time is a tick at the least. */
FIXED_FUNCTION s64 segment_value(const struct newest *newest FIXED_NONNULL, u32 signal, s64 tick)
{
	bool sends = signal == SIGNAL_ACK_SEND_MBPS;
	s64 rtt_ms = elapsed_ms(newest->sent_at_ns, newest->acked_at_ns, tick), ms = rtt_ms;
	u64 bytes = sends ? newest->sent_bytes : newest->delivered_bytes;

	if (signal == SIGNAL_ACK_RTT_MS)
		return rtt_ms;
	if (!sends)
		ms = elapsed_ms(newest->delivered_at_ns, newest->acked_at_ns, tick);
	return ratio(scaled(bytes, 8 * RAW_ONE, 1000), max64(ms, tick > 0 ? tick : 0));
}

FIXED_FUNCTION s64 signal_value(const struct learned *learned FIXED_NONNULL, const struct measured *m FIXED_NONNULL,
				u32 signal, u32 channel, s64 option)
{
	u64 bytes = whole_window(learned) * learned->mss;
	const struct newest *newest = &learned->newest;
	s64 difference;

	switch (signal) {
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
		return ratio(m->delay_ns, ns_of(option));
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
		return window_now(learned) >> (WINDOW_BITS - RAW_BITS);
	case SIGNAL_WINDOW_RATIO:
		return ratio(scaled(bytes, 1000000, 1), scaled(learned->throughput_max, learned->rtt_min_ns, 1000));
	case SIGNAL_TWND_PACKETS:
		return m->target >> 62 ? RAW_MOST : (s64)(m->target >> (WINDOW_BITS - RAW_BITS));
	case SIGNAL_TARGET_RATIO:
		return m->target >> 62 ? 0 : ratio(window_now(learned), m->target);
	case SIGNAL_ADVERTISED_MBPS:
		return ratio(learned->advertised_kbps, 1000);
	case SIGNAL_ZONE:
		return zone_of(learned, m, ns_of(option)) == channel ? RAW_ONE : 0;
	case SIGNAL_ZONE_INDEX:
		return (s64)zone_of(learned, m, ns_of(option)) << RAW_BITS;
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
	case SIGNAL_LATENCY_GRADIENT:
		return m->slope;
	case SIGNAL_RATE_MBPS:
		return rate_mbps(learned);
	case SIGNAL_RTT_OR_ZERO_MS:
		return m->rtt_count ? ratio(m->rtt_ns, 1000000) : 0;
	case SIGNAL_RTT_SAMPLES:
		return ratio(m->rtt_count, 1);
	case SIGNAL_INFLIGHT_PACKETS:
		return ratio(newest->in_flight, 1);
	case SIGNAL_INFLIGHT_RATIO:
		return ratio(newest->in_flight, whole_window(learned));
	case SIGNAL_OUTSTANDING_PACKETS:
		return ratio(newest->outstanding, 1);
	case SIGNAL_RETRANSMITTED_PACKETS:
		return ratio(newest->retransmitted, 1);
	case SIGNAL_DELIVERY_RATE_MBPS:
		return ratio(newest->rate_last, 125000);
	case SIGNAL_DELIVERY_RATE_MEAN_MBPS:
		return ratio(m->rate_mean, 125000);
	case SIGNAL_APP_LIMITED_RATIO:
		return m->app_limited;
	case SIGNAL_ACK_RTT_MS:
	case SIGNAL_ACK_DELIVERY_MBPS:
	case SIGNAL_ACK_SEND_MBPS:
		return newest->acked_at_ns ? segment_value(newest, signal, option) : 0;
	case SIGNAL_DERIVED:
		return learned->derived[channel & (IMAGE_DERIVED - 1)];
	}
	return 0;
}

/* A signal at an ACK; NO_VALUE if that has no sample. */
FIXED_FUNCTION s64 value_of_ack(const struct learned *learned FIXED_NONNULL, u32 signal, s64 option)
{
	const struct newest *newest = &learned->newest;
	u64 rtt_ns = newest->rtt_ns, least_ns = learned->rtt_min_ns;

	switch (signal) {
	case SIGNAL_RTT_MS:
		return rtt_ns ? ratio(rtt_ns, 1000000) : NO_VALUE;
	case SIGNAL_RTT_MIN_MS:
		return least_ns ? ratio(least_ns, 1000000) : NO_VALUE;
	case SIGNAL_SRTT_MS:
		return learned->srtt_ns ? ratio(learned->srtt_ns, 1000000) : NO_VALUE;
	case SIGNAL_QUEUEING_DELAY_MS:
		return rtt_ns ? ratio(rtt_ns - min64(least_ns, rtt_ns), 1000000) : NO_VALUE;
	case SIGNAL_DELIVERY_RATE_MBPS:
		return newest->rate ? ratio(newest->rate, 125000) : NO_VALUE;
	case SIGNAL_ACK_RTT_MS:
	case SIGNAL_ACK_DELIVERY_MBPS:
	case SIGNAL_ACK_SEND_MBPS:
		return rtt_ns && newest->acked_at_ns ? segment_value(newest, signal, option) : NO_VALUE;
	}
	return NO_VALUE;
}

/* Takes `x` among the values so far, and returns what they come to (derived/memory.rs). */
FIXED_FUNCTION s64 held_with(struct learned *learned FIXED_NONNULL, const struct image_derived *step FIXED_NONNULL,
			     u32 place, s64 x)
{
	s64 *value = &learned->held[place & (IMAGE_DERIVED - 1)];
	u32 *count = &learned->held_count[place & (IMAGE_DERIVED - 1)];

	if (x == NO_VALUE)
		return *value;
	*count += *count < 0xffffffff;
	if (*count == 1 || (step->derivation == DERIVED_MIN && x < *value) || (step->derivation == DERIVED_MAX && x > *value))
		*value = x;
	else if (step->derivation == DERIVED_EWMA)
		*value += product(step->option, x - *value);
	else if (step->derivation == DERIVED_MEAN)
		*value += quotient(x - *value, (s64)*count << RAW_BITS);
	return *value;
}

/* Computes the value at `place`, where `signal` is that of the signal that it names. */
FIXED_FUNCTION u32 derive(struct learned *learned FIXED_NONNULL, const struct image_derived *step FIXED_NONNULL, u32 place,
			  s64 signal)
{
	s64 a = learned->derived[step->first & (IMAGE_DERIVED - 1)], b = learned->derived[step->second & (IMAGE_DERIVED - 1)];
	bool both = a != NO_VALUE && b != NO_VALUE;
	s64 x = signal;

	switch (step->derivation) {
	case DERIVED_SIGNAL:
		break;
	case DERIVED_CONSTANT:
		x = step->option;
		break;
	case DERIVED_QUOTIENT:
		x = !both ? NO_VALUE : b > 0 ? quotient(a, b) : b < 0 ? -quotient(a, -b) : step->option;
		break;
	case DERIVED_DIFFERENCE:
		x = both ? a - b : NO_VALUE;
		break;
	default:
		x = held_with(learned, step, place, a);
	}
	learned->derived[place & (IMAGE_DERIVED - 1)] = x == NO_VALUE ? x : clamped(x, step->low, step->high);
	return 0;
}

/* An ACK has been booked: the values that ACKs feed. */
FIXED_FUNCTION u32 derive_of_ack(struct learned *learned FIXED_NONNULL, const struct image *image FIXED_NONNULL)
{
	u32 i;

	CCARENA_FOR(i, image->by_ack) {
		const struct image_derived *step = &image->derived[i & (IMAGE_DERIVED - 1)];

		derive(learned, step, i, value_of_ack(learned, step->signal, step->option));
	}
	return 0;
}

/* A period has ended: the other values, and where averages begin anew. */
static FIXED_INLINE void derive_of_period(struct learned *learned, const struct image *image, const struct measured *m)
{
	u32 i;

	CCARENA_FOR(i, image->derived_length) {
		const struct image_derived *step = &image->derived[i & (IMAGE_DERIVED - 1)];

		if (i >= image->by_ack)
			derive(learned, step, i,
			       step->derivation == DERIVED_SIGNAL ? signal_value(learned, m, step->signal, 0, step->option) : 0);
		if (step->derivation == DERIVED_EWMA && step->second)
			learned->held_count[i & (IMAGE_DERIVED - 1)] = 0;
	}
}

#endif
