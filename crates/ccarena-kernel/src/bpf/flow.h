/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What the bridge keeps of a socket, how it measures, and how it tells. */
#ifndef CCARENA_FLOW_H
#define CCARENA_FLOW_H

#include "kernel.h"
#include "intf.h"
#include "reasoner.h"
#include "signal.h"

/* What an interval adds up. */
struct sums {
	u64 acked_bytes;
	u64 rtt_us;
	u64 rate_bytes;
	u32 rate_interval_us;
	u32 rate_app_limited;
	u32 acked;
	u32 lost;
	u32 ce;
	u32 rtt_count;
	u32 rtt_min_us;
	u32 rtt_last_us;
};

struct flow {
	u64 id;
	u64 sequence;  /* of the next event */
	u64 dropped;
	u64 barrier;   /* events that an answer must know for its window to count */
	u64 begun_ns;  /* the interval */
	u64 end;       /* snd_nxt then */
	u64 asked_ns;  /* the first report that no answer followed; 0: none */
	u64 acked_ns;  /* the last ACK */
	u64 enforced_ns;

	/* The period that the reasoner will judge, if the answer has one. */
	u64 ends_ns;		 /* 0: none has begun */
	u64 delivered_before;	 /* bytes */
	u32 lost_before;	 /* packets */
	u32 unused;
	struct reasoner reasoner;

	/* Totals in 64 bits, and the kernel's counters that they follow. */
	u64 first_acked; /* bytes_acked when the flow began */
	u64 first_sent;
	u64 first_retransmitted;
	u64 delivered_bytes;
	u64 delivered;
	u64 prior_delivered;
	u64 sent; /* segments, retransmissions included */
	u32 sent_seen;
	u32 delivered_seen;
	u32 ce_seen;
	u32 lost_seen;

	u32 pending;	     /* FLAG_* of the next report, which is due at once */
	u32 prior_in_flight;
	u32 min_rtt_us;
	u32 prr_delivered;
	u32 uid;	     /* whose quota it counts against */
	u32 credit;	     /* thousandths of acknowledged segments that growth has not used */
	u8 fallback;
	u8 reduces;	     /* the window is on its way down */
	u8 undone;
	u8 paces;	     /* we have set sk_pacing_status */
	u8 silent;	     /* beyond a quota: CUBIC, and user space hears nothing of it */
	u8 closed;

	struct answer answer;
	struct sums sums;
};

#include "socket.h"

/* Sized by user space, as is `answers`. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* By flow.id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct answer);
} answers SEC(".maps");

const volatile struct config config SEC(".rodata.config");

/* Some flow's reports may wait unread, behind which a ring buffer by itself wakes nobody. */
u32 quietly SEC(".data.quietly") = 0;

/* Events that were not told, of all flows. User space compares it with what it has seen, and reads the list of flows. */
u64 unreported SEC(".data.unreported") = 0;

#include "quota.h"

/* Adds what an ACK says. */
static __always_inline void measure(struct flow *flow, struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct sums *sums = &flow->sums;
	u32 mss = tp->mss_cache, delivered = tp->delivered, lost = tp->lost, ce = tp->delivered_ce;
	u64 bytes = tp->bytes_acked - flow->first_acked + (u64)tp->sacked_out * mss;
	long rtt_us = rs->rtt_us, rate_interval_us = rs->interval_us;
	s32 rate_packets = rs->delivered;

	sums->acked += delivered - flow->delivered_seen;
	sums->lost += lost - flow->lost_seen;
	sums->ce += ce - flow->ce_seen;
	flow->delivered += delivered - flow->delivered_seen;
	flow->delivered_seen = delivered;
	flow->lost_seen = lost;
	flow->ce_seen = ce;
	/* Short segments count as full ones while they are only SACKed: never count backwards. */
	if ((s64)(bytes - flow->delivered_bytes) > 0) {
		sums->acked_bytes += bytes - flow->delivered_bytes;
		flow->delivered_bytes = bytes;
	}
	if (rtt_us > 0) {
		u32 rtt = rtt_us;

		sums->rtt_us += rtt;
		sums->rtt_last_us = rtt;
		sums->rtt_count++;
		if (!sums->rtt_min_us || rtt < sums->rtt_min_us)
			sums->rtt_min_us = rtt;
		if (!flow->min_rtt_us || rtt < flow->min_rtt_us)
			flow->min_rtt_us = rtt;
	}
	if (rate_packets > 0 && rate_interval_us > 0) {
		u64 rate_bytes = (u64)rate_packets * mss;
		u32 interval_us = rate_interval_us;

		flow->prior_delivered = flow->delivered - (u32)(delivered - rs->prior_delivered);
		if (rate_bytes * sums->rate_interval_us >= sums->rate_bytes * interval_us) {
			sums->rate_bytes = rate_bytes;
			sums->rate_interval_us = interval_us;
			sums->rate_app_limited = rs->is_app_limited;
		}
	}
	flow->prior_in_flight = rs->prior_in_flight;
}

static __always_inline u64 snd_nxt(struct flow *flow, struct tcp_sock *tp)
{
	return tp->bytes_acked - flow->first_acked + (u32)(tp->snd_nxt - tp->snd_una);
}

/* data_segs_out has 32 bits. */
static __always_inline u64 sent_packets(struct flow *flow, struct tcp_sock *tp)
{
	return flow->sent + (u32)(tp->data_segs_out - flow->sent_seen);
}

/* Reports leave a quarter of the ring buffer to what is told once. */
static __always_inline bool has_room(u32 kind)
{
	u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);

	return kind != EVENT_REPORT || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < size - size / 4;
}

/* The program judges periods itself. */
static __always_inline bool reasons(const struct flow *flow)
{
	return flow->answer.base == BASE_CUBIC && flow->answer.reasoner[REASONER_ALPHA] > 0;
}

static __always_inline const struct reasoner_options *reasoner_of(const struct flow *flow)
{
	_Static_assert(sizeof(struct reasoner_options) == sizeof(flow->answer.reasoner), "options");
	return (const struct reasoner_options *)flow->answer.reasoner;
}

static __always_inline void begin_period(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	flow->ends_ns = now + flow->reasoner.length_ns;
	flow->delivered_before = flow->delivered_bytes;
	flow->lost_before = tp->lost;
}

/* A period ends with the first ACK with news at or after its end. */
static __always_inline void end_period(struct flow *flow, struct tcp_sock *tp, u64 now)
{
	u64 acked = flow->delivered_bytes - flow->delivered_before, least_ns = flow->min_rtt_us * NSEC_PER_USEC;
	u64 lost = (u64)(tp->lost - flow->lost_before) * tp->mss_cache, srtt_ns = (u64)tp->srtt_us * 125;
	u64 delay_ns = srtt_ns > least_ns ? srtt_ns - least_ns : 0, begun_ns = flow->ends_ns - flow->reasoner.length_ns;
	s64 rtt_ratio = srtt_ns && least_ns ? ratio(srtt_ns, least_ns) : RAW_ONE;

	if (!flow->ends_ns) {
		reasoner_begin(&flow->reasoner, reasoner_of(flow));
	} else {
		if (now < flow->ends_ns || !flow->sums.acked)
			return;
		flow->pending |= FLAG_PERIOD;
		rtt_ratio = reasoner_counted(reasoner_of(flow), rtt_ratio, ratio(acked, max64(tp->mss_cache, 1)), delay_ns,
					     now - begun_ns);
		if (reasoner_judge(&flow->reasoner, reasoner_of(flow), rtt_ratio, srtt_ns, ratio(lost, lost + acked)))
			flow->pending |= FLAG_ASKED;
	}
	begin_period(flow, tp, now);
}

/* Whether an event that has been written wakes the reader: BPF_RB_*. What waits unread is not to fill the buffer. */
static __always_inline u64 wakes(bool quiet)
{
	u64 size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);

	if (quiet && bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < size / 4)
		return BPF_RB_NO_WAKEUP;
	return quietly ? BPF_RB_FORCE_WAKEUP : 0;
}

/* Everything but what the interval has measured. */
static __always_inline void describe(struct event *e, struct tcp_sock *tp, struct flow *flow, u32 kind, u32 state, u64 now)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct sock_common *common = &sk->__sk_common;

	__builtin_memset(e, 0, sizeof(*e));
	e->cookie = flow->id;
	e->sequence = flow->sequence;
	e->now_ns = now;
	e->interval_ns = now - flow->begun_ns;
	e->delivered_bytes = flow->delivered_bytes;
	e->sent_bytes = tp->bytes_sent - flow->first_sent;
	e->sent_packets = sent_packets(flow, tp);
	e->retransmitted_bytes = tp->bytes_retrans - flow->first_retransmitted;
	e->snd_una = tp->bytes_acked - flow->first_acked;
	e->snd_nxt = snd_nxt(flow, tp);
	e->delivered_packets = flow->delivered;
	e->prior_delivered_packets = flow->prior_delivered;
	e->dropped = flow->dropped;
	e->pacing_bytes_per_s = sk->sk_pacing_rate;
	e->answer_sequence = flow->answer.sequence;
	e->answered_ns = flow->answer.answered_ns;
	e->enforced_ns = flow->enforced_ns;
	e->kind = kind;
	e->flags = flow->fallback ? FLAG_FALLBACK : 0;
	e->srtt_us = tp->srtt_us >> 3;
	e->min_rtt_us = flow->min_rtt_us;
	e->rto_us = rto_us(tp);
	e->mss = tp->mss_cache;
	e->window_packets = tp->snd_cwnd;
	e->ssthresh_packets = tp->snd_ssthresh;
	e->in_flight_packets = tcp_packets_in_flight(tp);
	e->prior_in_flight_packets = flow->prior_in_flight;
	e->retransmitted_packets = tp->retrans_out;
	e->rttvar_us = tp->mdev_us >> 2;
	e->ca_state = state;
	e->family = common->skc_family;
	e->local_port = common->skc_num;
	e->remote_port = __builtin_bswap16(common->skc_dport);
	if (e->family == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			e->local_address[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			e->remote_address[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		e->local_address[0] = common->skc_rcv_saddr;
		e->remote_address[0] = common->skc_daddr;
	}
}

/* Tells user space what the interval measured and begins the next one. */
static __noinline int tell(struct sock *sk, struct flow *flow, u32 kind, u32 state, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sums *sums = &flow->sums;
	struct signal *signal;
	struct event *e = NULL;
	bool quiet = kind == EVENT_REPORT && reasons(flow) && !(flow->pending & FLAG_ASKED);

	if (flow->silent)
		return 0;
	if (kind == EVENT_REPORT && !quiet && !flow->asked_ns)
		flow->asked_ns = now;
	if (has_room(kind) && (kind == EVENT_REPORT || may_change(flow->uid, now)))
		e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		/* The sums wait for the next event. */
		flow->dropped++;
		flow->sequence++;
		__sync_fetch_and_add(&unreported, 1);
		return 0;
	}
	describe(e, tp, flow, kind, state, now);
	flow->sequence++;
	e->idle_ns = flow->pending & FLAG_RESTART ? now - flow->acked_ns : 0;
	e->flags |= flow->pending | (tcp_is_cwnd_limited(tp) ? FLAG_CWND_LIMITED : 0) |
		    (tp->app_limited ? FLAG_APP_LIMITED : 0) |
		    (sums->rate_app_limited ? FLAG_RATE_APP_LIMITED : 0) | (quiet ? FLAG_QUIET : 0);
	e->period_ns = flow->reasoner.length_ns;
	e->situation = flow->reasoner.situation;
	e->acked_bytes = sums->acked_bytes;
	e->lost_bytes = (u64)sums->lost * tp->mss_cache;
	e->rtt_sum_us = sums->rtt_us;
	e->rate_bytes = sums->rate_bytes;
	e->acked_packets = sums->acked;
	e->lost_packets = sums->lost;
	e->ce_packets = sums->ce;
	e->rtt_count = sums->rtt_count;
	e->rtt_min_us = sums->rtt_min_us;
	e->rtt_last_us = sums->rtt_last_us;
	e->rate_interval_us = sums->rate_interval_us;
	if (config.option) {
		signal = bpf_sk_storage_get(&signals, sk, 0, 0);
		if (signal) {
			e->advertised_kbps = signal->advertised_kbps;
			e->desired_kbps = signal->desired_kbps;
		}
	}
	bpf_ringbuf_submit(e, wakes(quiet));

	__builtin_memset(sums, 0, sizeof(*sums));
	flow->pending = 0;
	flow->sent = sent_packets(flow, tp);
	flow->sent_seen = tp->data_segs_out;
	flow->begun_ns = now;
	flow->end = snd_nxt(flow, tp);
	return 0;
}

#endif
