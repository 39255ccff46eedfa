/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* aimd.h on standard input's operations, one window per line on standard output; what the kernel does around it
 * (tcp_init_cwnd_reduction with its reduction done at once, tcp_enter_loss, tcp_reno_undo_cwnd) is here. */
#include <stdint.h>
#include <stdio.h>

typedef uint32_t __u32;
typedef uint64_t __u64;

#include "../src/bpf/aimd.h"

#define CLAMP (1u << 24)
#define INFINITE 0x7fffffffu

static __u32 min(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

static __u32 max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

int main(void)
{
	__u32 window = 0, threshold = 0, prior_window = 0, prior_threshold = 0, scheme = 0, first, second;
	__u64 credit = 0;
	struct aimd_steps steps = { 0, 0 };
	int can_undo = 0;
	char operation;

	while (scanf(" %c %u %u", &operation, &first, &second) == 3) {
		switch (operation) {
		case 'S': /* scheme, weight: a new connection */
			scheme = first;
			steps = aimd_steps(scheme, second);
			window = 10;
			threshold = INFINITE;
			credit = 0;
			can_undo = 0;
			break;
		case 'W': /* weight */
			steps = aimd_steps(scheme, first);
			break;
		case 'A': /* acknowledged segments */
			window = aimd_grown(window, threshold, CLAMP, &credit, first, steps.increase);
			break;
		case 'L': /* a loss episode */
		case 'T': /* a timeout: segments in flight, the first of its episode */
			if (operation == 'L' || second) {
				prior_window = window;
				prior_threshold = max(threshold, (window >> 1) + (window >> 2));
				threshold = aimd_reduced(window, steps.divisor);
				can_undo = 1;
			}
			window = min(window, operation == 'L' ? threshold : first + 1);
			credit = 0;
			break;
		case 'U': /* the reduction was spurious */
			if (can_undo) {
				window = max(window, prior_window);
				threshold = max(threshold, prior_threshold);
			}
			can_undo = 0;
			break;
		}
		printf("%u\n", window);
	}
	return 0;
}
