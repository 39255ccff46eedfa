/* NewReno as in the registry (crates/ccarena-cc/src/schemes/cwnd.rs), to its last packet: slow start and additive
 * increase, halved by a loss episode (RFC 5681, RFC 6582), as Linux does it. */

#include "cwnd.h"

struct cc {
  cwnd window;
};

static const cc_about ABOUT = {
    .abi = CC_ABI,
    .name = "Reno in C",
    .summary = "Slow start and additive increase, halved by a loss episode (RFC 5681, RFC 6582)",
};

const cc_about *cc_describe(void) { return &ABOUT; }

cc *cc_create(const cc_config *config, cc_control *out) {
  cc *self = cc_new(sizeof *self);
  self->window = cwnd_new(config);
  cwnd_answer(&self->window, out);
  return self;
}

void cc_free(cc *self) { cc_delete(self); }

void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out) {
  cwnd *w = &self->window;
  if (!cwnd_may_grow(w, ack)) return;
  uint32_t left = cwnd_in_slow_start(w) ? cwnd_slow_start(w, ack->acked_packets) : ack->acked_packets;
  if (left > 0) cwnd_additive_increase(w, w->packets, left);
  cwnd_answer(w, out);
}

void cc_on_loss(cc *self, const cc_loss *loss, cc_control *out) {
  if (loss->flags & CC_NEW_EPISODE) cwnd_reduce(&self->window, self->window.packets / 2);
  cwnd_answer(&self->window, out);
}

void cc_on_timeout(cc *self, const cc_loss *loss, cc_control *out) {
  cwnd_collapse(&self->window, loss, self->window.packets / 2);
  cwnd_answer(&self->window, out);
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
