/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What policy.bpf.c and user space tell each other besides the image (ccarena_image.h). */
#ifndef CCARENA_POLICY_MAPS_H
#define CCARENA_POLICY_MAPS_H

#include "acting.h"
#include "decision.h"

/* Decisions on given observations, for `ccarena parity`: each row a flow with a state of its own. */
#define TRIAL_ROWS 64

struct trial {
	ccarena_u64 ns; /* that all rows took */
	ccarena_u32 rows;
	ccarena_u32 unused;
	ccarena_s64 observations[TRIAL_ROWS][IMAGE_OBSERVATION];
	struct learned_state states[TRIAL_ROWS];
	ccarena_s32 outputs[TRIAL_ROWS][IMAGE_ACTIONS];
};

#endif
