/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* What one user may take of what all share: sockets that are driven from user space, and changes of who is. */
#ifndef CCARENA_QUOTA_H
#define CCARENA_QUOTA_H

#include "kernel.h"

struct user {
	u64 refilled_ns;
	u32 sockets;
	u32 changes; /* that may be told at once */
};

/* By uid. A user who is pushed out by others begins anew: the quotas are then wider, never narrower. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct user);
} users SEC(".maps");

static __always_inline struct user *user_of(u32 uid, u64 now)
{
	struct user *user = bpf_map_lookup_elem(&users, &uid), new = { now, 0, config.changes_per_s };

	if (user)
		return user;
	bpf_map_update_elem(&users, &uid, &new, BPF_ANY);
	return bpf_map_lookup_elem(&users, &uid);
}

/* Counts a socket in, if the quota allows. */
static __always_inline bool enter(u32 uid, u64 now)
{
	struct user *user = user_of(uid, now);

	if (!user)
		return false;
	if (config.sockets_per_user && user->sockets >= config.sockets_per_user)
		return false;
	__sync_fetch_and_add(&user->sockets, 1);
	return true;
}

static __always_inline void leave(u32 uid)
{
	struct user *user = bpf_map_lookup_elem(&users, &uid);

	if (user && user->sockets)
		__sync_fetch_and_sub(&user->sockets, 1);
}

/* Whether one more EVENT_OPENED or EVENT_CLOSED may be told: a second's worth at once, then as time goes. */
static __always_inline bool may_change(u32 uid, u64 now)
{
	struct user *user = user_of(uid, now);
	u64 earned;

	if (!user || !config.changes_per_s)
		return true;
	earned = (now - user->refilled_ns) / NSEC_PER_USEC * config.changes_per_s / USEC_PER_SEC;
	if (earned) {
		earned += user->changes;
		user->changes = earned < config.changes_per_s ? earned : config.changes_per_s;
		user->refilled_ns = now;
	}
	if (!user->changes)
		return false;
	user->changes--;
	return true;
}

#endif
