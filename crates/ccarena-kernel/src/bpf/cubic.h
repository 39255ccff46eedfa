/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* The kernel's CUBIC under a congestion control that has cong_control, its state in icsk_ca_priv (net/ipv4/tcp_cubic.c).
 * tools/testing/selftests/bpf/progs/bpf_cc_cubic.c drives it the same way. */
#ifndef CCARENA_CUBIC_H
#define CCARENA_CUBIC_H

#include "window.h"

extern void cubictcp_init(struct sock *sk) __ksym;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* CUBIC's beta is 717/1024. */
static __always_inline u64 cubic_reduced(u32 window)
{
	return (u64)window * 717 / 1024;
}

/* For a socket that had no memory left for more at init: CUBIC, falling to the threshold at once. */
static __always_inline void cubic_alone(struct sock *sk, u32 ack, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!reducing(ca_state(sk)))
		cubictcp_cong_avoid(sk, ack, rs->acked_sacked);
	else if (tp->snd_cwnd > tp->snd_ssthresh)
		tp->snd_cwnd = tp->snd_ssthresh;
}

/* Puts CUBIC at `window`; while the window `reduces`, what proportional rate reduction leads to. It begins a new epoch
 * there, lest its curve lead back; nor may slow start, if the window is `lowered`. As
 * crates/ccarena-cc/src/schemes/{cubic,cwnd}.rs. */
static __always_inline void cubic_move(struct sock *sk, u32 window, bool reduces, bool lowered)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bictcp *ca = (struct bictcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;

	if (!reduces)
		set_window(tp, window);
	if (reduces || (lowered && tp->snd_ssthresh > window))
		tp->snd_ssthresh = window < 2 ? 2 : window;
	ca->epoch_start = 0;
}

#endif
