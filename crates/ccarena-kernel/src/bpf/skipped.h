/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Linux 6.18 has been seen not to run a struct_ops program, once in some thousands of retransmission timeouts, with
 * nothing counted as missed, and to take for its result what lay on the stack: a return address of the kernel's (that of
 * srso_return_thunk). Such a slow-start threshold would let the window double for ever. */
#ifndef CCARENA_SKIPPED_H
#define CCARENA_SKIPPED_H

#include "kernel.h"

/* The lower half of a kernel address is above every threshold and window. */
static __always_inline bool is_made_up(struct tcp_sock *tp)
{
	return tp->snd_ssthresh > TCP_INFINITE_SSTHRESH || tp->snd_cwnd > TCP_INFINITE_SSTHRESH;
}

static __always_inline void mend(struct tcp_sock *tp, u32 threshold)
{
	u32 prior = tp->prior_cwnd;

	if (tp->snd_cwnd > TCP_INFINITE_SSTHRESH)
		tp->snd_cwnd = prior > 2 ? prior : 2;
	if (tp->snd_ssthresh <= TCP_INFINITE_SSTHRESH)
		return;
	threshold = threshold > 2 ? threshold : 2;
	tp->snd_ssthresh = threshold;
	if (tp->snd_cwnd > threshold)
		tp->snd_cwnd = threshold;
}

#endif
