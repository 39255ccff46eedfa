/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What the BPF programs and user space tell each other. src/intf.rs has the same structs; a test compares the two. */
#ifndef CCARENA_INTF_H
#define CCARENA_INTF_H

#ifndef __bpf__
#include <stdint.h>
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int64_t __s64;
#endif

/* event.kind */
enum {
	EVENT_OPENED = 1, /* the congestion control took the socket: before its first ACK */
	EVENT_REPORT = 2, /* a decision interval has ended, or one of the EVENT_* flags below happened */
	EVENT_CLOSED = 3, /* it gave the socket up; carries what the last interval measured */
	EVENT_LISTED = 4, /* not in the ring buffer: a line of the list of flows, without what the interval measures */
};

/* event.flags */
enum {
	FLAG_EPISODE = 1 << 0,	    /* the first loss or mark of an episode: multiplicative decrease is due */
	FLAG_RECOVERY = 1 << 1,	    /* fast recovery was entered */
	FLAG_TIMEOUT = 1 << 2,	    /* the retransmission timer expired */
	FLAG_ECN = 1 << 3,	    /* window reduction after an ECN echo was entered */
	FLAG_LEFT = 1 << 4,	    /* recovery, of whatever kind, has ended */
	FLAG_SPURIOUS = 1 << 5,	    /* the last reduction was unwarranted and has been undone */
	FLAG_RESTART = 1 << 6,	    /* sending restarts after idle_ns, longer than the retransmission timeout */
	FLAG_CWND_LIMITED = 1 << 7, /* the window is what limits sending (tcp_is_cwnd_limited) */
	FLAG_APP_LIMITED = 1 << 8,  /* the application is (tcp_sock.app_limited) */
	FLAG_RATE_APP_LIMITED = 1 << 9, /* so it was when the sampled packet was sent */
	FLAG_FALLBACK = 1 << 10,    /* no answer in time: the kernel's CUBIC runs the socket */
	FLAG_PERIOD = 1 << 11,	    /* a period ends that the program has judged itself (answer.reasoner) */
	FLAG_ASKED = 1 << 12,	    /* of it: the decider is to be asked */
	FLAG_QUIET = 1 << 13,	    /* it wakes nobody and needs no answer */
};

/* answer.base: what the window does until the next answer */
enum {
	BASE_HOLD = 0,	/* it stays as answered, but for alpha and beta */
	BASE_CUBIC = 1, /* the kernel's CUBIC runs it, and each answer multiplies it once */
};

/* answer.flags */
enum {
	ANSWER_OWNS_RECOVERY = 1 << 0, /* the window holds in recovery too: no proportional rate reduction */
};

#define INTERVAL_WINDOW 0xffffffffu /* answer.interval_us: report once per window of data */
#define RATE_UNLIMITED 0xffffffffu  /* a rate in kbit/s: no limit */

/* Of all that this file says, and of the maps' names and keys: raised by whoever changes any of it. */
#define ABI 7

#define REASONER_OPTIONS 13

struct event {
	__u64 cookie;	   /* SO_COOKIE; if none was made by then, a number of ours with the highest bit set */
	__u64 sequence;	   /* of this socket, from 0 (EVENT_OPENED) on */
	__u64 now_ns;	   /* CLOCK_MONOTONIC */
	__u64 interval_ns; /* since the last event */

	/* In the interval. */
	__u64 acked_bytes; /* delivered first now, cumulatively or selectively; a FIN counts as one */
	__u64 lost_bytes;  /* newly marked lost, in whole segments */
	__u64 rtt_sum_us;  /* of rtt_count samples */
	__u64 rate_bytes;  /* the highest delivery-rate sample: rate_bytes over rate_interval_us; 0 if none was taken */

	/* Totals, from the moment on that the congestion control took the socket. */
	__u64 delivered_bytes;
	__u64 sent_bytes; /* retransmissions included, and what was in flight at that moment */
	__u64 sent_packets; /* the same in segments */
	__u64 retransmitted_bytes;
	__u64 snd_una; /* bytes from the first one of the connection on */
	__u64 snd_nxt;
	__u64 delivered_packets;
	__u64 prior_delivered_packets; /* of the last rate sample: the total when its packet was sent */
	__u64 dropped; /* events that the full ring buffer has lost */

	/* Now. */
	__u64 pacing_bytes_per_s; /* sk_pacing_rate, which the kernel itself keeps for bursts where nothing paces */
	__u64 idle_ns;	       /* with FLAG_RESTART: since the last ACK */
	__u64 answer_sequence; /* the answer in force; 0 if none has come */
	__u64 answered_ns;     /* its answered_ns */
	__u64 enforced_ns;     /* when it was put in force */
	__u64 period_ns;       /* with FLAG_PERIOD: the length of the next period */

	__u32 kind;
	__u32 flags;
	__u32 acked_packets;
	__u32 lost_packets;
	__u32 ce_packets; /* delivered with an ECN congestion mark */
	__u32 rtt_count;
	__u32 rtt_min_us;
	__u32 rtt_last_us;
	__u32 rate_interval_us;
	__u32 srtt_us;
	__u32 min_rtt_us; /* of the connection; 0 before the first sample */
	__u32 rto_us;
	__u32 mss;
	__u32 window_packets;
	__u32 ssthresh_packets;
	__u32 in_flight_packets;
	__u32 prior_in_flight_packets; /* before the last ACK */
	__u32 retransmitted_packets;   /* in flight */
	__u32 rttvar_us;	       /* smoothed deviation of RTT samples */
	__u32 ca_state;		       /* enum tcp_ca_state */
	__u32 advertised_kbps; /* what the receiver echoed last, at least 1; 0 if no option has come */
	__u32 desired_kbps;    /* what this socket writes into its packets; 0 if no option */

	__u32 local_address[4]; /* network order; IPv4 in the first */
	__u32 remote_address[4];
	__u16 local_port; /* host order */
	__u16 remote_port;
	__u16 family; /* AF_INET or AF_INET6 */
	__u16 situation; /* with FLAG_PERIOD: which case the period was */
};

/* By cookie in map `answers`. */
struct answer {
	__u64 flow;		  /* its key again: the element of the map may be reused while it is read */
	__u64 sequence;		  /* a new number makes it a new answer; from 1 on */
	__u64 report;		  /* event.sequence of the last event taken into account */
	__u64 pacing_bytes_per_s; /* 0: the window alone paces */
	__u64 answered_ns;
	/* BASE_CUBIC: options of the registry's clock `reasoner`, in its order and in units of 2^-20. The program then judges
	 * periods itself, and asks where the reasoner does; all 0: it reports once per interval. */
	__s64 reasoner[REASONER_OPTIONS];
	__u32 window_packets;	/* BASE_HOLD; 0 leaves it */
	__u32 ssthresh_packets; /* 0 leaves it */
	__u32 alpha;	  /* BASE_HOLD: thousandths of a segment that the window grows by per window of acknowledged data */
	__u32 beta;	  /* BASE_HOLD: thousandths of the window that a loss episode leaves; 1000: all */
	__u32 multiplier; /* BASE_CUBIC: thousandths, applied once per answer, in recovery to
			     its target; 1000: no change */
	__u32 base;
	__u32 flags;
	__u32 interval_us;  /* 0: max(1 ms, srtt/8); INTERVAL_WINDOW */
	__u32 desired_kbps; /* to be written into packets; 0 leaves it */
	__u32 min_burst;    /* fewest segments of a burst when paced; 0: the kernel's 2 */
};

/* Constants of a loaded bridge (.rodata). */
struct config {
	__u64 abi;		 /* ABI; stays first, so that every version finds it */
	__u64 deadline_ns;	 /* without an answer to a report for so long, or for 4 intervals: CUBIC */
	__u32 option;		 /* write, parse and echo the TCP option */
	__u32 every_namespace;	 /* in all network namespaces, not only in those of map `namespaces` */
	__u32 sockets_per_user;	 /* more of them are the kernel's CUBIC's; 0: no bound */
	__u32 changes_per_s;	 /* EVENT_OPENED and EVENT_CLOSED of a user; 0: no bound */
	char name[16];		 /* of the congestion control, by which the option knows its sockets */
	char before[16];	 /* net.ipv4.tcp_congestion_control when it was attached */
};

#endif
