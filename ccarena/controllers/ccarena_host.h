/* ccarena_host.h: the controllers of ccarena in your stack.
 *
 * A host builds a flow for each connection, reports events by the structs of ccarena.h, and sends what the controller's
 * answers (cc_control) allow. docs/library.md shows how. Functions return CCARENA_OK or another code; a call that fails
 * changes nothing, and ccarena_why has the reason. Times are nanoseconds, amounts bytes of payload, rates bit/s.
 *
 * A flow may change threads, but only one call at a time may use it. No function keeps a pointer of the host's.
 *
 * Written by cbindgen from crates/ccarena-ffi/src; do not edit. */

#ifndef CCARENA_HOST_H
#define CCARENA_HOST_H

#include <stddef.h>
#include <stdint.h>
#include "ccarena.h"

/*
 Done.
 */
#define CCARENA_OK 0

/*
 A required pointer is null, or a pointer is not aligned.
 */
#define CCARENA_NULL 1

/*
 The pointer is not a live handle of this kind.
 */
#define CCARENA_HANDLE 2

/*
 Another call on the same flow has not returned yet.
 */
#define CCARENA_BUSY 3

/*
 The event is earlier than the previous event.
 */
#define CCARENA_TIME 4

/*
 The call contradicts earlier calls.
 */
#define CCARENA_ORDER 5

/*
 A number is outside of its bounds, a reserved field is not zero, or a text is not UTF-8.
 */
#define CCARENA_RANGE 6

/*
 The scheme, or a parameter of it, is unknown or refused.
 */
#define CCARENA_SCHEME 7

/*
 The bytes are no policy artifact, or the policy does not fit the connection.
 */
#define CCARENA_ARTIFACT 8

/*
 The host does not report what the controller needs.
 */
#define CCARENA_LACKING 9

/*
 The controller has given up, or the library has a fault: the flow may send nothing.
 */
#define CCARENA_FAILED 10

/*
 Version of this interface. A library refuses facts of another one.
 */
#define CCARENA_ABI 1

/*
 Host: it calls ccarena_on_sent for each packet. Need: it has to; else the first packet after silence is enough.
 */
#define CCARENA_EVERY_PACKET 2

/*
 Host: `cc_ack` has delivery-rate samples. Need: the controller reads them.
 */
#define CCARENA_RATE_SAMPLES 4

/*
 Host: it numbers packets, and calls ccarena_on_packet_acked and ccarena_on_packet_lost. Need: it has to.
 */
#define CCARENA_PACKET_NUMBERS 8

/*
 Host: one congestion echo (ECN) per window of data, as `cc_loss` with CC_MARKED.
 */
#define CCARENA_ECHOES 16

/*
 Host: `cc_ack` counts marked packets (ECN), and echoes come as with CCARENA_ECHOES.
 */
#define CCARENA_MARKS 32

/*
 Host: packets carry ccarena_requested_bps to routers, and ccarena_on_router_rate brings their answer. Need: it has to.
 */
#define CCARENA_ROUTER_RATES 64

/*
 Need: the window alone says what is sent during recovery. Without it, reduce by RFC 6937 towards the window.
 */
#define CCARENA_OWNS_RECOVERY 1

/*
 Need: each packet is paced by itself, at the newest rate.
 */
#define CCARENA_PACES_EACH 128

/*
 Host: packets leave as ECT(1) (RFC 9331) if the controller needs it. Need: they have to.
 */
#define CCARENA_L4S 256

/*
 Fact: the connection does not begin in slow start.
 */
#define CCARENA_NO_SLOW_START 1

/*
 The controller of one connection. One thread at a time may use it; it may change threads.
 */
typedef struct ccarena_flow ccarena_flow;

/*
 A policy that has been read. Any number of threads may create flows from it.
 */
typedef struct ccarena_policy ccarena_policy;

/*
 Value of a scheme's parameter.
 */
typedef struct {
  /*
   Name of the parameter.
   */
  const char *name;
  /*
   Value of the parameter.
   */
  double value;
} ccarena_value;

/*
 Facts about a connection and its host. Set all to zero first: zero is the default wherever there is one.
 */
typedef struct {
  /*
   CCARENA_ABI
   */
  uint32_t abi;
  /*
   Payload of a full packet.
   */
  uint32_t mss_bytes;
  /*
   Packets that may be sent before the first acknowledgement; 10 by default.
   */
  uint32_t initial_window_packets;
  /*
   Bytes on the wire beyond the payload, per packet.
   */
  uint32_t header_bytes;
  /*
   Reports that the host makes: CCARENA_EVERY_PACKET and so on.
   */
  uint32_t reports;
  /*
   CCARENA_NO_SLOW_START
   */
  uint32_t flags;
  /*
   Time at which the connection begins, of any clock that never runs backwards.
   */
  uint64_t now_ns;
  /*
   Seed of controllers that randomise. Give each connection another.
   */
  uint64_t seed;
  /*
   Weight among other connections, at most 1000; 1 by default.
   */
  double weight;
  /*
   Rate that the application wants, for schemes that tell routers; 10 Gbit/s by default.
   */
  double desired_bps;
  /*
   Rates between which the application is served, for schemes that steer by them; none by default.
   */
  double required_min_bps;
  /*
   See `required_min_bps`.
   */
  double required_max_bps;
  /*
   Zeros.
   */
  uint32_t reserved[4];
} ccarena_facts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the version of the library, as text that is never freed.
 */
const char *ccarena_version(void);

/*
 Returns a sentence about a code, as text that is never freed.
 */
const char *ccarena_text(int32_t code);

/*
 Reads the `count` bytes of a policy artifact into `policy`. Flows share its weights. The reason of a failure goes to the
 `why_bytes` bytes at `why`, which may be null.

 # Safety
 `bytes` may be read for `count` bytes, `policy` may be written, and `why` for `why_bytes` bytes.
 */
int32_t ccarena_policy_read(const uint8_t *bytes,
                            size_t count,
                            ccarena_policy **policy,
                            char *why,
                            size_t why_bytes);

/*
 Frees a policy. Flows that were created from it live on.

 # Safety
 `policy` is null or a policy that is not freed, and no other call uses it.
 */
int32_t ccarena_policy_free(ccarena_policy *policy);

/*
 Creates the flow of a connection that runs `scheme`. `values` are `count` parameters; others have their defaults. The
 reason of a failure goes to the `why_bytes` bytes at `why`, which may be null.

 # Safety
 `scheme` is a string, `values` may be read for `count` values, `facts` may be read, `flow` may be written, and `why`
 for `why_bytes` bytes.
 */
int32_t ccarena_create(const char *scheme,
                       const ccarena_value *values,
                       size_t count,
                       const ccarena_facts *facts,
                       ccarena_flow **flow,
                       char *why,
                       size_t why_bytes);

/*
 Creates the flow of a connection for which `policy` decides. The rest is as for ccarena_create; `values` may set the
 parameters that the policy's spec lets a host set.

 # Safety
 As `ccarena_create`; `policy` is null or a policy that is not freed.
 */
int32_t ccarena_create_policy(const ccarena_policy *policy,
                              const ccarena_value *values,
                              size_t count,
                              const ccarena_facts *facts,
                              ccarena_flow **flow,
                              char *why,
                              size_t why_bytes);

/*
 Creates the flow of a connection for which `policy` decides as an operator wants: with `shadow`, the scheme `fallback` acts
 and the policy only decides; otherwise `fallback` takes over for good after `guard` decisions in a row on observations that
 its training did not see, 0 being never. The rest is as for ccarena_create_policy; `values` are the policy's.

 # Safety
 As `ccarena_create_policy`; `fallback` is a string.
 */
int32_t ccarena_create_operated(const ccarena_policy *policy,
                                const ccarena_value *values,
                                size_t count,
                                const ccarena_facts *facts,
                                const char *fallback,
                                uint32_t shadow,
                                uint32_t guard,
                                ccarena_flow **flow,
                                char *why,
                                size_t why_bytes);

/*
 Frees a flow.

 # Safety
 `flow` is null or a flow that is not freed, and no other call uses it.
 */
int32_t ccarena_free(ccarena_flow *flow);

/*
 A packet leaves. `number` is new and rises with each packet; without CCARENA_PACKET_NUMBERS it may be zero. `out`, here and
 below, gets the controller's answers; null takes none.

 # Safety
 `flow` is null or not freed, `sent` may be read, `out` may be written.
 */
int32_t ccarena_on_sent(ccarena_flow *flow,
                        const cc_sent *sent,
                        uint64_t number,
                        cc_control *out);

/*
 An acknowledgement has been booked. Report losses that it reveals first.

 # Safety
 `flow` is null or not freed, `ack` may be read, `out` may be written.
 */
int32_t ccarena_on_ack(ccarena_flow *flow, const cc_ack *ack, cc_control *out);

/*
 Packets have been marked lost, or a congestion mark has come.

 # Safety
 `flow` is null or not freed, `loss` may be read, `out` may be written.
 */
int32_t ccarena_on_loss(ccarena_flow *flow, const cc_loss *loss, cc_control *out);

/*
 The retransmission timer has expired; everything in flight counts as lost.

 # Safety
 `flow` is null or not freed, `loss` may be read, `out` may be written.
 */
int32_t ccarena_on_timeout(ccarena_flow *flow, const cc_loss *loss, cc_control *out);

/*
 The controller's timer, cc_control.timer_ns, is due.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_on_timer(ccarena_flow *flow, uint64_t now_ns, cc_control *out);

/*
 The last loss was spurious: the packets have arrived.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_on_spurious_loss(ccarena_flow *flow, uint64_t now_ns, cc_control *out);

/*
 Recovery, fast or after a timeout, has ended.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_on_recovery_end(ccarena_flow *flow, uint64_t now_ns, uint64_t in_flight_bytes, cc_control *out);

/*
 Sending restarts after `idle_ns` with nothing in flight; `rto_ns` is the retransmission timeout.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_on_idle_restart(ccarena_flow *flow,
                                uint64_t now_ns,
                                uint64_t idle_ns,
                                uint64_t rto_ns,
                                cc_control *out);

/*
 Packet `number` has arrived. Call it before the ccarena_on_ack that reports it.

 # Safety
 `flow` is null or not freed.
 */
int32_t ccarena_on_packet_acked(ccarena_flow *flow, uint64_t number);

/*
 Packet `number` counts as lost. Call it before the ccarena_on_loss or ccarena_on_timeout that reports it.

 # Safety
 `flow` is null or not freed.
 */
int32_t ccarena_on_packet_lost(ccarena_flow *flow, uint64_t number);

/*
 The receiver has returned `bps`, the rate that routers advertise. It counts until the next call.

 # Safety
 `flow` is null or not freed.
 */
int32_t ccarena_on_router_rate(ccarena_flow *flow, double bps);

/*
 Sets the weight of the connection among others, for schemes that share by weight.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_set_weight(ccarena_flow *flow, double weight, cc_control *out);

/*
 Sets the rates between which the application is served; two zeros take them back.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_set_requirement(ccarena_flow *flow, double min_bps, double max_bps, cc_control *out);

/*
 Sets the rate that the application wants, for schemes that tell routers.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_set_desired_rate(ccarena_flow *flow, double bps, cc_control *out);

/*
 Writes the controller's answers to `out`, as events do.

 # Safety
 `flow` is null or not freed, `out` may be written.
 */
int32_t ccarena_control(ccarena_flow *flow, cc_control *out);

/*
 Returns the bytes that may be in flight; zero if the controller has given up, or for a wrong handle.

 # Safety
 `flow` is null or not freed.
 */
uint64_t ccarena_window(ccarena_flow *flow);

/*
 Returns the payload rate to pace at, bit/s; zero sends as the window allows.

 # Safety
 `flow` is null or not freed.
 */
double ccarena_pacing_rate(ccarena_flow *flow);

/*
 Returns when ccarena_on_timer is due; CC_NEVER if it is not, or for a wrong handle.

 # Safety
 `flow` is null or not freed.
 */
uint64_t ccarena_next_timer(ccarena_flow *flow);

/*
 Returns what the controller needs from its host: CCARENA_OWNS_RECOVERY and so on. It stays the same.

 # Safety
 `flow` is null or not freed.
 */
uint32_t ccarena_needs(ccarena_flow *flow);

/*
 Returns the fewest packets that a paced host sends at once, if it sends in bursts.

 # Safety
 `flow` is null or not freed.
 */
uint32_t ccarena_least_burst(ccarena_flow *flow);

/*
 Returns the rate that packets ask routers for, bit/s; zero if they ask for none.

 # Safety
 `flow` is null or not freed.
 */
double ccarena_requested_bps(ccarena_flow *flow);

/*
 Returns the number of decisions of a policy after its first one.

 # Safety
 `flow` is null or not freed.
 */
uint64_t ccarena_decisions(ccarena_flow *flow);

/*
 Returns who moves the window of a flow of ccarena_create_operated: 0 the policy, 1 the fallback with the policy in its
 shadow, 4 the fallback after the guard took the flow from the policy. -1 for other flows.

 # Safety
 `flow` is null or not freed.
 */
int32_t ccarena_role(ccarena_flow *flow);

/*
 Writes to the `why_bytes` bytes at `why` why the last call that failed on this flow has failed. CCARENA_HANDLE and
 CCARENA_BUSY leave no reason; ccarena_text has a sentence on each.

 # Safety
 `flow` is null or not freed, `why` may be written for `why_bytes` bytes.
 */
int32_t ccarena_why(ccarena_flow *flow, char *why, size_t why_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CCARENA_HOST_H */
