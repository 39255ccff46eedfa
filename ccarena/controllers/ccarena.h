/* ccarena.h: the interface of a congestion controller in C.
 *
 * The same functions make a WebAssembly module and a native library. docs/ship-a-controller.md shows how to build them.
 * Every struct has fixed-width fields and no hidden padding. Times are nanoseconds since the start of the run, amounts are
 * bytes of payload, rates are bit/s. A `packet` is one segment of `mss_bytes`.
 *
 * Order of calls: the transport books an acknowledgement, calls cc_on_loss if it marks packets lost, then cc_on_ack.
 * Each call fills in cc_control, which keeps its values until the controller changes them. A flow ends, with the reason in
 * its result, if a call traps, takes too long, or leaves a number that is not finite or is negative.
 */
#ifndef CCARENA_H
#define CCARENA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Later versions may use reserved fields, which are zero until then. */
#define CC_ABI 1u

/* A time that never comes, and a duration that is not known. */
#define CC_NEVER UINT64_MAX

/* ---- What the controller says about itself ---- */

/* Flags of cc_about. */
#define CC_OWNS_RECOVERY 1u /* The window alone says what is sent during recovery: no RFC 6937 reduction. */
#define CC_EVERY_SEGMENT 2u /* cc_on_sent is called for each packet, not only for the first after silence. */
#define CC_RATE_SAMPLES 4u  /* cc_ack has delivery-rate samples. */

/* A parameter: a number that users may set. */
typedef struct {
  const char *name; /* A C identifier. */
  const char *unit; /* "" if it has none. */
  const char *help; /* One sentence. */
  double initial;   /* Value if the user gives none. */
  double least;     /* Smallest and largest value. */
  double most;
} cc_param;

/* Facts about the controller. */
typedef struct {
  uint32_t abi;   /* CC_ABI */
  uint32_t flags; /* CC_OWNS_RECOVERY, CC_EVERY_SEGMENT, CC_RATE_SAMPLES */
  const char *name;
  const char *summary;
  const cc_param *params; /* Table of `params_count` parameters; null if there is none. */
  uint32_t params_count;
  uint32_t reserved;
} cc_about;

/* ---- What it is told ---- */

/* Facts about the flow. */
typedef struct {
  uint32_t mss_bytes;              /* Payload of a full packet. */
  uint32_t initial_window_packets; /* Packets that may be sent before the first acknowledgement. */
  uint32_t slow_start;             /* 1: the flow begins in slow start. */
  uint32_t params_count;
  double weight;         /* Weight of the flow among others; 1 unless the user sets it. */
  uint32_t header_bytes; /* Header on the wire per packet. */
  uint32_t reserved[5];
  double params[32]; /* Values of the parameters, in the order of the table. */
} cc_config;

#define CC_PARAMS_MOST 32u

/* Recovery of the transport, after the event. */
enum {
  CC_OPEN = 0,      /* No loss is being repaired. */
  CC_REDUCTION = 1, /* The window shrinks after a congestion mark (RFC 3168). Growth pauses. */
  CC_RECOVERY = 2,  /* Losses found by acknowledgements are repaired. Growth pauses. */
  CC_LOSS = 3       /* After a retransmission timeout. */
};

/* Flags of events. */
#define CC_WINDOW_LIMITED 1u /* cc_ack: the window limited sending in the last round trip. */
#define CC_APP_LIMITED 2u    /* cc_ack: the sampled packet left while the application was the limit. cc_sent: it is now. */
#define CC_NEW_EPISODE 4u    /* cc_loss: the first loss of an episode, which multiplicative decrease answers. */
#define CC_MARKED 8u         /* cc_loss: a congestion mark (ECN), and nothing is lost. */
#define CC_RETRANSMISSION 16u /* cc_sent: the same data was sent before. */

/* An acknowledgement. */
typedef struct {
  uint64_t now_ns;
  uint64_t acked_bytes;     /* Delivered for the first time. */
  uint64_t rtt_ns;          /* RTT of the newest packet acknowledged; CC_NEVER if it was retransmitted. */
  uint64_t min_rtt_ns;      /* Smallest RTT of the connection; CC_NEVER before the first. */
  uint64_t smoothed_rtt_ns; /* RFC 6298; zero before the first RTT. */
  uint64_t rtt_var_ns;      /* RTTVAR, if the transport reports sums of samples; else zero. */
  uint64_t in_flight_before_bytes;
  uint64_t in_flight_bytes;
  uint64_t delivered_bytes; /* Total of the flow, this acknowledgement included. */
  uint64_t lost_bytes;      /* Newly marked lost. */
  uint64_t rate_bytes;      /* Delivery-rate sample: bytes delivered in `rate_interval_ns`. */
  uint64_t rate_interval_ns; /* Zero if there is no sample. */
  uint64_t rate_prior_bytes; /* Total delivered when the sampled packet was sent. */
  uint64_t acked_to;         /* First byte that is not yet acknowledged cumulatively. */
  uint64_t sent_to;          /* First byte that is not yet sent. */
  uint32_t acked_packets;
  uint32_t retransmitted_packets; /* Retransmissions in flight. */
  uint32_t marked_packets;        /* Reported as marked by routers (ECN CE). */
  uint32_t recovery;              /* CC_OPEN ... CC_LOSS */
  uint32_t flags;
  uint32_t reserved[5];
} cc_ack;

/* Packets marked lost, a congestion mark, or an expired retransmission timer. */
typedef struct {
  uint64_t now_ns;
  uint64_t lost_bytes;
  uint64_t in_flight_bytes; /* After the marking. */
  uint64_t delivered_bytes;
  uint64_t sent_to;
  uint32_t lost_packets;
  uint32_t flags;
  uint32_t reserved[4];
} cc_loss;

/* A packet that leaves. */
typedef struct {
  uint64_t now_ns;
  uint64_t bytes;
  uint64_t in_flight_before_bytes;
  uint64_t sent_to;          /* First byte that was not yet sent before this packet. */
  uint64_t last_sent_ns;     /* When the packet before it left, if the transport does not report every packet; else zero. */
  uint64_t unreported_bytes; /* Payload that left since the last call without a call of its own. */
  uint32_t unreported_packets;
  uint32_t flags;
  uint32_t reserved[4];
} cc_sent;

/* ---- What it answers ---- */

/* Control of the flow. Before cc_create and between calls it keeps what the controller wrote last. */
typedef struct {
  double window_bytes;      /* Bytes that may be in flight; below one packet counts as one packet. */
  double pacing_bps;        /* Payload rate at which packets leave, bit/s; zero sends as the window allows. */
  double threshold_bytes;   /* Slow-start threshold, which RFC 6937 reduction reads; zero if there is none. */
  uint64_t timer_ns;        /* Time at which to call cc_on_timer, once; CC_NEVER is never. */
  uint32_t reserved[4];
} cc_control;

/* ---- The functions ---- */

/* The controller of one flow: a struct of yours. A WebAssembly module gets an instance of its own for each flow. */
typedef struct cc cc;

#ifdef __wasm__
#define CC_EXPORT(name) __attribute__((export_name(name)))
#elif defined(__GNUC__)
#define CC_EXPORT(name) __attribute__((visibility("default")))
#else
#define CC_EXPORT(name)
#endif

/* Required. cc_create may return null if it keeps its state elsewhere. */
CC_EXPORT("cc_describe") const cc_about *cc_describe(void);
CC_EXPORT("cc_create") cc *cc_create(const cc_config *config, cc_control *out);
CC_EXPORT("cc_on_ack") void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out);

/* Optional: a function that a controller does not define is not called. */
CC_EXPORT("cc_free") void cc_free(cc *self);
CC_EXPORT("cc_on_loss") void cc_on_loss(cc *self, const cc_loss *loss, cc_control *out);
CC_EXPORT("cc_on_timeout") void cc_on_timeout(cc *self, const cc_loss *loss, cc_control *out);
CC_EXPORT("cc_on_sent") void cc_on_sent(cc *self, const cc_sent *sent, cc_control *out);
CC_EXPORT("cc_on_timer") void cc_on_timer(cc *self, uint64_t now_ns, cc_control *out);
/* The last loss was spurious, the packets have arrived after all: its reduction may be undone. */
CC_EXPORT("cc_on_spurious_loss") void cc_on_spurious_loss(cc *self, uint64_t now_ns, cc_control *out);
CC_EXPORT("cc_on_recovery_end")
void cc_on_recovery_end(cc *self, uint64_t now_ns, uint64_t in_flight_bytes, cc_control *out);
/* Sending restarts after `idle_ns` with nothing in flight; `rto_ns` is the retransmission timeout. */
CC_EXPORT("cc_on_idle_restart")
void cc_on_idle_restart(cc *self, uint64_t now_ns, uint64_t idle_ns, uint64_t rto_ns, cc_control *out);

/* ---- What the host gives ---- */

/* Returns 64 random bits, seeded by the run's seed: the only function that a module may import. */
#ifdef __wasm__
__attribute__((import_module("ccarena"), import_name("random"))) uint64_t cc_random(void);

/* Room in the module's memory, aligned to 8 bytes, where the host puts events. Modules in other languages export it. */
#define CC_SCRATCH_BYTES 512u
CC_EXPORT("cc_scratch") void *cc_scratch(void);
__attribute__((weak)) void *cc_scratch(void) {
  static uint64_t room[CC_SCRATCH_BYTES / 8];
  return room;
}

/* Returns `bytes` of zeroed memory for the flow's state. A module has one flow, so nothing is given back. */
extern unsigned char __heap_base;
__attribute__((weak)) uintptr_t cc_new_at; /* One for all files of a module. */
static inline void *cc_new(uint32_t bytes) {
  uintptr_t at = cc_new_at ? cc_new_at : ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
  uintptr_t end = (at + bytes + 15) & ~(uintptr_t)15, room = __builtin_wasm_memory_size(0) << 16;
  if (end > room && __builtin_wasm_memory_grow(0, (end - room + 65535) >> 16) == (uintptr_t)-1) __builtin_trap();
  cc_new_at = end;
  return (void *)at;
}
static inline void cc_delete(void *state) { (void)state; }
#else
uint64_t cc_random(void);

#include <stdlib.h>
static inline void *cc_new(uint32_t bytes) { return calloc(1, bytes); }
static inline void cc_delete(void *state) { free(state); }
#endif

#ifdef __cplusplus
}
#endif

#endif
