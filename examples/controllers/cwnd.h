/* The window of loss-based controllers, in packets: growth, reduction, undo and restart as Linux's TCP does them.
 * The registry's schemes do the same in crates/ccarena-cc/src/schemes/cwnd.rs, which cites the kernel's functions. */

#include "ccarena.h"

#define CWND_INFINITE 0x7fffffffu /* No threshold yet (TCP_INFINITE_SSTHRESH). */
#define CWND_CLAMP (1u << 24)     /* No window grows beyond this (snd_cwnd_clamp). */

typedef struct {
  uint32_t packets, threshold, initial, mss;
  uint64_t credit; /* Packets acknowledged since the window last grew in congestion avoidance (snd_cwnd_cnt). */
  uint64_t acked_to;
  uint32_t prior_packets, prior_threshold; /* Before the last reduction; zero if there is none to undo. */
} cwnd;

static inline uint32_t cwnd_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t cwnd_max(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline cwnd cwnd_new(const cc_config *config) {
  uint32_t initial = cwnd_min(cwnd_max(config->initial_window_packets, 1), CWND_CLAMP);
  return (cwnd){.packets = initial,
                .threshold = config->slow_start ? CWND_INFINITE : initial,
                .initial = initial,
                .mss = cwnd_max(config->mss_bytes, 1)};
}

static inline void cwnd_answer(const cwnd *w, cc_control *out) {
  out->window_bytes = (double)((uint64_t)w->packets * w->mss);
  out->threshold_bytes = (double)((uint64_t)w->threshold * w->mss);
}

static inline int cwnd_in_slow_start(const cwnd *w) { return w->packets < w->threshold; }

/* The acknowledgement makes progress, the window is not on its way down, and it is what limited sending. */
static inline int cwnd_may_grow(cwnd *w, const cc_ack *ack) {
  int advanced = ack->acked_to > w->acked_to;
  w->acked_to = ack->acked_to;
  if (!advanced || ack->recovery == CC_RECOVERY || ack->recovery == CC_REDUCTION) return 0;
  return (ack->flags & CC_WINDOW_LIMITED) ||
         (cwnd_in_slow_start(w) && (uint64_t)w->packets * w->mss < 2 * ack->in_flight_before_bytes);
}

static inline void cwnd_grow(cwnd *w, uint32_t by) { w->packets = cwnd_min(w->packets + cwnd_min(by, CWND_CLAMP), CWND_CLAMP); }

/* Grows by `acked` packets up to the threshold, and returns those left over. */
static inline uint32_t cwnd_slow_start(cwnd *w, uint32_t acked) {
  uint32_t grown = cwnd_min(cwnd_min(w->packets + acked, w->threshold), CWND_CLAMP);
  uint32_t left = acked - cwnd_min(grown - w->packets, acked);
  w->packets = grown;
  return left;
}

/* Grows by one packet for each `per_growth` of `acked`. */
static inline void cwnd_additive_increase(cwnd *w, uint32_t per_growth, uint32_t acked) {
  per_growth = cwnd_max(per_growth, 1);
  if (w->credit >= per_growth) {
    w->credit = 0;
    cwnd_grow(w, 1);
  }
  w->credit += acked;
  if (w->credit >= per_growth) {
    uint64_t growth = w->credit / per_growth;
    w->credit -= growth * per_growth;
    cwnd_grow(w, growth > CWND_CLAMP ? CWND_CLAMP : (uint32_t)growth);
  }
}

/* Three quarters of a window that has outgrown the threshold. */
static inline uint32_t cwnd_current_threshold(const cwnd *w) {
  return cwnd_max(w->threshold, (w->packets >> 1) + (w->packets >> 2));
}

static inline void cwnd_remember(cwnd *w) {
  w->prior_packets = w->packets;
  w->prior_threshold = cwnd_current_threshold(w);
}

/* Fast recovery begins. */
static inline void cwnd_reduce(cwnd *w, uint32_t threshold) {
  cwnd_remember(w);
  w->threshold = cwnd_max(threshold, 2);
  w->packets = cwnd_min(w->packets, w->threshold);
  w->credit = 0;
}

/* A timeout: one packet more than what is still in flight. The first of an episode lowers the threshold. */
static inline void cwnd_collapse(cwnd *w, const cc_loss *loss, uint32_t threshold) {
  if (loss->flags & CC_NEW_EPISODE) {
    cwnd_remember(w);
    w->threshold = cwnd_max(threshold, 2);
  }
  uint64_t flight = (loss->in_flight_bytes + w->mss - 1) / w->mss;
  w->packets = cwnd_min(flight > CWND_CLAMP ? CWND_CLAMP : (uint32_t)flight + 1, w->packets);
  w->credit = 0;
}

/* The last reduction was unwarranted. */
static inline void cwnd_undo(cwnd *w) {
  if (!w->prior_packets) return;
  w->packets = cwnd_max(w->packets, w->prior_packets);
  w->threshold = cwnd_max(w->threshold, w->prior_threshold);
  w->prior_packets = 0;
}

/* Restart after silence: half for each timeout that has passed, down to the initial window. */
static inline void cwnd_restart(cwnd *w, uint64_t idle_ns, uint64_t rto_ns) {
  if (idle_ns <= rto_ns) return;
  w->threshold = cwnd_current_threshold(w);
  uint64_t halvings = (idle_ns - 1) / (rto_ns ? rto_ns : 1);
  w->packets = cwnd_max(w->packets >> (halvings < 31 ? halvings : 31), cwnd_min(w->initial, w->packets));
  w->credit = 0;
}
