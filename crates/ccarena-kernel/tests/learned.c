/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* learned.h on standard input's operations, with the image that the first argument names. For each decision a line: the
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

#include "../src/bpf/learned.h"

static struct image image;
static struct learned learned;

static void decide(const struct measured *m, s64 action)
{
	u32 c, k;

	printf("%u", learned.reasoner.situation);
	for (c = 0; c < image.columns_length; c++)
		for (k = 0; k < image.columns[c].length; k++) {
			const struct image_column *column = &image.columns[c];
			s64 live = clamped(signal_value(&learned, m, column), column->low, column->high);

			printf(" %lld", (long long)(column->live ? live : learned.history[ring_place(&learned, column, k)]));
		}
	act(&learned, &image, action);
	printf(" %llu\n", (unsigned long long)(learned.window >> (WINDOW_BITS - RAW_BITS)));
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
	learned_take(&learned, &image, 10);
	learned.mss = 1448;
	learned.advertised_kbps = image.desired_kbps;
	learned_start(&learned, &image, 0);
	while (scanf("%llu %llu %llu %llu %llu %llu %llu %llu %llu %u %lld", &now, &bytes, &acked, &rtt_us, &srtt_us, &una,
		     &nxt, &lost, &window, &grows, &action) == 11) {
		if (lost) {
			learned.period.lost += lost;
			learned.period.lost_bytes += lost * 1448;
			if (learned.base == BASE_ACCT)
				learned_halve(&learned);
			continue;
		}
		learned.period.acked += acked;
		learned.period.acked_bytes += bytes;
		if (rtt_us) {
			learned.period.rtt_ns += rtt_us * 1000;
			learned.period.rtt_count++;
			if (!learned.rtt_min_ns || rtt_us * 1000 < learned.rtt_min_ns)
				learned.rtt_min_ns = rtt_us * 1000;
		}
		learned.srtt_ns = srtt_us * 1000;
		if (grows)
			learned_grow(&learned, acked);
		if (learned.base != BASE_ACCT)
			learned.window = (u64)window << WINDOW_BITS;
		if (!learned_rings(&learned, now, una))
			continue;
		if ((learned.clock != CLOCK_WINDOW || learned.mark) && learned_end(&learned, &image, &m, now))
			decide(&m, action);
		learned.mark = nxt > una ? nxt : una + 1;
	}
	return 0;
}
