/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A learned controller in integers: what crates/ccarena-cc/src/learned (monitor, clocks, signals, actuators, bases) does
 * in floating point, for the parts that a policy's image (ccarena_image.h) can name. It has no kernel in it and compiles
 * natively too; a test drives both with the same operations.
 *
 * Signals, options and actions are in units of 2^-20, windows in units of 2^-24 segments, times in ns, measured rates in
 * bytes/s, the rate that actions move in units of 2^-10 bit/s.
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
#define RATE_BITS 10
/* Of BASE_NONE (bases/none.rs). */
#define SMALLEST_WINDOW 2u

enum { ZONE_GREEN, ZONE_YELLOW, ZONE_RED, ZONE_BLUE, ZONES };

/* Sums for a least-squares line through RTT samples: times and RTTs from the first of them, in us. */
struct line {
	u64 first_ns;
	u64 first_rtt_ns;
	u64 count;
	u64 t;
	u64 tt;
	s64 rtt;
	s64 t_rtt;
};

/* Sums of the present period. */
struct period {
	u64 begun_ns;
	u64 acked_bytes;
	u64 lost_bytes;
	u64 sent_bytes; /* retransmissions included, as in `sent` */
	u64 rtt_ns;
	u64 rates; /* delivery-rate samples in bytes/s */
	u32 rtt_count;
	u32 rate_count;
	u32 app_limited; /* of the rate samples */
	u32 acked;
	u32 lost;
	u32 sent;
	struct line line;
};

/* What ACKs say beyond sums, the newest last. */
struct newest {
	u64 rtt_ns;	  /* RTT sample of the newest ACK; 0 without one */
	u64 rate;	  /* its delivery-rate sample in bytes/s; 0 without one */
	u64 rate_last;	  /* the last sample */
	u64 in_flight;	  /* segments, as the next two */
	u64 outstanding;  /* sent and not acknowledged cumulatively */
	u64 retransmitted; /* and in flight */

	/* The last acknowledged segment that had an RTT sample. */
	u64 sent_at_ns;
	u64 acked_at_ns; /* 0: there was none yet */
	u64 sent_bytes;	     /* since it left, its own included */
	u64 delivered_bytes; /* since it left */
	u64 delivered_at_ns; /* the newest ACK when it left */
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
	u64 rate_mean;	   /* of the delivery-rate samples */
	s64 app_limited;   /* share of them */
	s64 slope;	   /* of a line through the RTT samples */
	u32 acked;
	u32 lost;
	u32 sent;
	u32 rtt_count;
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
	u32 by_rate;
	u32 lined;
	u32 by_ack;
	u32 geared; /* an action has set the pacing gain, which then holds whatever the base says */
	u64 cap;	 /* of ACT_CAP: most of the window */
	u64 window_rtts; /* of BASE_NONE by rate, and the bounds of its rate */
	u64 rate_least;
	u64 rate_most;

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
	u64 initial_window;
	u64 rate; /* if actions move it */
	s64 action;
	s64 action_before;
	u64 alpha; /* of ACCT's rules: segments that the window grows by per window of data */
	struct period period;
	struct newest newest;

	/* Of what the image derives: values, and those so far of what is held with their number. */
	s64 derived[IMAGE_DERIVED];
	s64 held[IMAGE_DERIVED];
	u32 held_count[IMAGE_DERIVED];

	u32 remembered; /* periods; they say where each ring of the history begins */
	u32 unused_too;
	s64 history[IMAGE_OBSERVATION];
	s64 report[IMAGE_COLUMNS]; /* of the last period, if the image wants one */
	struct learned_state state;
};

static FIXED_INLINE u64 rtt_or_initial(const struct learned *learned)
{
	return learned->srtt_ns ? learned->srtt_ns : INITIAL_RTT_NS;
}

static FIXED_INLINE u64 round_trips(const struct learned *learned, s64 count)
{
	return max64(scaled(count > 0 ? count : 0, rtt_or_initial(learned), RAW_ONE), 1);
}

/* The base's window, which an action may bound. */
static FIXED_INLINE u64 window_now(const struct learned *learned)
{
	return min64(learned->window, learned->cap);
}

/* The same in whole segments, at least one. */
static FIXED_INLINE u64 whole_window(const struct learned *learned)
{
	bool nearest = learned->base == BASE_NONE && !learned->by_rate;
	u64 whole = (learned->window + (nearest ? WINDOW_ONE / 2 : 0)) >> WINDOW_BITS;

	return max64(min64(whole, learned->cap >> WINDOW_BITS), 1);
}

/* The rate, and the window that bounds what a stalled flow has in flight: some RTTs of sending (bases/none.rs). */
static FIXED_INLINE void set_rate(struct learned *learned, u64 rate)
{
	u64 bits, window;

	learned->rate = max64(min64(rate, learned->rate_most), learned->rate_least);
	bits = scaled(scaled(learned->rate, rtt_or_initial(learned), 1000000000), learned->window_rtts, RAW_ONE);
	window = scaled(bits, 1ull << (WINDOW_BITS - RATE_BITS - 3), max64(learned->mss, 1));
	learned->window = max64(min64(window, (u64)LARGEST_WINDOW << WINDOW_BITS), SMALLEST_WINDOW * WINDOW_ONE);
}

/* The rate of a window per RTT. */
static FIXED_INLINE u64 rate_per_rtt(const struct learned *learned, u64 window)
{
	u64 bits = scaled(window, learned->mss, 1ull << (WINDOW_BITS - RATE_BITS - 3));

	return scaled(bits, 1000000000, rtt_or_initial(learned));
}

/* The window is so many segments from now on, and the rate what it comes to. */
static FIXED_INLINE void learned_adopt(struct learned *learned, u32 segments)
{
	learned->window = (u64)segments << WINDOW_BITS;
	if (learned->by_rate)
		set_rate(learned, rate_per_rtt(learned, learned->window));
}

/* What an ACK says of the path, before anything else is done about it. The first RTT makes the rate an initial window per
 * RTT. */
static FIXED_INLINE void learned_sees(struct learned *learned, u64 srtt_ns, u32 mss)
{
	bool first = !learned->srtt_ns && srtt_ns;

	learned->srtt_ns = srtt_ns;
	learned->mss = mss;
	if (learned->by_rate)
		set_rate(learned, first ? rate_per_rtt(learned, learned->initial_window) : learned->rate);
}

/* The clock begins a period at `now`. */
static FIXED_INLINE void learned_begin_period(struct learned *learned, const struct image *image, u64 now)
{
	u64 length_ns = max64(ns_of(image->clock_options[0]), 1), tick_ns = max64(ns_of(image->clock_options[1]), 1);

	if (image->clock == CLOCK_FIXED)
		learned->reasoner.length_ns = length_ns;
	if (image->clock == CLOCK_TICKS) {
		/* The end of the first tick that is more than the period after the present one. */
		learned->ends_ns = now / tick_ns * tick_ns + (length_ns / tick_ns + 1) * tick_ns;
	} else if (image->clock == CLOCK_TIMER) {
		/* What comes late does not delay what is after it, unless a whole period has passed. */
		learned->ends_ns = (learned->ends_ns + length_ns > now ? learned->ends_ns : now) + length_ns;
	} else {
		learned->ends_ns = now + learned->reasoner.length_ns;
	}
}

static FIXED_INLINE const struct reasoner_options *reasoner_of(const struct image *image)
{
	return (const struct reasoner_options *)image->clock_options;
}

/* A flow begins, or another policy takes it over: `window` in segments. */
static FIXED_INLINE void learned_take(struct learned *learned, const struct image *image, u32 window)
{
	const ccarena_s64 *o = image->base_options;

	learned->generation = image->generation;
	learned->clock = image->clock;
	learned->base = image->base;
	learned->by_rate = image->by_rate;
	learned->lined = image->lined;
	learned->by_ack = image->by_ack;
	learned->header_bytes = image->header_bytes;
	learned->pacing_gain = o[image->base == BASE_ACCT ? 5 : 3];
	learned->geared = 0;
	learned->cap = ~0ull;
	learned->least_window = (u64)o[2] << (WINDOW_BITS - RAW_BITS);
	learned->window_rtts = o[2];
	learned->rate_least = scaled(o[0], 1000000, 1ull << (RAW_BITS - RATE_BITS));
	learned->rate_most = max64(scaled(o[1], 1000000, 1ull << (RAW_BITS - RATE_BITS)), learned->rate_least);
	learned->round_trips = image->clock_options[0];
	learned->window = learned->initial_window = (u64)window << WINDOW_BITS;
	learned->action = learned->action_before = image->first_action;
	learned->alpha = RAW_ONE;
	if (image->actuator == ACT_ALPHA)
		learned->alpha = image->first_action > 0 ? image->first_action : 0;
	if (image->clock == CLOCK_REASONER)
		reasoner_begin(&learned->reasoner, reasoner_of(image));
	if (image->by_rate)
		set_rate(learned, learned->rate ? learned->rate : rate_per_rtt(learned, learned->initial_window));
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
	CCARENA_FOR(i, IMAGE_DERIVED) {
		learned->derived[i & (IMAGE_DERIVED - 1)] = learned->held[i & (IMAGE_DERIVED - 1)] = 0;
		learned->held_count[i & (IMAGE_DERIVED - 1)] = 0;
	}
	learned_take(learned, image, learned->initial_window >> WINDOW_BITS);
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
	/* Ticks count from the first ACK. */
	learned->ends_ns = image->clock == CLOCK_TICKS ? 0 : now;
	if (image->clock != CLOCK_TICKS)
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
	if (learned->base == BASE_ACCT)
		learned->window = max64(learned->window / 2, learned->least_window);
}

/* A timeout leaves ACCT one segment. */
static FIXED_INLINE void learned_time_out(struct learned *learned)
{
	if (learned->base == BASE_ACCT)
		learned->window = WINDOW_ONE;
}

/* A period ends by a timer. A program cannot act on a socket from a timer of BPF's (docs/kernel.md), so the first ACK
 * after the end, before it counts, does what the timer would have done. */
static FIXED_INLINE bool learned_timer_due(const struct learned *learned, u64 now)
{
	return learned->clock == CLOCK_TIMER && learned->begun && now >= learned->ends_ns;
}

/* The first period begins with an ACK that rings, which ends none. */
static FIXED_INLINE bool learned_waits(const struct learned *learned)
{
	return (learned->clock == CLOCK_WINDOW && !learned->mark) || (learned->clock == CLOCK_TICKS && !learned->ends_ns);
}

static FIXED_INLINE bool learned_rings(const struct learned *learned, u64 now, u64 snd_una)
{
	if (learned->clock == CLOCK_TIMER)
		return false;
	if (learned->clock == CLOCK_WINDOW)
		return snd_una >= learned->mark;
	if (learned->clock == CLOCK_RTT)
		return now >= learned->period.begun_ns + round_trips(learned, learned->round_trips);
	return now >= learned->ends_ns;
}

/* Takes an RTT sample. Sums of 64 bits hold 65,536 of them within 8 s; those beyond do not count. */
static FIXED_INLINE void line_add(struct line *line, u64 now, u64 rtt_ns)
{
	s64 rtt;
	u64 t;

	if (!line->count) {
		line->first_ns = now;
		line->first_rtt_ns = rtt_ns;
	}
	t = (now - line->first_ns) / 1000;
	rtt = (s64)(rtt_ns / 1000) - (s64)(line->first_rtt_ns / 1000);
	if (line->count >> 16 || t >> 23 || rtt >> 23 > 0 || rtt >> 23 < -1)
		return;
	line->count++;
	line->t += t;
	line->tt += t * t;
	line->rtt += rtt;
	line->t_rtt += (s64)t * rtt;
}

/* Seconds of RTT per second; zero without two samples at different times. */
static FIXED_INLINE s64 line_slope(const struct line *line)
{
	u64 rtt = line->rtt < 0 ? -line->rtt : line->rtt, means = scaled(line->t, rtt, line->count);
	s64 spread = (s64)(line->tt - scaled(line->t, line->t, line->count));

	if (!line->count || spread <= 0)
		return 0;
	return quotient(line->t_rtt + (line->rtt < 0 ? (s64)means : -(s64)means), spread);
}

/* The pacing rate in bytes/s; 0 for none. */
FIXED_FUNCTION u64 learned_pacing(const struct learned *learned FIXED_NONNULL)
{
	u64 window = max64(learned->window, WINDOW_ONE);

	if (learned->by_rate)
		return max64(learned->rate >> (RATE_BITS + 3), 1);
	if (!learned->pacing_gain || !learned->srtt_ns || (learned->over_budget && !learned->geared))
		return 0;
	window = (window >> 8) * learned->mss >> (WINDOW_BITS - 8);
	return max64(scaled(scaled(window, learned->pacing_gain, RAW_ONE), 1000000000, learned->srtt_ns), 1);
}

#endif
