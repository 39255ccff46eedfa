/* A controller that keeps a short queue, and halves its window at a loss. ccarena.h has the interface. */

#include "ccarena.h"

/* Smallest window, packets: one packet alone waits for a delayed acknowledgement. */
#define LEAST 2.0

/* State of one flow. */
struct cc {
  double target_ms, mss_bytes;
  double window; /* packets */
  int starting;  /* doubles each round trip until it meets a queue or a loss */
  uint64_t decreased_at; /* what was sent at the last decrease, byte */
};

/* What users may set: my_cc.wasm@target_ms=5. */
static const cc_param PARAMS[] = {
    {.name = "target_ms", .unit = "ms", .help = "Queueing delay to keep.", .initial = 10, .least = 0.1, .most = 1000},
};

static const cc_about ABOUT = {
    .abi = CC_ABI,
    .name = "my_cc",
    .summary = "Keeps a short queue, and halves its window at a loss.",
    .params = PARAMS,
    .params_count = sizeof PARAMS / sizeof *PARAMS,
};

const cc_about *cc_describe(void) { return &ABOUT; }

static void set_window(cc *self, double packets, cc_control *out) {
  self->window = packets < LEAST ? LEAST : packets;
  out->window_bytes = self->window * self->mss_bytes;
}

cc *cc_create(const cc_config *config, cc_control *out) {
  cc *self = cc_new(sizeof *self);
  self->target_ms = config->params[0];
  self->mss_bytes = config->mss_bytes;
  self->starting = 1;
  set_window(self, config->initial_window_packets, out);
  return self;
}

void cc_free(cc *self) { cc_delete(self); }

/* Adds a packet per round trip while the queue is shorter than the target, and else gives part of the window back. */
void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out) {
  if (ack->rtt_ns == CC_NEVER) return;
  double queue_ms = (double)ack->rtt_ns / 1e6 - (double)ack->min_rtt_ns / 1e6;
  if (queue_ms < self->target_ms) {
    /* A window that the application does not use says nothing about the path (RFC 7661). */
    if (!(ack->flags & CC_WINDOW_LIMITED)) return;
    double acked = ack->acked_packets;
    set_window(self, self->window + (self->starting ? acked : acked / self->window), out);
  } else if (ack->acked_to > self->decreased_at) {
    /* Once per round trip, the more the longer the queue is, and at most half of the window. */
    self->starting = 0;
    set_window(self, self->window * (1 - 0.5 * (queue_ms - self->target_ms) / queue_ms), out);
    self->decreased_at = ack->sent_to;
  }
}

/* Halves the window once per episode. */
void cc_on_loss(cc *self, const cc_loss *loss, cc_control *out) {
  if (!(loss->flags & CC_NEW_EPISODE)) return;
  self->starting = 0;
  set_window(self, self->window / 2, out);
}

/* Begins anew. */
void cc_on_timeout(cc *self, const cc_loss *loss, cc_control *out) {
  (void)loss;
  self->starting = 1;
  set_window(self, LEAST, out);
}
