/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A policy with its spec, in numbers, as a kernel's program reads it: `ccarena_cc::policy::kernel` writes it, and a
 * test compares the two. Numbers of the spec are in units of 2^-20 unless something else is said. */
#ifndef CCARENA_IMAGE_H
#define CCARENA_IMAGE_H

#define IMAGE_MAGIC 0x00414d4941434343ull /* "CCCAIMA" */
/* Of all that this file says: raised by whoever changes any of it. */
#define IMAGE_VERSION 4

#define IMAGE_COLUMNS 64
#define IMAGE_OBSERVATION 256
#define IMAGE_STATE 128
#define IMAGE_ACTIONS 256
#define IMAGE_PARTS 8
#define IMAGE_STEPS 128
#define IMAGE_VALUES 4096
#define IMAGE_CONSTANTS 16384
#define IMAGE_WEIGHTS 65536
#define IMAGE_OPTIONS 16
#define IMAGE_DERIVED 64
/* A program reads numbers in groups, of which only the first is held within the array. */
#define IMAGE_SLACK 16

#define CCARENA_STEPS IMAGE_STEPS
#define CCARENA_VALUES IMAGE_VALUES
#define CCARENA_CONSTANTS IMAGE_CONSTANTS
#define CCARENA_WEIGHTS IMAGE_WEIGHTS
#include "ccarena_policy.h"

enum image_clock { CLOCK_WINDOW, CLOCK_FIXED, CLOCK_RTT, CLOCK_REASONER, CLOCK_TICKS, CLOCK_TIMER, CLOCKS };
enum image_actuator {
	ACT_ALPHA,
	ACT_WINDOW,
	ACT_WINDOW_EXP2,
	ACT_WINDOW_FACTOR,
	ACT_WINDOW_OPS,
	ACT_RATE,
	ACT_RATE_FACTOR,
	ACT_PACING_GAIN,
	ACT_CAP,
	ACTUATORS,
};
enum image_base { BASE_ACCT, BASE_OVER_CUBIC, BASE_NONE, BASES };

/* The registry's signals of the same names. */
enum image_signal {
	SIGNAL_THROUGHPUT_MBPS,
	SIGNAL_THROUGHPUT_MAX_MBPS,
	SIGNAL_THROUGHPUT_RATIO,
	SIGNAL_THROUGHPUT_PER_RTT_MBPS,
	SIGNAL_THROUGHPUT_PER_RTT_MBYTEPS, /* throughput_per_rtt_MBps */
	SIGNAL_DELIVERY_RATIO,
	SIGNAL_DELIVERED_BYTES,
	SIGNAL_ACKED_PACKETS,
	SIGNAL_SEND_RATE_MBPS,
	SIGNAL_SENT_PACKETS,
	SIGNAL_SEND_RATIO,
	SIGNAL_RTT_MS,
	SIGNAL_RTT_MIN_MS,
	SIGNAL_SRTT_MS,
	SIGNAL_RTT_OR_MIN_MS,
	SIGNAL_RTT_RATIO,
	SIGNAL_LATENCY_RATIO,
	SIGNAL_SRTT_RATIO,
	SIGNAL_QUEUEING_DELAY_MS,
	SIGNAL_DELAY_OR_ZERO_MS,
	SIGNAL_DELAY_RATIO,
	SIGNAL_RTT_GRADIENT,
	SIGNAL_LOSS_RATIO,
	SIGNAL_PACKET_LOSS_RATIO,
	SIGNAL_LOST_PACKETS,
	SIGNAL_LOSS_RATE_PPS,
	SIGNAL_LOSS_MBPS,
	SIGNAL_CWND_PACKETS,
	SIGNAL_WINDOW_RATIO,
	SIGNAL_TWND_PACKETS,
	SIGNAL_TARGET_RATIO,
	SIGNAL_ADVERTISED_MBPS,
	SIGNAL_ZONE,
	SIGNAL_ZONE_INDEX,
	SIGNAL_LAST_ACTION,
	SIGNAL_ACTION_BEFORE,
	SIGNAL_INTERVAL_MS,
	SIGNAL_INTERVAL_RATIO,
	SIGNAL_CASE,
	SIGNAL_LATENCY_GRADIENT,
	SIGNAL_RATE_MBPS,
	SIGNAL_RTT_OR_ZERO_MS,
	SIGNAL_RTT_SAMPLES,
	SIGNAL_INFLIGHT_PACKETS,
	SIGNAL_INFLIGHT_RATIO,
	SIGNAL_OUTSTANDING_PACKETS,
	SIGNAL_RETRANSMITTED_PACKETS,
	SIGNAL_DELIVERY_RATE_MBPS,
	SIGNAL_DELIVERY_RATE_MEAN_MBPS,
	SIGNAL_APP_LIMITED_RATIO,
	SIGNAL_ACK_RTT_MS,
	SIGNAL_ACK_DELIVERY_MBPS,
	SIGNAL_ACK_SEND_MBPS,
	SIGNALS,
	/* The value at place `channel` of what `derived` computes. */
	SIGNAL_DERIVED = SIGNALS,
};

/* How a derived signal is computed of the values at places `first` and `second`, which come before its own. */
enum image_derivation {
	DERIVED_CONSTANT, /* `option` */
	DERIVED_SIGNAL,	  /* `signal` with `option` */
	DERIVED_QUOTIENT, /* `option` where the divisor is 0 */
	DERIVED_DIFFERENCE,
	DERIVED_EWMA,	  /* of `first` with gain `option`; `second`: each period begins a new one */
	DERIVED_MIN,	  /* of `first`, of the whole flow */
	DERIVED_MEAN,
	DERIVED_MAX,
	DERIVATIONS,
};

struct image_derived {
	ccarena_s64 low; /* bounds of its values */
	ccarena_s64 high;
	ccarena_s64 option;
	ccarena_u32 derivation;
	ccarena_u32 signal;
	ccarena_u32 first;
	ccarena_u32 second;
};

/* An operation on the window: times `factor`, and `add` segments more. */
struct image_op {
	ccarena_s64 factor;
	ccarena_s64 add;
};

/* One series of the observation, or one column of the report. */
struct image_column {
	ccarena_s64 low; /* bounds of its values */
	ccarena_s64 high;
	ccarena_s64 option; /* the first of its signal's; in ms a budget */
	ccarena_u32 signal;
	ccarena_u32 channel;
	ccarena_u32 at;	    /* its first entry of the observation */
	ccarena_u32 length; /* entries, oldest first */
	ccarena_u32 live;   /* read when the policy decides, not at the end of a period */
	ccarena_u32 unused;
};

/* Bounds of an entry of the observation, beyond which it is outside of what training saw. */
struct image_range {
	ccarena_s64 low;
	ccarena_s64 high;
};

/* A part of what the policy remembers: where it lies after a decision. */
struct image_part {
	ccarena_u32 place;
	ccarena_u32 length;
};

struct image {
	ccarena_u64 magic;
	ccarena_u32 version;
	ccarena_u32 bytes;	 /* of this struct */
	ccarena_u8 checksum[32]; /* SHA-256 of everything after it */
	char scheme[64];
	char spec[24]; /* its digest */
	char label[64];	   /* where the policy came from */

	ccarena_u64 generation; /* of a live map: another number, another policy. 0 in a file */
	ccarena_u64 desired_kbps;
	ccarena_u32 header_bytes; /* of a segment, for the target window */
	ccarena_u32 clock;
	ccarena_u32 actuator;
	ccarena_u32 base;
	ccarena_u32 relative; /* an action counts only when one was asked for */
	ccarena_u32 discrete; /* actions are indices of `actions` */
	ccarena_u32 by_rate;  /* actions move the rate */
	ccarena_u32 lined;    /* a signal is the slope of a line through the RTT samples */
	ccarena_u32 by_ack;   /* the first so many of `derived` are computed at each ACK */
	ccarena_u32 derived_length;
	ccarena_s64 clock_options[IMAGE_OPTIONS];
	/* Of window_exp2 the first is the units of action per output; of window_factor the second is log2 of the power. */
	ccarena_s64 actuator_options[IMAGE_OPTIONS];
	ccarena_s64 base_options[IMAGE_OPTIONS];
	ccarena_s64 first_action; /* what is in force before the first decision */

	ccarena_u32 columns_length;
	ccarena_u32 observation;
	ccarena_u32 state;
	ccarena_u32 parts_length;
	ccarena_u32 steps_length;
	ccarena_u32 output;
	ccarena_u32 outputs;
	ccarena_u32 output_bits;
	ccarena_s32 output_low; /* bounds of a continuous action, in units of 2^-output_bits */
	ccarena_s32 output_high;
	struct image_part parts[IMAGE_PARTS];
	ccarena_s64 actions[IMAGE_ACTIONS];
	struct image_column columns[IMAGE_COLUMNS];
	ccarena_u32 reports_length; /* 0: decisions are not reported */
	ccarena_u32 has_observed;   /* of `observed`: 0 nothing, 1 the range of training, 2 the box of a guard */
	struct image_column reports[IMAGE_COLUMNS];
	struct image_range observed[IMAGE_OBSERVATION];
	struct image_derived derived[IMAGE_DERIVED];
	struct image_op ops[IMAGE_ACTIONS]; /* of window_ops */
	struct ccarena_step steps[IMAGE_STEPS];
	ccarena_s64 constants[IMAGE_CONSTANTS + IMAGE_SLACK];
	ccarena_u16 weights[IMAGE_WEIGHTS + IMAGE_SLACK];
};

#endif
