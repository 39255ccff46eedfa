/* A host in miniature: a sender, a bottleneck with a FIFO, and acknowledgements one round trip later.
 *
 * run() is what a stack does with a flow: it sends as window and pacing rate allow, books acknowledgements, finds losses,
 * and reports all of it. Everything else here makes a link that runs in no time.
 */
#ifndef LINK_H
#define LINK_H

#include <stdint.h>
#include <string.h>

#include "ccarena_host.h"

#define MSS 1448u
#define RING 65536u /* More packets than are ever in flight. */
#define RTO_NS 1000000000u

/* A link and its load. */
typedef struct {
  double mbps;
  uint64_t rtt_ns;
  uint32_t buffer_packets;
  uint64_t end_ns;
} link_facts;

/* Outcome of a run. */
typedef struct {
  double mbps;
  double rtt_ms; /* Mean. */
  uint64_t lost_packets;
} outcome;

/* Reports of this host. */
#define REPORTS (CCARENA_EVERY_PACKET | CCARENA_RATE_SAMPLES | CCARENA_PACKET_NUMBERS | CCARENA_ROUTER_RATES)

typedef struct {
  uint64_t sent_ns, acked_ns;                     /* acked_ns: when its acknowledgement arrives; CC_NEVER if it is dropped. */
  uint64_t delivered_bytes, delivered_ns;         /* Of the connection when it was sent, for delivery-rate samples. */
} packet;

typedef struct {
  packet packets[RING];
  uint64_t now_ns, next, first;                   /* Numbers of the next packet, and of the first one in flight. */
  uint64_t free_ns, send_ns;                      /* When the link is idle, and when pacing lets the next packet leave. */
  uint64_t in_flight, delivered, delivered_ns, recovery_end;
  uint64_t rtt_sum_ns, rtts, min_rtt_ns, smoothed_rtt_ns, lost;
  cc_control control;
} host;

/* Puts a packet on the link, and reports it. */
static int send_packet(host *h, ccarena_flow *flow, const link_facts *link) {
  uint64_t wire_ns = (uint64_t)(MSS * 8 * 1e3 / link->mbps);
  uint64_t waits_ns = h->free_ns > h->now_ns ? h->free_ns - h->now_ns : 0;
  packet *p = &h->packets[h->next % RING];
  cc_sent sent;
  memset(&sent, 0, sizeof sent);
  sent.now_ns = h->now_ns;
  sent.bytes = MSS;
  sent.in_flight_before_bytes = h->in_flight;
  sent.sent_to = h->next * MSS;
  p->sent_ns = h->now_ns;
  p->delivered_bytes = h->delivered;
  p->delivered_ns = h->in_flight ? h->delivered_ns : h->now_ns;
  p->acked_ns = CC_NEVER;
  if (waits_ns / wire_ns < link->buffer_packets) {
    h->free_ns = h->now_ns + waits_ns + wire_ns;
    p->acked_ns = h->free_ns + link->rtt_ns;
  }
  h->in_flight += MSS;
  if (h->control.pacing_bps > 0) h->send_ns = h->now_ns + (uint64_t)(MSS * 8e9 / h->control.pacing_bps);
  return ccarena_on_sent(flow, &sent, h->next++, &h->control);
}

/* Packets up to `end` that did not arrive are lost. `timeout`: nonzero if the retransmission timer found them, not an acknowledgement. */
static int lose_packets(host *h, ccarena_flow *flow, uint64_t end, int timeout) {
  cc_loss loss;
  int code = CCARENA_OK;
  memset(&loss, 0, sizeof loss);
  while (h->first < end && h->packets[h->first % RING].acked_ns == CC_NEVER) {
    if (h->first >= h->recovery_end) {
      h->recovery_end = h->next;
      loss.flags = CC_NEW_EPISODE;
    }
    code = ccarena_on_packet_lost(flow, h->first++);
    if (code != CCARENA_OK) return code;
    loss.lost_packets++;
  }
  if (!loss.lost_packets) return code;
  loss.now_ns = h->now_ns;
  loss.lost_bytes = (uint64_t)loss.lost_packets * MSS;
  h->in_flight -= loss.lost_bytes;
  h->lost += loss.lost_packets;
  loss.in_flight_bytes = h->in_flight;
  loss.delivered_bytes = h->delivered;
  loss.sent_to = h->next * MSS;
  return timeout ? ccarena_on_timeout(flow, &loss, &h->control) : ccarena_on_loss(flow, &loss, &h->control);
}

/* The acknowledgement of packet `number` arrives, and reveals that those before it are lost. */
static int take_ack(host *h, ccarena_flow *flow, uint64_t number, const link_facts *link) {
  const packet *p = &h->packets[number % RING];
  uint64_t before = h->in_flight, lost = h->lost, rtt_ns = h->now_ns - p->sent_ns;
  int was_recovering = h->first < h->recovery_end, code;
  cc_ack ack;
  memset(&ack, 0, sizeof ack);
  if ((code = ccarena_on_packet_acked(flow, number)) != CCARENA_OK) return code;
  if (ccarena_requested_bps(flow) > 0 && (code = ccarena_on_router_rate(flow, link->mbps * 1e6)) != CCARENA_OK) return code;
  if ((code = lose_packets(h, flow, number, 0)) != CCARENA_OK) return code;
  h->first = number + 1;
  h->in_flight -= MSS;
  h->delivered += MSS;
  h->delivered_ns = h->now_ns;
  h->rtt_sum_ns += rtt_ns;
  h->rtts++;
  if (rtt_ns < h->min_rtt_ns) h->min_rtt_ns = rtt_ns;
  h->smoothed_rtt_ns = h->smoothed_rtt_ns ? (7 * h->smoothed_rtt_ns + rtt_ns) / 8 : rtt_ns;
  if (was_recovering && h->first >= h->recovery_end)
    if ((code = ccarena_on_recovery_end(flow, h->now_ns, h->in_flight, &h->control)) != CCARENA_OK) return code;
  ack.now_ns = h->now_ns;
  ack.acked_bytes = MSS;
  ack.acked_packets = 1;
  ack.rtt_ns = rtt_ns;
  ack.min_rtt_ns = h->min_rtt_ns;
  ack.smoothed_rtt_ns = h->smoothed_rtt_ns;
  ack.in_flight_before_bytes = before;
  ack.in_flight_bytes = h->in_flight;
  ack.delivered_bytes = h->delivered;
  ack.lost_bytes = (h->lost - lost) * MSS;
  ack.rate_bytes = h->delivered - p->delivered_bytes;
  ack.rate_interval_ns = h->now_ns - p->delivered_ns;
  ack.rate_prior_bytes = p->delivered_bytes;
  ack.acked_to = h->first * MSS;
  ack.sent_to = h->next * MSS;
  ack.recovery = h->first < h->recovery_end ? CC_RECOVERY : CC_OPEN;
  ack.flags = CC_WINDOW_LIMITED;
  return ccarena_on_ack(flow, &ack, &h->control);
}

/* Sends as fast as `flow` allows until the end; h->now_ns is then there. Returns CCARENA_OK, or a call's code. */
static int run(host *h, ccarena_flow *flow, const link_facts *link, outcome *out) {
  int code;
  memset(h, 0, sizeof *h);
  h->min_rtt_ns = CC_NEVER;
  if ((code = ccarena_control(flow, &h->control)) != CCARENA_OK) return code;
  while (h->now_ns < link->end_ns) {
    uint64_t number = h->first, ack_ns, send_ns, at_ns, timeout_ns = CC_NEVER;
    while (number < h->next && h->packets[number % RING].acked_ns == CC_NEVER) number++;
    ack_ns = number < h->next ? h->packets[number % RING].acked_ns : CC_NEVER;
    if (ack_ns == CC_NEVER && h->in_flight) timeout_ns = h->packets[h->first % RING].sent_ns + RTO_NS;
    send_ns = h->in_flight + MSS <= h->control.window_bytes ? (h->send_ns > h->now_ns ? h->send_ns : h->now_ns) : CC_NEVER;
    at_ns = ack_ns < send_ns ? ack_ns : send_ns;
    if (timeout_ns < at_ns) at_ns = timeout_ns;
    if (h->control.timer_ns < at_ns) at_ns = h->control.timer_ns;
    if (at_ns > h->now_ns) h->now_ns = at_ns;
    if (h->control.timer_ns <= h->now_ns) code = ccarena_on_timer(flow, h->now_ns, &h->control);
    else if (ack_ns <= h->now_ns) code = take_ack(h, flow, number, link);
    else if (send_ns <= h->now_ns) code = send_packet(h, flow, link);
    else code = lose_packets(h, flow, h->next, 1);
    if (code != CCARENA_OK) return code;
  }
  out->mbps = h->delivered * 8e3 / h->now_ns;
  out->rtt_ms = h->rtts ? h->rtt_sum_ns / 1e6 / h->rtts : 0;
  out->lost_packets = h->lost;
  return CCARENA_OK;
}

#endif
