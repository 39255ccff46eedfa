/* A window of 20 packets that goes wrong after `acks` acknowledgements, as `how` says. */

#include "ccarena.h"

struct cc {
  uint32_t how, acks, seen;
};

static const cc_param PARAMS[] = {
    {"how", "", "1: trap, 2: loop, 3: grow, 4: not a number, 5: negative, 6: recurse", 1, 1, 6},
    {"acks", "acknowledgements", "When.", 200, 0, 1e6},
};
static const cc_about ABOUT = {.abi = CC_ABI, .name = "bad", .params = PARAMS, .params_count = 2};

const cc_about *cc_describe(void) { return &ABOUT; }

cc *cc_create(const cc_config *config, cc_control *out) {
  cc *self = cc_new(sizeof *self);
  self->how = (uint32_t)config->params[0];
  self->acks = (uint32_t)config->params[1];
  out->window_bytes = 20.0 * config->mss_bytes;
  return self;
}

static volatile uint32_t zero;
__attribute__((noinline)) static uint32_t deep(uint32_t n) {
  return n == UINT32_MAX ? n : deep(n + 1) + zero;
}

void cc_on_ack(cc *self, const cc_ack *ack, cc_control *out) {
  (void)ack;
  if (++self->seen <= self->acks) return;
  switch (self->how) {
    case 1: __builtin_trap();
    case 2: while (!zero) {} break;
    case 3: while (!zero) cc_new(1 << 20); break;
    case 4: out->window_bytes = __builtin_nan(""); break;
    case 5: out->window_bytes = -1; break;
    default: out->window_bytes = deep(0);
  }
}
