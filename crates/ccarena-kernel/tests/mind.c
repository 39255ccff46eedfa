/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* mind.h on standard input's operations, with the image that the first argument names. For each decision a line: the
 * reasoner's case, the window in segments after it, and the observation, all raw. */
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

#include "../src/bpf/mind.h"

static struct image image;
static struct mind mind;

static void decide(const struct measured *m, s64 action)
{
	u32 c, k;

	printf("%u", mind.reasoner.situation);
	for (c = 0; c < image.columns_length; c++)
		for (k = 0; k < image.columns[c].length; k++) {
			const struct image_column *column = &image.columns[c];
			s64 live = clamped(signal_value(&mind, m, column), column->low, column->high);

			printf(" %lld", (long long)(column->live ? live : mind.history[ring_place(&mind, column, k)]));
		}
	act(&mind, &image, action);
	printf(" %llu\n", (unsigned long long)(mind.window >> (WINDOW_BITS - RAW_BITS)));
}

int main(int count, char **arguments)
{
	unsigned long long now, bytes, acked, rtt_us, srtt_us, una, nxt, lost, window;
	long long action;
	struct measured m;
	FILE *file = fopen(count > 1 ? arguments[1] : "", "rb");
	unsigned grows;

	if (!file || fread(&image, sizeof(image), 1, file) != 1)
		return 1;
	mind_take(&mind, &image, 10);
	mind.mss = 1448;
	mind.advertised_kbps = image.desired_kbps;
	mind_start(&mind, &image, 0);
	while (scanf("%llu %llu %llu %llu %llu %llu %llu %llu %llu %u %lld", &now, &bytes, &acked, &rtt_us, &srtt_us, &una,
		     &nxt, &lost, &window, &grows, &action) == 11) {
		if (lost) {
			mind.period.lost += lost;
			mind.period.lost_bytes += lost * 1448;
			if (mind.base == BASE_ACCT)
				mind_halve(&mind);
			continue;
		}
		mind.period.acked += acked;
		mind.period.acked_bytes += bytes;
		if (rtt_us) {
			mind.period.rtt_ns += rtt_us * 1000;
			mind.period.rtt_count++;
			if (!mind.rtt_min_ns || rtt_us * 1000 < mind.rtt_min_ns)
				mind.rtt_min_ns = rtt_us * 1000;
		}
		mind.srtt_ns = srtt_us * 1000;
		if (grows)
			mind_grow(&mind, acked);
		if (mind.base != BASE_ACCT)
			mind.window = (u64)window << WINDOW_BITS;
		if (!mind_rings(&mind, now, una))
			continue;
		if ((mind.clock != CLOCK_WINDOW || mind.mark) && mind_end(&mind, &image, &m, now))
			decide(&m, action);
		mind.mark = nxt > una ? nxt : una + 1;
	}
	return 0;
}
