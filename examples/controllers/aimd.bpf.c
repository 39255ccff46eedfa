/* AIMD for Linux TCP as a BPF object: slow start, then INCREASE packets more per round trip, and KEPT percent of the
 * window after a loss. The kernel does the rest: loss detection, fast recovery, retransmission timeouts.
 *
 *   clang -target bpf -g -O2 -D__TARGET_ARCH_x86 -isystem /usr/include/$(gcc -print-multiarch) -c aimd.bpf.c -o aimd.bpf.o
 *   sudo ccarena compete aimd.yaml cubic --backend kernel
 *
 * On ARM, write -D__TARGET_ARCH_arm64. The headers are those of Debian's libbpf-dev and linux-libc-dev. */

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define INCREASE 1
#define KEPT 70

/* Functions of the kernel may be called from programs under the GPL alone. */
char LICENSE[] SEC("license") = "GPL";

/* The fields that this program uses. When it loads, they are found by name and type in the running kernel's structs
 * (CO-RE), so their order and the fields left out do not matter. */
#define KERNEL_STRUCT __attribute__((preserve_access_index))

struct sock {
	unsigned long sk_pacing_rate; /* In bytes per second, for a control that paces. */
} KERNEL_STRUCT;

struct tcp_sock {
	__u32 snd_cwnd;		/* The window in packets. */
	__u32 snd_ssthresh;	/* Slow start ends here. */
	__u32 max_packets_out;	/* Most packets in flight in the last round trip. */
	__u8 is_cwnd_limited : 1;
} KERNEL_STRUCT;

/* A congestion control is one of these. The kernel takes it under `name`; ssthresh, undo_cwnd, and cong_avoid or
 * cong_control must be there. */
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
} KERNEL_STRUCT;

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 per_growth, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* A window that the application leaves unused does not grow (tcp_is_cwnd_limited). */
static __always_inline int is_limiting(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
	       (tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* `acked` packets have arrived, and none is missing. */
SEC("struct_ops")
void BPF_PROG(aimd_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!is_limiting(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd / INCREASE, acked);
}

/* A loss: the window falls to what this returns. */
SEC("struct_ops")
__u32 BPF_PROG(aimd_ssthresh, struct sock *sk)
{
	__u32 kept = (__u64)((struct tcp_sock *)sk)->snd_cwnd * KEPT / 100;

	return kept > 2 ? kept : 2;
}

/* The loss was none, since the packets have arrived late: the window goes back to what this returns. */
SEC("struct_ops")
__u32 BPF_PROG(aimd_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops aimd = {
	.ssthresh = (void *)aimd_ssthresh,
	.cong_avoid = (void *)aimd_cong_avoid,
	.undo_cwnd = (void *)aimd_undo_cwnd,
	.name = "aimd",
};
