/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What ACCT's TCP option (option.h) leaves with a socket. */
#ifndef CCARENA_SIGNAL_H
#define CCARENA_SIGNAL_H

#include "kernel.h"

/* The TCP option's state of a socket, at either end. */
struct signal {
	u32 desired_kbps;    /* written into packets; 0: none */
	u32 advertised_kbps; /* echoed to us; 0: nothing yet */
	u32 echo_kbps;	     /* to be echoed by us; 0: nothing yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct signal);
} signals SEC(".maps");

#endif
