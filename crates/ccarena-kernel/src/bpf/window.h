/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What Linux does to the window itself, but leaves to a congestion control that has cong_control: ported from
 * net/ipv4/tcp_input.c and tcp_output.c. */
#ifndef CCARENA_WINDOW_H
#define CCARENA_WINDOW_H

#include "kernel.h"

static __always_inline void set_window(struct tcp_sock *tp, u32 packets)
{
	u32 clamp = tp->snd_cwnd_clamp;

	tp->snd_cwnd = packets < 1 ? 1 : packets < clamp ? packets : clamp;
}

/* Proportional rate reduction (tcp_cwnd_reduction, RFC 6937 with the slow-start bound of RFC 9937): `prr_delivered`
 * is ours, as a program may not write the kernel's. */
static __always_inline void reduce(struct tcp_sock *tp, u32 *prr_delivered, int flag, const struct rate_sample *rs)
{
	s32 acked = rs->acked_sacked, in_flight = tcp_packets_in_flight(tp), out = tp->prr_out, send;
	s32 delta = tp->snd_ssthresh - in_flight;
	u32 prior = tp->prior_cwnd;

	if (acked <= 0 || !prior)
		return;
	*prr_delivered += acked;
	if (delta < 0) {
		u64 dividend = (u64)tp->snd_ssthresh * *prr_delivered + prior - 1;

		send = (s32)(dividend / prior) - out;
	} else {
		send = (s32)*prr_delivered - out;
		send = send > acked ? send : acked;
		if (flag & ACK_SND_UNA_ADVANCED && !rs->losses)
			send++;
		send = send < delta ? send : delta;
	}
	/* A fast retransmission at the least, on entry. */
	if (send < (out ? 0 : 1))
		send = out ? 0 : 1;
	tp->snd_cwnd = in_flight + send > 0 ? in_flight + send : 1;
}

/* tcp_may_raise_cwnd; the sysctl is taken for its default of 3. */
static __always_inline bool may_grow(struct tcp_sock *tp, int flag)
{
	return flag & (tp->reordering > 3 ? ACK_DATA_ACKED | ACK_DATA_SACKED : ACK_DATA_ACKED);
}

/* tcp_cwnd_restart: halved once per retransmission timeout of idleness. */
static __always_inline void restart(struct tcp_sock *tp, u64 halvings)
{
	u32 window = tp->snd_cwnd, kept = (window >> 1) + (window >> 2);
	u32 floor = window < TCP_INIT_CWND ? window : TCP_INIT_CWND;

	if (tp->snd_ssthresh < kept)
		tp->snd_ssthresh = kept;
	kept = window >> (halvings < 31 ? halvings : 31);
	set_window(tp, kept > floor ? kept : floor);
}

/* How often an idleness that ends now halves the window: once per timeout since the last ACK (Linux counts from the last
 * segment); 0 if it was too short. */
static __always_inline u64 idle_halvings(struct tcp_sock *tp, u64 idle_ns)
{
	u64 rto_ns = rto_us(tp) * NSEC_PER_USEC;

	return rto_ns && idle_ns > rto_ns ? (idle_ns - 1) / rto_ns : 0;
}

/* tcp_update_pacing_rate, by which the kernel sizes bursts. */
static __always_inline u64 unpaced_rate(struct tcp_sock *tp)
{
	u32 window = tp->snd_cwnd, srtt = tp->srtt_us;
	u64 rate = (u64)tp->mss_cache * (USEC_PER_SEC / 100 << 3) * (window < tp->snd_ssthresh / 2 ? 200 : 120);

	rate *= window > tp->packets_out ? window : tp->packets_out;
	return srtt ? rate / srtt : rate;
}

/* Paces at `rate`, but at a segment per second at the least: whatever made the rate, the flow moves. 0 does not pace.
 * `paces`: it is for us that the socket does. */
static __always_inline void pace_at(struct sock *sk, u64 rate, u8 *paces)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 most = sk->sk_max_pacing_rate;

	if (rate) {
		rate = rate > tp->mss_cache ? rate : tp->mss_cache;
		if (sk->sk_pacing_status == SK_PACING_NONE) {
			sk->sk_pacing_status = SK_PACING_NEEDED;
			*paces = 1;
		}
	} else {
		rate = unpaced_rate(tp);
		if (*paces) {
			sk->sk_pacing_status = SK_PACING_NONE;
			*paces = 0;
		}
	}
	sk->sk_pacing_rate = rate < most ? rate : most;
}

#endif
