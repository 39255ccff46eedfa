/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The learned controller of the BPF program on standard input's operations, with the image that the first argument names.
 * For each decision a line: the reasoner's case, the observation, the window in segments after it, all raw, and the pacing
 * rate in bytes/s. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#include "../src/bpf/acting.h"
#include "../src/bpf/decision.h"

#define MSS 1448

static struct image image;
static struct learned learned;

/* What the kernel knows at an ACK, and the action if there is a decision. */
struct ack {
	unsigned long long now, acked, rtt_us, srtt_us, una, nxt, window, prior_in_flight, in_flight, outstanding_before,
		outstanding, retransmitted, delivered, prior_ns, rate_bytes, rate_us, limited;
	long long action;
};

static void decide(const struct measured *m, s64 action)
{
	u32 c, k;

	printf("%u", learned.reasoner.situation);
	for (c = 0; c < image.columns_length; c++)
		for (k = 0; k < image.columns[c].length; k++) {
			const struct image_column *column = &image.columns[c];

			printf(" %lld", (long long)(column->live ? column_value(&learned, m, column) :
								   learned.history[ring_place(&learned, column, k)]));
		}
	act(&learned, &image, action);
	printf(" %llu %llu\n", (unsigned long long)(window_now(&learned) >> (WINDOW_BITS - RAW_BITS)),
	       (unsigned long long)learned_pacing(&learned));
}

static void fire(const struct ack *ack)
{
	struct measured m;

	if (!learned_timer_due(&learned, ack->now))
		return;
	learned.newest.in_flight = ack->prior_in_flight;
	learned.newest.outstanding = ack->outstanding_before;
	if (learned_end(&learned, &image, &m, ack->now))
		decide(&m, ack->action);
}

static void measure(const struct ack *ack)
{
	struct newest *newest = &learned.newest;
	struct period *period = &learned.period;
	u64 rtt_ns = ack->rtt_us * 1000;

	learned_sees(&learned, ack->srtt_us * 1000, MSS);
	period->acked += ack->acked;
	period->acked_bytes += ack->acked * MSS;
	newest->rtt_ns = rtt_ns;
	if (rtt_ns) {
		period->rtt_ns += rtt_ns;
		period->rtt_count++;
		if (!learned.rtt_min_ns || rtt_ns < learned.rtt_min_ns)
			learned.rtt_min_ns = rtt_ns;
		if (learned.lined)
			line_add(&period->line, ack->now, rtt_ns);
	}
	newest->rate = ack->rate_us ? ack->rate_bytes * 1000000 / ack->rate_us : 0;
	if (newest->rate) {
		newest->rate_last = newest->rate;
		period->rates += newest->rate;
		period->rate_count++;
		period->app_limited += ack->limited;
	}
	newest->in_flight = ack->in_flight;
	newest->outstanding = ack->outstanding;
	newest->retransmitted = ack->retransmitted;
	if (rtt_ns) {
		newest->sent_at_ns = ack->now - rtt_ns;
		newest->acked_at_ns = ack->now;
		newest->sent_bytes = (ack->in_flight + 1) * MSS;
		newest->delivered_bytes = ack->delivered * MSS;
		newest->delivered_at_ns = ack->prior_ns;
	}
	if (learned.by_ack)
		derive_of_ack(&learned, &image);
}

static void ring(const struct ack *ack)
{
	struct measured m;

	if (!learned_rings(&learned, ack->now, ack->una))
		return;
	if (learned_waits(&learned))
		learned_begin_period(&learned, &image, ack->now);
	else if (learned_end(&learned, &image, &m, ack->now))
		decide(&m, ack->action);
	learned.mark = ack->nxt > ack->una ? ack->nxt : ack->una + 1;
}

int main(int count, char **arguments)
{
	FILE *file = fopen(count > 1 ? arguments[1] : "", "rb");
	unsigned long long now, number;
	struct ack a;
	char what;

	if (!file || fread(&image, sizeof(image), 1, file) != 1)
		return 1;
	learned.mss = MSS;
	learned_take(&learned, &image, 10);
	learned.advertised_kbps = image.desired_kbps;
	while (scanf(" %c %llu", &what, &now) == 2) {
		if (what != 'A' && scanf("%llu", &number) != 1)
			return 2;
		if (what == 'S') {
			if (!learned.begun)
				learned_start(&learned, &image, now);
			learned.period.sent += number;
			learned.period.sent_bytes += number * MSS;
		} else if (what == 'L') {
			learned.period.lost += number;
			learned.period.lost_bytes += number * MSS;
			learned_halve(&learned);
		} else {
			a.now = now;
			if (scanf("%llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %lld", &a.acked,
				  &a.rtt_us, &a.srtt_us, &a.una, &a.nxt, &a.window, &a.prior_in_flight, &a.in_flight,
				  &a.outstanding_before, &a.outstanding, &a.retransmitted, &a.delivered, &a.prior_ns,
				  &a.rate_bytes, &a.rate_us, &a.limited, &a.action) != 17)
				return 3;
			fire(&a);
			measure(&a);
			learned_grow(&learned, a.acked);
			if (learned.base == BASE_OVER_CUBIC)
				learned.window = (u64)a.window << WINDOW_BITS;
			ring(&a);
		}
	}
	return 0;
}
