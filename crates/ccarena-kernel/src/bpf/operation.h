/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What an operator sets for a policy, and what the program records of each connection. src/policies/operation.rs has the
 * same structs; a test compares the two. */
#ifndef CCARENA_OPERATION_H
#define CCARENA_OPERATION_H

#include "intf.h"

/* connection.role: who moves the window. CUBIC is the control that runs beside a policy. */
enum {
	ROLE_POLICY = 0,  /* the policy decides and acts */
	ROLE_SHADOW = 1,  /* it decides, and CUBIC acts */
	ROLE_CONTROL = 2, /* CUBIC, to compare the policy with */
	ROLE_APART = 3,	  /* CUBIC: the connection is not one of those that are compared */
	ROLE_HANDED_BACK = 4, /* CUBIC: the guard took the connection from the policy */
};

/* connection.ended: why no more of this role, or of this policy, follows */
enum {
	ENDED_NOT = 0,
	ENDED_CLOSED = 1,
	ENDED_MOVED = 2,    /* the operator gave it another role */
	ENDED_REPLACED = 3, /* another policy took over */
	ENDED_GUARD = 4,
};

/* User space writes it, `version` last, while connections live. */
struct operation {
	__u64 version;
	__u64 share;	   /* of 2^32 connections, chosen by hash */
	__u64 cgroup;	   /* only sockets that were made in it; 0: in any */
	__u32 shadow;
	__u32 guard;	   /* decisions in a row outside or clamped that hand a connection over; 0: none do */
	__u32 remote[4];   /* only remote addresses that are equal to it under the mask, as IPv6, in network order */
	__u32 mask[4];
};

/* Number of records of connections that have ended, a power of two. The oldest goes first. */
#define ENDED_RECORDS 16384

/* A connection, or the part of it under one role and one policy. */
struct connection {
	__u64 record;	 /* number among those that have ended, from 1; 0: it lives, or its record is being written */
	__u64 id;	 /* of the connection, in the order of opening, from 1 */
	__u64 cookie;	 /* SO_COOKIE; 0 if nobody has asked for it */
	__u64 begun_ns;	 /* CLOCK_MONOTONIC, as `now_ns` */
	__u64 now_ns;
	__u64 busy_ns;	 /* with data on the way */
	__u64 generation; /* number of the policy */
	__u64 acked_bytes;
	__u64 sent_bytes;
	__u64 retransmitted_bytes;
	__u64 rtt_us;	 /* sum of rtt_count samples */
	__u64 rtt_count;
	__u64 decisions;
	__u64 outside;	 /* decisions on what training did not see */
	__u64 clamps;	 /* decisions with an entry beyond what the policy admits */
	__u64 held;	 /* decisions whose action was held back */
	__u64 compared;	 /* decisions in the shadow that were compared */
	__u64 agreed;	 /* those within a tenth of the running rate */
	__u64 policy_kib; /* sums over them of the policy's and the running rate, in KiB/s */
	__u64 running_kib;
	__u64 pacing_bytes_per_s;
	__u32 rtt_min_us;
	__u32 srtt_us;
	__u32 window_packets;
	__u32 mss;
	__u32 role;
	__u32 ended;
	__u32 local_address[4]; /* as IPv6, in network order */
	__u32 remote_address[4];
	__u16 local_port; /* in host order */
	__u16 remote_port;
	__u32 unused;
};

/* What a program counts, of one CPU. */
struct stats {
	__u64 opened; /* sockets that have chosen the policy, and those that have given it up */
	__u64 closed;
	__u64 periods;
	__u64 decisions;
	__u64 ns;	  /* that decisions took, signals included */
	__u64 ns_most;
	__u64 beyond;	  /* decisions with an entry of the observation beyond what the policy admits */
	__u64 outside;	  /* decisions with an entry outside of what training saw */
	__u64 unreported; /* decisions whose report found no room */
	__u64 held;	  /* decisions whose action was held back */
	__u64 missed;	  /* decisions for which no room to work was left on the CPU */
	__u64 handed_back; /* connections that the guard took from the policy */
	__u64 compared;	  /* decisions in the shadow that were compared */
	__u64 agreed;	  /* those within a tenth of the running rate */
	__u64 cases[8];	  /* periods by the reasoner's case */
	__u64 zones[4];	  /* periods by ACCT's zone */
};

#endif
