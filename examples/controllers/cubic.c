/* CUBIC with HyStart (RFC 9438; Ha and Rhee, "Taming the elephants", 2011) as in the registry, to its last packet.
 *
 * Integers are scaled as in Linux's tcp_cubic.c. crates/ccarena-cc/src/schemes/cubic.rs has the reasons and lists what
 * differs from the kernel. Windows are packets; times of the curve are jiffies of 4 ms. */

#include "cwnd.h"

#define HZ 250ull
#define JIFFY_NS (1000000000ull / HZ)
#define BETA 717ull /* of 1024, about 0.7 */
#define BETA_SCALE 1024ull
#define C_SCALED 410ull /* C = 0.4, times 1024 */
#define CUBE_FACTOR ((1ull << 40) / C_SCALED)
#define RENO_SCALE (8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA))
#define FARTHEST (1ull << 18)

#define NO_EPOCH UINT64_MAX

/* W(t) of the present epoch, and Reno's estimate beside it. */
typedef struct {
  uint64_t last_max, epoch_start, origin, k;
  uint64_t reno_window, reno_acked, updated;
  uint32_t per_growth, updated_window;
} curve;

/* Leaves slow start before it overflows the queue. */
typedef struct {
  uint64_t round_end, round_start_ns, train_end_ns, round_rtt_ns;
  uint32_t samples, found;
} hystart;

struct cc {
  cwnd window;
  curve curve;
  hystart hystart;
  uint64_t min_rtt_ns, last_sent_ns;
  uint32_t with_hystart, fast_convergence, reno_friendly;
};

static const cc_param PARAMS[] = {
    {"hystart", "", "1: leave slow start by HyStart, 0: by loss", 1, 0, 1},
    {"fast_convergence", "", "1: a flow that loses below its last maximum yields more", 1, 0, 1},
    {"reno_friendly", "", "1: never slower than Reno would be", 1, 0, 1},
};

static const cc_about ABOUT = {
    .abi = CC_ABI,
    .name = "CUBIC in C",
    .summary = "CUBIC with HyStart, as Linux does it (RFC 9438)",
    .params = PARAMS,
    .params_count = sizeof PARAMS / sizeof *PARAMS,
};

const cc_about *cc_describe(void) { return &ABOUT; }

static inline uint64_t jiffies(uint64_t ns) { return ns / JIFFY_NS; }
static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t since(uint64_t now, uint64_t then) { return now > then ? now - then : 0; }

/* The largest integer whose cube is at most x < 2^63. */
static uint64_t cube_root(uint64_t x) {
  uint64_t root = 0;
  for (uint64_t bit = 1ull << 20; bit; bit >>= 1) {
    uint64_t tried = root | bit;
    if (tried * tried * tried <= x) root = tried;
  }
  return root;
}

static curve fresh_curve(void) { return (curve){.epoch_start = NO_EPOCH}; }

static void begin_round(hystart *h, uint64_t now_ns, uint64_t sent_to) {
  *h = (hystart){.round_end = sent_to,
                 .round_start_ns = now_ns,
                 .train_end_ns = now_ns,
                 .round_rtt_ns = CC_NEVER,
                 .found = h->found};
}

cc *cc_create(const cc_config *config, cc_control *out) {
  cc *self = cc_new(sizeof *self);
  self->window = cwnd_new(config);
  self->curve = fresh_curve();
  self->hystart.round_rtt_ns = CC_NEVER;
  self->with_hystart = config->params[0] >= 0.5;
  self->fast_convergence = config->params[1] >= 0.5;
  self->reno_friendly = config->params[2] >= 0.5;
  cwnd_answer(&self->window, out);
  return self;
}

void cc_free(cc *self) { cc_delete(self); }

/* Acknowledgements keep arriving closely spaced for half the minimum RTT: a window fills the path. */
static int train_is_long(cc *self, const cc_ack *ack) {
  hystart *h = &self->hystart;
  if (since(ack->now_ns, h->train_end_ns) > 2000000) return 0;
  h->train_end_ns = ack->now_ns;
  uint64_t window_bytes = (uint64_t)self->window.packets * self->window.mss;
  uint64_t offload_ns = least(ack->smoothed_rtt_ns * (4 * 65536) / (2 * window_bytes), 1000000);
  return since(ack->now_ns, h->round_start_ns) > (self->min_rtt_ns + offload_ns) / 2;
}

/* Eight samples all lie an eighth of the minimum RTT above it: a queue. */
static int delay_has_grown(cc *self, uint64_t rtt_ns) {
  hystart *h = &self->hystart;
  h->round_rtt_ns = least(h->round_rtt_ns, rtt_ns);
  if (h->samples < 8) {
    h->samples++;
    return 0;
  }
  return h->round_rtt_ns > self->min_rtt_ns + least(most(self->min_rtt_ns / 8, 4000000), 16000000);
}

static void on_rtt(cc *self, const cc_ack *ack) {
  uint64_t start = self->curve.epoch_start;
  /* In the second after a reduction samples still hold the queue that caused it. */
  if (start != NO_EPOCH && since(jiffies(ack->now_ns), start) < HZ) return;
  uint64_t rtt_ns = most(ack->rtt_ns, 1000);
  if (self->min_rtt_ns == 0 || rtt_ns < self->min_rtt_ns) self->min_rtt_ns = rtt_ns;
  hystart *h = &self->hystart;
  if (!cwnd_in_slow_start(&self->window) || !self->with_hystart || h->found) return;
  if (ack->acked_to > h->round_end) begin_round(h, ack->now_ns, ack->sent_to);
  if (self->window.packets < 16) return;
  int train = train_is_long(self, ack), grown = delay_has_grown(self, rtt_ns);
  h->found = train || grown;
  if (h->found) self->window.threshold = self->window.packets;
}

/* Equation 2 of RFC 9438: K = cbrt((W_max - cwnd_epoch) / C). */
static void begin_epoch(curve *c, uint64_t now, uint64_t window, uint32_t acked) {
  c->epoch_start = now;
  c->reno_acked = acked;
  c->reno_window = window;
  c->origin = most(c->last_max, window);
  c->k = cube_root(CUBE_FACTOR * (c->origin - window));
}

/* Equation 1 at `elapsed` + RTT, as acknowledged packets per packet of growth. */
static uint32_t follow_curve(const curve *c, uint64_t elapsed, uint64_t window, uint64_t min_rtt_ns) {
  uint64_t t = ((elapsed + (min_rtt_ns + JIFFY_NS - 1) / JIFFY_NS) << 10) / HZ;
  uint64_t offset = least(t > c->k ? t - c->k : c->k - t, FARTHEST);
  uint64_t delta = (C_SCALED * offset * offset * offset) >> 40;
  uint64_t target = t < c->k ? since(c->origin, delta) : c->origin + delta;
  uint64_t per_growth = target > window ? window / (target - window) : 100 * window;
  /* Before the first loss nothing is known about capacity: at least 5 % per RTT. */
  return (uint32_t)least(per_growth, c->last_max == 0 ? 20 : UINT32_MAX);
}

static void follow_reno(curve *c, uint64_t window) {
  uint64_t per_packet = (window * RENO_SCALE) >> 3;
  if (c->reno_acked > per_packet) {
    uint64_t growth = (c->reno_acked - 1) / most(per_packet, 1);
    c->reno_acked -= growth * per_packet;
    c->reno_window += growth;
  }
  if (c->reno_window > window)
    c->per_growth = (uint32_t)least(c->per_growth, (uint32_t)(window / (c->reno_window - window)));
}

/* Acknowledged packets per packet of growth. */
static uint32_t update(cc *self, uint64_t now, uint32_t acked) {
  curve *c = &self->curve;
  uint32_t window = self->window.packets;
  c->reno_acked += acked;
  if (c->updated_window == window && now - c->updated <= HZ / 32) return c->per_growth;
  if (c->epoch_start == NO_EPOCH || c->updated != now) {
    c->updated = now;
    c->updated_window = window;
    if (c->epoch_start == NO_EPOCH) begin_epoch(c, now, window, acked);
    c->per_growth = follow_curve(c, since(now, c->epoch_start), window, self->min_rtt_ns);
  }
  if (self->reno_friendly) follow_reno(c, window);
  /* At most 1.5 x per RTT. */
  c->per_growth = cwnd_max(c->per_growth, 2);
  return c->per_growth;
}

void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out) {
  cwnd *w = &self->window;
  if (ack->rtt_ns != CC_NEVER) on_rtt(self, ack);
  if (cwnd_may_grow(w, ack)) {
    uint32_t left = cwnd_in_slow_start(w) ? cwnd_slow_start(w, ack->acked_packets) : ack->acked_packets;
    if (left > 0) cwnd_additive_increase(w, update(self, jiffies(ack->now_ns), left), left);
  }
  cwnd_answer(w, out);
}

/* Ends the epoch, and returns the threshold. */
static uint32_t end_epoch(cc *self) {
  uint64_t window = self->window.packets;
  curve *c = &self->curve;
  c->epoch_start = NO_EPOCH;
  int yields = window < c->last_max && self->fast_convergence;
  c->last_max = yields ? window * (BETA_SCALE + BETA) / (2 * BETA_SCALE) : window;
  return (uint32_t)(window * BETA / BETA_SCALE);
}

void cc_on_loss(cc *self, const cc_loss *loss, cc_control *out) {
  if (loss->flags & CC_NEW_EPISODE) cwnd_reduce(&self->window, end_epoch(self));
  cwnd_answer(&self->window, out);
}

/* A timeout forgets the curve, the minimum RTT and what HyStart found. */
void cc_on_timeout(cc *self, const cc_loss *loss, cc_control *out) {
  uint32_t threshold = loss->flags & CC_NEW_EPISODE ? end_epoch(self) : 0;
  cwnd_collapse(&self->window, loss, threshold);
  self->curve = fresh_curve();
  self->min_rtt_ns = 0;
  self->hystart.found = 0;
  begin_round(&self->hystart, loss->now_ns, loss->sent_to);
  cwnd_answer(&self->window, out);
}

/* Pauses of sending do not count as time on the curve. */
void cc_on_sent(cc *self, const cc_sent *sent, cc_control *out) {
  (void)out;
  curve *c = &self->curve;
  if (sent->in_flight_before_bytes == 0 && c->epoch_start != NO_EPOCH) {
    uint64_t last = jiffies(most(self->last_sent_ns, sent->last_sent_ns)), now = jiffies(sent->now_ns);
    c->epoch_start = least(c->epoch_start + since(now, last), now);
  }
  self->last_sent_ns = sent->now_ns;
}

void cc_on_spurious_loss(cc *self, uint64_t now_ns, cc_control *out) {
  (void)now_ns;
  cwnd_undo(&self->window);
  cwnd_answer(&self->window, out);
}

void cc_on_idle_restart(cc *self, uint64_t now_ns, uint64_t idle_ns, uint64_t rto_ns, cc_control *out) {
  (void)now_ns;
  cwnd_restart(&self->window, idle_ns, rto_ns);
  cwnd_answer(&self->window, out);
}
