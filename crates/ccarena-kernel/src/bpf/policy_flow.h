/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What the program of policies keeps of a socket, and how it measures. */
#ifndef CCARENA_POLICY_FLOW_H
#define CCARENA_POLICY_FLOW_H

#include "kernel.h"
#include "operate.h"
#include "policy.h"

struct flow {
	u64 first_acked; /* bytes_acked when the flow began */
	u64 delivered_bytes;
	u64 sent_bytes_seen;
	u64 acked_ns;
	u64 acked_seen; /* bytes_acked at the last ACK */
	u64 idle_ns;	/* the last ACK before the last idleness, and packets delivered until then */
	u32 idle_delivered;
	u32 delivered_seen;
	u32 lost_seen;
	u32 sent_seen;
	u32 prr_delivered;
	u8 reduces; /* the window is on its way down */
	u8 undone;
	u8 paces; /* we have set sk_pacing_status */
	u8 left; /* the policy was taken away in the present recovery */
	u32 uncapped; /* CUBIC's own window while the policy's cap is below it; 0: it is not */
	struct tally tally;
	struct learned learned;
	struct measured measured; /* of the last period, as the stack has no room */
};

#include "operated.h"

/* Adds what has left since the last ACK. */
static __always_inline void measure_sent(struct flow *flow, struct tcp_sock *tp)
{
	struct period *period = &flow->learned.period;

	period->sent += tp->data_segs_out - flow->sent_seen;
	period->sent_bytes += tp->bytes_sent - flow->sent_bytes_seen;
	flow->sent_seen = tp->data_segs_out;
	flow->sent_bytes_seen = tp->bytes_sent;
}

static __always_inline void measure_in_flight(struct flow *flow, struct tcp_sock *tp)
{
	struct newest *newest = &flow->learned.newest;

	newest->in_flight = tcp_packets_in_flight(tp);
	newest->outstanding = (tp->bytes_acked - flow->acked_seen + (u32)(tp->snd_nxt - tp->snd_una)) / max64(tp->mss_cache, 1);
	newest->retransmitted = tp->retrans_out;
}

/* The newest acknowledged segment, which rs describes: on a path that keeps the order, all that left after it is in flight.
 * Linux counts from the departure of the first segment after idleness, not from the ACK before it. */
static __always_inline void measure_segment(struct flow *flow, struct tcp_sock *tp, const struct rate_sample *rs, u64 now)
{
	struct newest *newest = &flow->learned.newest;
	u64 prior_ns = rs->prior_mstamp * NSEC_PER_USEC;

	if (!newest->rtt_ns || !prior_ns)
		return;
	newest->sent_at_ns = now - newest->rtt_ns;
	newest->acked_at_ns = now;
	newest->sent_bytes = (newest->in_flight + 1) * tp->mss_cache;
	newest->delivered_bytes = (u64)(tp->delivered - rs->prior_delivered) * tp->mss_cache;
	newest->delivered_at_ns = flow->idle_ns && rs->prior_delivered == flow->idle_delivered ? flow->idle_ns : prior_ns;
}

/* Adds the delivery-rate sample of an ACK, if it has one. */
static __always_inline void measure_rate(struct learned *learned, struct tcp_sock *tp, const struct rate_sample *rs)
{
	long interval_us = rs->interval_us;
	s32 packets = rs->delivered;

	learned->newest.rate = 0;
	if (packets <= 0 || interval_us <= 0)
		return;
	learned->newest.rate = learned->newest.rate_last = (u64)packets * tp->mss_cache * USEC_PER_SEC / interval_us;
	learned->period.rates += learned->newest.rate;
	learned->period.rate_count++;
	learned->period.app_limited += rs->is_app_limited;
}

/* Adds what an ACK says. */
static __always_inline void measure(struct flow *flow, struct tcp_sock *tp, const struct rate_sample *rs, u64 now)
{
	struct learned *learned = &flow->learned;
	struct period *period = &learned->period;
	u32 mss = tp->mss_cache, delivered = tp->delivered, lost = tp->lost;
	u64 bytes = tp->bytes_acked - flow->first_acked + (u64)tp->sacked_out * mss;
	long rtt_us = rs->rtt_us;

	learned_sees(learned, (u64)tp->srtt_us * 125, mss);
	flow->acked_seen = tp->bytes_acked;
	period->acked += delivered - flow->delivered_seen;
	period->lost += lost - flow->lost_seen;
	period->lost_bytes += (u64)(lost - flow->lost_seen) * mss;
	flow->delivered_seen = delivered;
	flow->lost_seen = lost;
	/* Short segments count as full ones while they are only SACKed: never count backwards. */
	if ((s64)(bytes - flow->delivered_bytes) > 0) {
		period->acked_bytes += bytes - flow->delivered_bytes;
		flow->delivered_bytes = bytes;
	}
	learned->newest.rtt_ns = rtt_us > 0 ? rtt_us * NSEC_PER_USEC : 0;
	if (rtt_us > 0) {
		u64 rtt_ns = learned->newest.rtt_ns;

		period->rtt_ns += rtt_ns;
		period->rtt_count++;
		if (!learned->rtt_min_ns || rtt_ns < learned->rtt_min_ns)
			learned->rtt_min_ns = rtt_ns;
		if (learned->lined)
			line_add(&period->line, now, rtt_ns);
	}
	measure_rate(learned, tp, rs);
	measure_in_flight(flow, tp);
	measure_segment(flow, tp, rs, now);
}

#endif
