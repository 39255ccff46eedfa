/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What policy.bpf.c and user space tell each other besides the image (ccarena_image.h). */
#ifndef CCARENA_POLICY_MAPS_H
#define CCARENA_POLICY_MAPS_H

#include "acting.h"
#include "decision.h"

/* Of one CPU. */
struct stats {
	ccarena_u64 opened; /* sockets that have chosen the policy, and those that have given it up */
	ccarena_u64 closed;
	ccarena_u64 periods;
	ccarena_u64 decisions;
	ccarena_u64 ns;		/* that decisions took, signals included */
	ccarena_u64 ns_most;
	ccarena_u64 beyond;	/* decisions with an entry of the observation beyond what the policy admits */
	ccarena_u64 outside;	/* decisions with an entry outside of what training saw */
	ccarena_u64 unreported; /* decisions whose report found no room */
	ccarena_u64 held;	/* decisions whose action was held back */
	ccarena_u64 missed;	/* decisions for which no room to work was left on the CPU */
	ccarena_u64 handed_back;	/* connections that the guard took from the policy */
	ccarena_u64 compared;	/* decisions in the shadow that were compared */
	ccarena_u64 agreed;	/* those within a tenth of the running rate */
	ccarena_u64 cases[8];	/* periods by the reasoner's case */
	ccarena_u64 zones[4];	/* periods by ACCT's zone */
};

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
