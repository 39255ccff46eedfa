/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The law of `pilot` in integers as a shared library, which tests/pilot.rs opens. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define PILOT_FOR(i, n) for (i = 0; i < (n); i++)
#include "../src/bpf/fixed.h"

/* Of the flow that is being called: several may be in one simulation. */
static _Thread_local const struct pilot_numbers *present;
#define numbers (*present)
#include "../src/bpf/pilot.h"
#undef numbers

struct flow {
	struct pilot_numbers own;
	struct pilot pilot;
};

/* Names of the numbers, each followed by a space. */
const char *ccarena_pilot_names(void)
{
#define NAME(name) #name " "
	return PILOT_NUMBERS(NAME);
}

struct flow *ccarena_pilot_new(const s64 *values, u32 window, u32 slow_start)
{
	struct flow *flow = calloc(1, sizeof(*flow));

	__builtin_memcpy(&flow->own, values, sizeof(flow->own));
	present = &flow->own;
	pilot_open(&flow->pilot, window, slow_start);
	return flow;
}

void ccarena_pilot_free(struct flow *flow)
{
	free(flow);
}

void ccarena_pilot_catch_up(struct flow *flow, u64 now)
{
	present = &flow->own;
	pilot_catch_up(&flow->pilot, now, flow->pilot.seen.in_flight);
}

u64 ccarena_pilot_ends(const struct flow *flow)
{
	return flow->pilot.began ? flow->pilot.ends : PILOT_NEVER;
}

void ccarena_pilot_sent(struct flow *flow, u64 now, s64 prior_in_flight, s64 in_flight)
{
	present = &flow->own;
	pilot_sent(&flow->pilot, now, prior_in_flight, in_flight);
}

void ccarena_pilot_ack(struct flow *flow, const struct pilot_ack *ack)
{
	present = &flow->own;
	pilot_on_ack(&flow->pilot, ack);
}

void ccarena_pilot_loss(struct flow *flow, u64 now, u32 lost, s64 in_flight, u32 new_episode)
{
	present = &flow->own;
	pilot_on_loss(&flow->pilot, now, lost, in_flight, new_episode);
}

void ccarena_pilot_timeout(struct flow *flow, u64 now, u32 lost, s64 in_flight)
{
	present = &flow->own;
	pilot_on_timeout(&flow->pilot, now, lost, in_flight);
}

void ccarena_pilot_spurious(struct flow *flow)
{
	flow->pilot.ceiling = RAW_MOST;
}

u32 ccarena_pilot_window(const struct flow *flow)
{
	return pilot_window(&flow->pilot);
}

s64 ccarena_pilot_pacing(const struct flow *flow)
{
	present = &flow->own;
	return pilot_pacing(&flow->pilot);
}

s64 ccarena_pilot_log2(s64 x)
{
	return log2_of(x);
}
