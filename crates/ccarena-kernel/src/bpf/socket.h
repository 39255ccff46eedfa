/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* A congestion control with cong_control, and what it keeps of a socket. The includer defines `struct flow`. */
#ifndef CCARENA_SOCKET_H
#define CCARENA_SOCKET_H

#include "kernel.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

/* Of the programs `of`_init and so on. User space writes the name and, unless asked otherwise, leaves the control to those
 * with CAP_NET_ADMIN. */
#define CONGESTION_CONTROL(of)                                                                                             \
	SEC(".struct_ops.link")                                                                                            \
	struct tcp_congestion_ops of = {                                                                                   \
		.name = #of,                                                                                               \
		.init = (void *)of##_init,                                                                                 \
		.release = (void *)of##_release,                                                                           \
		.ssthresh = (void *)of##_ssthresh,                                                                         \
		.cong_control = (void *)of##_cong_control,                                                                 \
		.set_state = (void *)of##_set_state,                                                                       \
		.undo_cwnd = (void *)of##_undo_cwnd,                                                                       \
		.cwnd_event = (void *)of##_cwnd_event,                                                                     \
		.pkts_acked = (void *)of##_pkts_acked,                                                                     \
		.min_tso_segs = (void *)of##_min_tso_segs,                                                                 \
	}

#endif
