/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The law of the scheme `pilot` in integers: crates/ccarena-cc/src/schemes/pilot in C, part by part under the same names.
 * Numbers are in units of 2^-RAW_BITS, times of the clock in ns. It compiles natively too: tests/pilot.rs runs both in the
 * simulator.
 *
 * Nothing runs while no acknowledgement comes. `pilot_catch_up` makes up for the periods that have ended since, with what was
 * known then. What is left out is the trickle, which would send in silence: Linux's tail loss probe (RFC 8985 section 7) sends
 * instead. */
#ifndef CCARENA_PILOT_H
#define CCARENA_PILOT_H

#include "fixed.h"
#include "pilot_numbers.h"

/* The includer defines `numbers`. */

/* A constant of the law. */
#define RAW(x) ((s64)((x) * (double)RAW_ONE + 0.5))
#define PILOT_NEVER (~0ull)
#define PILOT_MS 1000000ull
#define PILOT_S 1000000000ull

#define PILOT_LEAST (2 * RAW_ONE)
#define PILOT_MOST ((1ll << 24) * RAW_ONE)
#define PILOT_STEP_S RAW(0.01)
#define PILOT_SHORT_RTT_S RAW(0.1)
/* Periods that pilot_catch_up goes through one by one. Those before are one long period. */
#define PILOT_PERIODS 32

enum pilot_phase { PILOT_LAW, PILOT_DRAIN, PILOT_PUSH, PILOT_SETTLE };

struct pilot_recent_min {
	u64 present;
	u64 before;
	u64 since;
};

/* estimates.rs */
struct pilot_seen {
	s64 fast;
	s64 slow;
	s64 variance;
	s64 per_ack;
	s64 tick_ms;
	s64 averaged;
	s64 loss;
	s64 lost;
	struct pilot_recent_min base;
	struct pilot_recent_min standing;
	u64 rtt;
	u64 srtt;
	u64 touched;
	u64 heard;
	s64 overdue;
	s64 in_flight;
	u64 limited;
};

/* trial.rs */
struct pilot_trial {
	s64 window;
	s64 before;
	s64 rtt;
	s64 rate;
	u64 seen_from;
	u64 until;
	s64 returning;
	s64 train; /* packets after the first one; 0: it is no train */
	u64 first;
	u64 newest;
	s64 lowest; /* RAW_MOST before there is one */
	s64 least;
	s64 delays;
	s64 seconds;
	s64 packets;
};

/* sharing.rs */
struct pilot_competing {
	s64 window;
	s64 highest;
	u64 epoch;
	u64 drained;
	u64 loss; /* 0: none */
	s64 full;
	u32 alone;
	u8 on;
	u8 confirmed;
	u8 by_trains;
	u8 lost;
};

/* pilot.rs */
struct pilot {
	u64 began; /* the period; 0 before the first packet */
	u64 ends;
	s64 acked;
	s64 window;
	s64 velocity;
	u64 searched;
	s64 ceiling;
	struct pilot_seen seen;
	u64 phase;
	struct pilot_trial trial;
	u64 settled;
	s64 successes;
	s64 failures;
	u64 drained;
	u64 train_sent;
	struct pilot_competing own;
	u64 watches; /* its windows do not act: a trial would judge an answer to none */
};

/* What an acknowledgement says. */
struct pilot_ack {
	u64 now;
	s64 acked;	/* packets */
	u64 rtt;	/* 0: no sample */
	u64 srtt;
	s64 in_flight;	/* packets, after it */
	u32 segments;	/* acknowledged */
	u8 limited;	/* by the window */
	u8 in_loss;	/* after a timeout */
};

static FIXED_INLINE s64 least_of(s64 a, s64 b)
{
	return a < b ? a : b;
}

static FIXED_INLINE s64 most_of(s64 a, s64 b)
{
	return a > b ? a : b;
}

/* x / n: BPF divides numbers without a sign alone. */
static FIXED_INLINE s64 part_of(s64 x, u64 n)
{
	return x < 0 ? -(s64)((u64)-x / n) : (s64)((u64)x / n);
}

static FIXED_INLINE u64 pilot_since(u64 now, u64 then)
{
	return now > then ? now - then : 0;
}

static FIXED_INLINE s64 seconds_of(u64 ns)
{
	return (s64)scaled(ns, RAW_ONE, PILOT_S);
}

static FIXED_INLINE u64 ns_of_s(s64 s)
{
	return s > 0 ? scaled(s, PILOT_S, RAW_ONE) : 0;
}

static FIXED_INLINE s64 seconds_since(u64 now, u64 then)
{
	return seconds_of(pilot_since(now, then));
}

/* 2^x to the law's resolution. */
static FIXED_INLINE s64 power_of_2(s64 x)
{
	return (s64)(exp2_of(x) >> (EXP_BITS - RAW_BITS));
}

/* log2(x): ln((1 + z) / (1 - z)) = 2 (z + z^3 / 3 + ...), of x between 1/sqrt(2) and sqrt(2) times a power of two. */
FIXED_FUNCTION s64 log2_of(s64 x)
{
	u32 bits = bits_of(x > 0 ? x : 1);
	s64 held = x > 0 ? x : 1, whole = (s64)bits - 1 - RAW_BITS, m, z, squared, y;

	/* From 1 to 2, in units of 2^-EXP_BITS. */
	m = bits > EXP_BITS + 1 ? held >> ((bits - EXP_BITS - 1) & 63) : held << ((EXP_BITS + 1 - bits) & 63);
	if (m > 1518500250) { /* sqrt(2) */
		m >>= 1;
		whole++;
	}
	z = part_of((m - (1ll << EXP_BITS)) * (1ll << EXP_BITS), m + (1ll << EXP_BITS));
	squared = z * z >> EXP_BITS;
	y = 344240445; /* 2 / (9 ln 2), and so on */
	y = (y * squared >> EXP_BITS) + 442594858;
	y = (y * squared >> EXP_BITS) + 619632802;
	y = (y * squared >> EXP_BITS) + 1032721336;
	y = (y * squared >> EXP_BITS) + 3098164009;
	return (whole << RAW_BITS) + (y * z >> (2 * EXP_BITS - RAW_BITS));
}

static FIXED_INLINE s64 root_of(s64 x)
{
	return x > 0 ? power_of_2(part_of(log2_of(x), 2)) : 0;
}

static FIXED_INLINE void recent_min_add(struct pilot_recent_min *min, u64 now, u64 x, u64 stretch, bool keeps)
{
	u64 since = pilot_since(now, min->since);

	if (keeps) {
		min->since = now;
	} else if (since >= stretch / 2) {
		min->before = since >= stretch ? PILOT_NEVER : min->present;
		min->present = PILOT_NEVER;
		min->since = now;
	}
	min->present = min64(min->present, x);
}

static FIXED_INLINE u64 recent_min(const struct pilot_recent_min *min)
{
	return min64(min->present, min->before);
}

/* The smoothed RTT, but not one that still knows of an outage. */
static FIXED_INLINE u64 round_trip(const struct pilot_seen *seen)
{
	return min64(seen->srtt, 2 * seen->rtt);
}

/* The smallest RTT in seconds; 0 before there is one. */
static FIXED_INLINE s64 rtt_min_of(const struct pilot_seen *seen)
{
	u64 base = recent_min(&seen->base);

	return base == PILOT_NEVER ? 0 : most_of(seconds_of(base), 1);
}

/* An RTT without the smallest one, in seconds. */
static FIXED_INLINE s64 beyond_base(const struct pilot_seen *seen, u64 rtt)
{
	u64 base = recent_min(&seen->base);

	return rtt == PILOT_NEVER || base == PILOT_NEVER ? 0 : seconds_since(rtt, base);
}

static FIXED_INLINE s64 queueing(const struct pilot_seen *seen)
{
	return beyond_base(seen, seen->rtt) + seen->overdue;
}

static FIXED_INLINE s64 standing(const struct pilot_seen *seen)
{
	return beyond_base(seen, recent_min(&seen->standing));
}

/* The slow average, as a divisor. */
static FIXED_INLINE s64 slow_of(const struct pilot_seen *seen)
{
	return most_of(seen->slow, RAW_ONE);
}

static FIXED_INLINE s64 packet_ms(const struct pilot_seen *seen)
{
	return quotient(1000 * RAW_ONE, slow_of(seen));
}

static FIXED_INLINE s64 fast_ms_of(const struct pilot_seen *seen)
{
	return numbers.fast_ms + product(numbers.fast_packets, packet_ms(seen));
}

/* 1 - e^(-dt / ms) */
static FIXED_INLINE s64 weight_of_ms(s64 dt, s64 ms)
{
	return RAW_ONE - power_of_2(log2_of_exp(-quotient(1000 * dt, ms)));
}

/* A period of dt seconds has ended, in which `packets` were delivered. */
FIXED_FUNCTION int seen_tick(struct pilot_seen *seen FIXED_NONNULL, u64 now, s64 packets, s64 dt, u32 frozen)
{
	s64 silence = seconds_since(now, seen->heard) - quotient(2 * RAW_ONE, slow_of(seen));
	s64 lost = seen->lost, rate, fast, slow, share, deviation;
	u64 limited = seen->limited;

	seen->tick_ms = 1000 * dt;
	seen->overdue = seen->in_flight > 0 && silence > 0 ? product(numbers.silence, silence) : 0;
	seen->lost = 0;
	seen->limited = 0;
	if (packets + lost > 0)
		seen->loss += product(weight_of_ms(dt, numbers.slow_ms), ratio(lost, packets + lost) - seen->loss);
	if (frozen || (!seen->averaged && !packets))
		return 0;
	seen->averaged += dt;
	share = quotient(dt, seen->averaged);
	rate = quotient(packets, dt);
	if (!limited && packets > 0 && rate < seen->fast)
		return 0;
	fast = weight_of_ms(dt, fast_ms_of(seen));
	slow = weight_of_ms(dt, numbers.slow_ms + product(numbers.slow_packets, packet_ms(seen)));
	seen->fast += product(most_of(fast, share), rate - seen->fast);
	seen->slow += product(most_of(slow, share), rate - seen->slow);
	deviation = seen->fast - seen->slow;
	seen->variance += product(slow, product(deviation, deviation) - seen->variance);
	return 0;
}

FIXED_FUNCTION s64 variation_of(const struct pilot_seen *seen FIXED_NONNULL)
{
	s64 apart_ms = product(seen->per_ack, packet_ms(seen)), slow = slow_of(seen), alone, grain, height, left;

	alone = clamped(2 * (quotient(apart_ms, most_of(seen->tick_ms, RAW(1e-3))) - RAW_ONE), 0, RAW_ONE);
	grain = numbers.grain + product(alone, numbers.grain_slow - numbers.grain);
	height = quotient(product(grain, apart_ms), fast_ms_of(seen));
	left = quotient(quotient(most_of(seen->variance, 0), slow), slow) - part_of(product(height, height), 12);
	return root_of(left);
}

/* Packets per second that the path is expected to take. */
static FIXED_INLINE s64 rate_of_path(const struct pilot_seen *seen, s64 variation)
{
	s64 mean = product(numbers.mix, seen->fast) + product(RAW_ONE - numbers.mix, seen->slow);
	s64 trend = product(numbers.trend, most_of(seen->fast - seen->slow, 0));

	return mean + trend + product(product(numbers.deviation, variation), slow_of(seen));
}

/* d in seconds where capacity varies. */
FIXED_FUNCTION s64 slack_of(s64 rtt_min, s64 rate)
{
	s64 power = log2_of(numbers.slack_ms);

	power -= product(numbers.slack_per_rtt, log2_of(quotient(most_of(rtt_min, RAW(1e-3)), RAW(0.04))));
	power -= product(numbers.slack_per_rate, log2_of(part_of(most_of(rate, RAW_ONE), 100)));
	/* Of ms, which keep more digits. */
	return least_of(part_of(power_of_2(power), 1000), RAW_ONE);
}

static FIXED_INLINE s64 allowed(s64 slack, s64 variation)
{
	return most_of(product(slack, least_of(quotient(variation, numbers.steady), RAW_ONE)),
		       least_of(slack, part_of(numbers.steady_ms, 1000)));
}

/* A trial of the window (trial.rs). */

/* Shortest time of a round trip. */
#define PILOT_SHORTEST (10 * PILOT_MS)

static FIXED_INLINE void trial_begin(struct pilot *p, u64 now, s64 window, s64 before, s64 rtt)
{
	struct pilot_trial *trial = &p->trial;
	u64 round = max64(ns_of_s(rtt), PILOT_SHORTEST);

	trial->window = window;
	trial->before = before;
	trial->rtt = rtt;
	trial->rate = most_of(quotient(before, most_of(rtt, 1)), RAW_ONE);
	trial->seen_from = now + round;
	trial->until = now + round + max64(round_trip(&p->seen), PILOT_SHORTEST);
	trial->returning = 0;
	trial->train = 0;
	trial->first = trial->newest = 0;
	trial->lowest = trial->least = RAW_MOST;
	trial->delays = trial->seconds = trial->packets = 0;
}

static FIXED_INLINE void begin_drain(struct pilot *p, u64 now, s64 rtt_min)
{
	s64 rtt = rtt_min + standing(&p->seen);
	s64 left = product(product(p->window, quotient(rtt_min, rtt)), numbers.drain);

	trial_begin(p, now, least_of(most_of(left, PILOT_LEAST), p->window), p->window, rtt);
}

static FIXED_INLINE void begin_half_drain(struct pilot *p, u64 now, s64 rtt_min)
{
	s64 rtt = most_of(seconds_of(p->seen.rtt), rtt_min);
	s64 left = product(p->window, quotient(rtt + rtt_min, 2 * rtt));

	trial_begin(p, now, least_of(most_of(left, PILOT_LEAST), p->window), p->window, rtt);
}

static FIXED_INLINE void begin_push(struct pilot *p, u64 now, s64 window, s64 before, s64 rtt)
{
	struct pilot_trial *trial = &p->trial;

	trial_begin(p, now, window, before, rtt);
	trial->seen_from = trial->until = now + 3 * (trial->until - now);
	trial->returning = p->seen.in_flight + RAW_ONE / 2;
}

static FIXED_INLINE void begin_train(struct pilot *p, u64 now, s64 window, s64 before, s64 rtt)
{
	begin_push(p, now, window, before, rtt);
	p->trial.train = most_of(window - before - RAW_ONE, 1);
	p->trial.first = p->trial.newest = now;
}

/* `packets` were delivered in a period of dt seconds. */
FIXED_FUNCTION int trial_see(struct pilot *p FIXED_NONNULL, u64 now, s64 packets, s64 dt)
{
	struct pilot_trial *trial = &p->trial;
	s64 rtt = seconds_of(p->seen.rtt);
	u64 srtt = max64(p->seen.srtt, PILOT_SHORTEST);

	trial->lowest = least_of(trial->lowest, rtt);
	if (trial->returning > 0) {
		trial->returning -= packets;
		if (trial->returning > 0)
			return 0;
		trial->seen_from = now;
		trial->until = now + srtt;
		if (!trial->train)
			return 0;
		trial->first = now;
		trial->until = now + 3 * srtt;
		packets = -trial->returning - RAW_ONE / 2;
	}
	if (4 * rtt < trial->rtt) {
		trial->seen_from = min64(trial->seen_from, now);
		trial->until = min64(trial->until, now + max64(round_trip(&p->seen), PILOT_SHORTEST));
	}
	if (now < trial->seen_from)
		return 0;
	trial->least = least_of(trial->least, rtt);
	trial->delays += product(rtt, dt);
	trial->seconds += dt;
	trial->packets += packets;
	if (trial->train) {
		if (packets > 0)
			trial->newest = now;
		if (trial->packets >= trial->train)
			trial->until = now;
	}
	return 0;
}

/* Share of the queue that was the flow's own. */
FIXED_FUNCTION s64 share_of(const struct pilot_trial *trial FIXED_NONNULL, s64 after, s64 rtt_min)
{
	s64 alone = most_of(product(trial->rtt, quotient(trial->window, most_of(trial->before, 1))), rtt_min);

	return quotient(least_of(trial->rtt - after, trial->rtt - alone),
			most_of(most_of(trial->rtt - alone, part_of(trial->rtt, 20)), 1));
}

static FIXED_INLINE s64 grown(const struct pilot_trial *trial, s64 part)
{
	return RAW_ONE + product(part, quotient(trial->window, most_of(trial->before, 1)) - RAW_ONE);
}

/* The evidence of a push for competitors, in successes. */
FIXED_FUNCTION s64 evidence_of(const struct pilot_trial *trial FIXED_NONNULL, s64 rtt_min)
{
	s64 seconds = most_of(trial->seconds, RAW(1e-3)), rate = quotient(trial->packets, seconds);
	s64 rtt = quotient(trial->delays, seconds), left = trial->train ? rtt : trial->lowest, queued, weight, power;

	if (!trial->packets || left - rtt_min < product(numbers.push_least, trial->rtt - rtt_min))
		return 0;
	if (!trial->train)
		return rate >= product(trial->rate, grown(trial, numbers.push_follows)) &&
				       rtt <= product(trial->rtt, grown(trial, numbers.push_delay)) ?
			       RAW_ONE :
			       -RAW_ONE;
	rate = quotient(trial->packets, most_of(seconds_since(trial->newest, trial->first), RAW(5e-3)));
	queued = product(trial->rtt - rtt_min, rate);
	weight = clamped(quotient(queued, numbers.train_queue), RAW(1e-3), RAW_ONE);
	/* Twice the natural logarithm. */
	power = log2_of(product(weight, rate)) - log2_of(product(trial->rate, numbers.train_rate));
	return clamped(product(2 * RAW(0.6931471805599453), power), -RAW_ONE, 2 * RAW_ONE);
}

/* Behaviour beside other flows (sharing.rs). */

#define PILOT_UNPROVED (50 * RAW_ONE)
#define PILOT_EARLY_S (10 * RAW_ONE)

static FIXED_INLINE bool may_send_train(const struct pilot *p, u64 now, s64 window, s64 rtt_min)
{
	s64 wait = numbers.probe_early_s;

	if (!p->successes)
		wait = product(numbers.starved_s, power_of_2(product(p->failures, RAW(1.584962500721156))));
	return window <= 5 * RAW_ONE && standing(&p->seen) > clamped(rtt_min, RAW(0.06), RAW(0.1)) &&
	       seconds_since(now, p->train_sent) > wait;
}

static FIXED_INLINE bool is_starved(const struct pilot *p, u64 now, s64 rtt_min)
{
	s64 stretch = most_of(numbers.starved_s, product(numbers.starved_rtts, seconds_of(p->seen.srtt)));

	return !p->own.on && (p->successes > 0 || seconds_since(now, max64(p->seen.touched, p->drained)) > stretch) &&
	       may_send_train(p, now, p->window, rtt_min);
}

FIXED_FUNCTION u32 is_due(const struct pilot *p FIXED_NONNULL, u64 now, s64 rtt_min)
{
	const struct pilot_competing *own = &p->own;
	s64 srtt = seconds_of(p->seen.srtt), waited, longest, probe;
	bool settled;

	if (own->on) {
		waited = seconds_since(now, own->drained);
		settled = own->loss && seconds_since(now, own->loss) > 2 * srtt &&
			  seconds_of(p->seen.rtt) >= rtt_min + product(RAW(0.7), own->full - rtt_min);
		longest = own->confirmed && !own->alone ? part_of(3 * numbers.leave_s, 2) : 4 * srtt;
		return (waited > numbers.leave_s && settled) || waited > longest;
	}
	if (p->successes > 0)
		return seconds_since(now, p->drained) > most_of(numbers.probe_early_s, 7 * srtt);
	probe = p->seen.averaged < PILOT_EARLY_S ? numbers.probe_early_s : numbers.probe_s;
	return seconds_since(now, max64(p->seen.touched, p->drained)) > most_of(probe, product(numbers.probe_rtts, rtt_min));
}

/* A push, or the train that would tell more, after a trial of a window `before` at that RTT. */
static FIXED_INLINE void follow_with_push(struct pilot *p, u64 now, s64 before, s64 rtt, s64 rtt_min)
{
	s64 window = product(before, numbers.push);

	if (may_send_train(p, now, before, rtt_min)) {
		p->train_sent = now;
		begin_train(p, now, most_of(window, numbers.train_packets), before, rtt);
	} else {
		begin_push(p, now, window, before, rtt);
	}
	p->phase = PILOT_PUSH;
}

FIXED_FUNCTION int judge_drain(struct pilot *p FIXED_NONNULL, u64 now, s64 rtt_min)
{
	struct pilot_competing *own = &p->own;
	s64 rtt = p->trial.rtt, after = p->trial.least == RAW_MOST ? rtt : p->trial.least;
	s64 share = share_of(&p->trial, after, rtt_min);
	s64 packet = least_of(quotient(RAW(1.2), slow_of(&p->seen)), RAW(0.015));
	s64 least = most_of(part_of(numbers.competing_ms, 1000), packet);
	u32 enough;

	p->drained = now;
	p->phase = PILOT_SETTLE;
	p->settled = now + round_trip(&p->seen);
	if (own->on) {
		own->drained = now;
		own->loss = 0;
		if (rtt - rtt_min <= most_of(least, product(RAW(0.3), rtt_min)) || share > numbers.leave_share) {
			own->alone++;
		} else if (share > -(RAW_ONE / 4)) {
			own->alone = 0;
			own->confirmed = 1;
		}
		enough = own->confirmed && own->by_trains ? 3 : !own->confirmed && !own->by_trains && !own->lost ? 1 : 2;
		if (own->alone >= enough) {
			p->successes = own->confirmed ? numbers.successes - RAW_ONE : 0;
			own->on = 0;
		}
	} else if (after - rtt_min > least && share < numbers.competing_share) {
		follow_with_push(p, now, p->trial.before, rtt, rtt_min);
	} else {
		p->successes = most_of(p->successes - RAW_ONE / 2, 0);
	}
	return 0;
}

FIXED_FUNCTION int judge_push(struct pilot *p FIXED_NONNULL, u64 now, s64 rtt_min)
{
	struct pilot_competing *own = &p->own;
	s64 evidence = evidence_of(&p->trial, rtt_min);

	if (p->trial.train)
		p->drained = now;
	p->successes = most_of(p->successes + evidence, 0);
	if (evidence > 0)
		p->failures = 0;
	else if (p->trial.train)
		p->failures += RAW_ONE;
	if (p->successes >= numbers.successes) {
		own->window = own->highest = p->trial.window;
		own->epoch = own->drained = now;
		own->loss = own->alone = 0;
		own->full = 0;
		own->on = 1;
		own->confirmed = own->lost = 0;
		own->by_trains = p->trial.train > 0;
	}
	p->phase = PILOT_SETTLE;
	p->settled = now + max64(p->seen.rtt, PILOT_SHORTEST);
	return 0;
}

/* CUBIC's window; the growth of Reno with its back-off at least (RFC 9438 sections 4.2 and 4.3). */
FIXED_FUNCTION int grow(struct pilot *p FIXED_NONNULL, u64 now, s64 rtt_min)
{
	struct pilot_competing *own = &p->own;
	s64 beta = numbers.back_off, c = product(RAW(0.4), numbers.growth), t, k, reno, cubic, away, most;

	if (!own->on || (p->phase != PILOT_LAW && p->phase != PILOT_SETTLE))
		return 0;
	if (!own->lost && (own->alone || !(own->confirmed || own->by_trains))) {
		own->highest = own->window;
		own->epoch = now;
		return 0;
	}
	t = seconds_since(now, own->epoch);
	k = power_of_2(part_of(log2_of(quotient(product(own->highest, RAW_ONE - beta), c)), 3));
	reno = product(own->highest, beta) +
	       product(quotient(3 * (RAW_ONE - beta), RAW_ONE + beta),
		       quotient(t, most_of(seconds_of(p->seen.srtt), rtt_min)));
	away = clamped(t - k, -10000 * RAW_ONE, 10000 * RAW_ONE);
	cubic = product(c, product(away, product(away, away))) + own->highest;
	most = own->lost || own->confirmed ? RAW_MOST : most_of(PILOT_UNPROVED, own->highest);
	own->window = least_of(most_of(cubic, reno), most_of(part_of(3 * p->seen.in_flight, 2), own->window) + 2 * RAW_ONE);
	own->window = most_of(least_of(own->window, most), PILOT_LEAST);
	return 0;
}

/* The window that holds in place of the law's; 0: the law's does. */
FIXED_FUNCTION s64 sharing_tick(struct pilot *p FIXED_NONNULL, u64 now, s64 packets, s64 dt)
{
	s64 rtt_min = rtt_min_of(&p->seen), restored = 0;

	grow(p, now, rtt_min);
	if (p->phase == PILOT_LAW) {
		if (is_starved(p, now, rtt_min)) {
			follow_with_push(p, now, p->window, rtt_min + standing(&p->seen), rtt_min);
		} else if (is_due(p, now, rtt_min)) {
			if (p->own.on && p->own.confirmed)
				begin_half_drain(p, now, rtt_min);
			else
				begin_drain(p, now, rtt_min);
			p->phase = PILOT_DRAIN;
		}
	} else if (p->phase == PILOT_SETTLE) {
		if (now >= p->settled)
			p->phase = PILOT_LAW;
	} else if (now < p->trial.until) {
		trial_see(p, now, packets, dt);
	} else {
		restored = p->trial.before;
		if (p->phase == PILOT_DRAIN)
			judge_drain(p, now, rtt_min);
		else
			judge_push(p, now, rtt_min);
	}
	if (p->phase == PILOT_DRAIN || p->phase == PILOT_PUSH)
		return p->trial.window;
	return p->own.on ? p->own.window : restored;
}

/* The law (pilot.rs). */

static FIXED_INLINE void search(struct pilot *p, u64 now, s64 slack)
{
	if (standing(&p->seen) > part_of(slack, 2) || queueing(&p->seen) > 2 * slack) {
		p->velocity = 0;
		p->searched = now;
	} else if (pilot_since(now, p->searched) > max64(p->seen.srtt, 10 * PILOT_MS)) {
		p->searched = now;
		p->velocity = least_of(most_of(2 * p->velocity, numbers.search), RAW_ONE);
	}
}

FIXED_FUNCTION int steer_window(struct pilot *p FIXED_NONNULL, u64 now, s64 packets, s64 dt)
{
	const struct pilot_seen *seen = &p->seen;
	s64 rtt_min = rtt_min_of(seen), variation = variation_of(seen), slack = slack_of(rtt_min, seen->slow);
	s64 full = rtt_min + allowed(slack, variation), step = PILOT_STEP_S, part = numbers.rise, excess, power, goal, moved;
	s64 rate = product(rate_of_path(seen, variation), RAW_ONE + least_of(seen->loss, numbers.loss_share));

	excess = quotient(queueing(seen) + rtt_min - full, full);
	power = product(excess > 0 ? -numbers.feedback : -numbers.feedback_below, excess);
	power = clamped(power - 10 * most_of(seen->loss - numbers.loss_share, 0), -3 * RAW_ONE, 3 * RAW_ONE);
	goal = product(product(rate, full) + numbers.extra, power_of_2(log2_of_exp(power)));
	if (goal <= p->window) {
		part = numbers.fall;
		step = product(step, most_of(quotient(rtt_min, PILOT_SHORT_RTT_S), RAW_ONE));
	}
	power = product(log2_of(most_of(RAW_ONE - part, 1)), quotient(dt, step));
	moved = p->window + product(goal - p->window, RAW_ONE - power_of_2(power));
	search(p, now, slack);
	if (p->velocity > 0) {
		/* The window is in use: growth beyond what is sent would be no search. */
		s64 used = seen->in_flight + RAW_ONE >= part_of(p->window, 2) ? product(p->velocity, packets) : 0;

		moved = most_of(moved, p->window + used);
	}
	p->window = moved;
	return 0;
}

/* A period of dt seconds has ended. */
FIXED_FUNCTION int pilot_step(struct pilot *p FIXED_NONNULL, u64 now, s64 packets, s64 dt)
{
	s64 window;

	seen_tick(&p->seen, now, packets, dt, p->phase != PILOT_LAW);
	if (!rtt_min_of(&p->seen))
		return 0;
	window = p->watches ? 0 : sharing_tick(p, now, packets, dt);
	if (window) {
		p->window = window;
		p->velocity = 0;
	} else {
		steer_window(p, now, packets, dt);
	}
	p->window = clamped(least_of(p->window, p->ceiling), PILOT_LEAST, PILOT_MOST);
	return 0;
}

static FIXED_INLINE u64 pilot_period(void)
{
	return ns_of(numbers.period_ms);
}

/* The present period ends at `now`. */
static FIXED_INLINE void end_pilot_period(struct pilot *p, u64 now)
{
	s64 dt = seconds_since(now, p->began), acked = p->acked;

	p->acked = 0;
	p->began = now;
	if (dt > 0)
		pilot_step(p, now, acked, dt);
}

static FIXED_INLINE bool pilot_due(const struct pilot *p, u64 now)
{
	return p->began && now >= p->ends;
}

/* Goes through the periods that have ended by `now`; `in_flight` packets were since the last acknowledgement. Returns how
 * many times the law has moved. */
FIXED_FUNCTION u32 pilot_catch_up(struct pilot *p FIXED_NONNULL, u64 now, s64 in_flight)
{
	u64 period = max64(pilot_period(), PILOT_MS), behind;
	u32 i, moved = 0;

	if (!pilot_due(p, now))
		return 0;
	p->seen.in_flight = in_flight;
	behind = (now - p->ends) / period;
	if (behind >= PILOT_PERIODS)
		p->ends += (behind - PILOT_PERIODS + 1) * period;
	PILOT_FOR(i, PILOT_PERIODS + 1) {
		if (now < p->ends)
			break;
		end_pilot_period(p, p->ends);
		p->ends += period;
		moved++;
	}
	return moved;
}

static FIXED_INLINE void pilot_open(struct pilot *p, u32 window, bool slow_start)
{
	p->window = most_of((s64)(window ? window : 1) << RAW_BITS, PILOT_LEAST);
	p->velocity = slow_start ? RAW_ONE : 0;
	p->ceiling = RAW_MOST;
	p->seen.base.present = p->seen.base.before = PILOT_NEVER;
	p->seen.standing.present = p->seen.standing.before = PILOT_NEVER;
}

/* Packets leave, of which there are `in_flight` then. */
static FIXED_INLINE void pilot_sent(struct pilot *p, u64 now, s64 prior_in_flight, s64 in_flight)
{
	if (!p->began) {
		p->began = now;
		p->ends = now + max64(pilot_period(), PILOT_MS);
	}
	if (!prior_in_flight)
		p->seen.heard = max64(p->seen.heard, now + p->seen.rtt);
	p->seen.in_flight = in_flight;
}

FIXED_FUNCTION int pilot_on_ack(struct pilot *p FIXED_NONNULL, const struct pilot_ack *ack FIXED_NONNULL)
{
	struct pilot_seen *seen = &p->seen;
	u64 base;

	p->acked += ack->acked;
	p->ceiling = ack->in_loss ? least_of(p->ceiling + ((s64)ack->segments << RAW_BITS), RAW_MOST) : RAW_MOST;
	seen->heard = ack->now;
	seen->in_flight = ack->in_flight;
	seen->srtt = ack->srtt;
	seen->limited |= ack->limited;
	if (ack->segments) {
		s64 before = most_of(seen->per_ack, RAW_ONE);

		seen->per_ack = before + part_of((s64)min64(ack->segments, 4) * RAW_ONE - before, 20);
	}
	if (!ack->rtt)
		return 0;
	seen->rtt = ack->rtt;
	recent_min_add(&seen->base, ack->now, ack->rtt, ns_of_s(numbers.base_s), p->own.on);
	recent_min_add(&seen->standing, ack->now, ack->rtt, ack->srtt + ack->srtt / 2, false);
	base = recent_min(&seen->base);
	if (ack->rtt <= base + max64(base / 50, PILOT_MS))
		seen->touched = ack->now;
	return 0;
}

static FIXED_INLINE void pilot_on_loss(struct pilot *p, u64 now, u32 lost, s64 in_flight, bool new_episode)
{
	struct pilot_competing *own = &p->own;

	p->seen.lost += (s64)lost << RAW_BITS;
	p->seen.in_flight = in_flight;
	p->velocity = 0;
	if (!new_episode || !own->on)
		return;
	own->full = seconds_of(p->seen.rtt);
	own->lost = 1;
	/* Fast convergence (RFC 9438 section 4.7). */
	own->highest = own->window < own->highest ? part_of(product(own->window, RAW_ONE + numbers.back_off), 2) : own->window;
	own->window = most_of(product(own->window, numbers.back_off), PILOT_LEAST);
	own->epoch = now;
	own->loss = own->loss ? own->loss : now;
}

static FIXED_INLINE void pilot_on_timeout(struct pilot *p, u64 now, u32 lost, s64 in_flight)
{
	p->seen.lost += (s64)lost << RAW_BITS;
	p->seen.in_flight = in_flight;
	p->phase = PILOT_LAW;
	p->drained = now;
	if (p->own.on) {
		p->own.highest = p->own.window;
		p->own.window = PILOT_LEAST;
		p->own.epoch = now;
	}
	p->window = p->ceiling = PILOT_LEAST;
	p->velocity = 0;
}

static FIXED_INLINE u32 pilot_window(const struct pilot *p)
{
	return (p->window + RAW_ONE / 2) >> RAW_BITS;
}

/* Packets per second; 0 does not pace. */
static FIXED_INLINE s64 pilot_pacing(const struct pilot *p)
{
	s64 rtt_min = rtt_min_of(&p->seen), ahead = numbers.pacing;

	if (!ahead || !rtt_min || (p->phase == PILOT_PUSH && p->trial.train))
		return 0;
	if (p->seen.averaged < product(numbers.early_rtts, seconds_of(p->seen.srtt)))
		ahead = product(ahead, numbers.pacing_early);
	return quotient(product(ahead, p->window), rtt_min);
}

#endif
