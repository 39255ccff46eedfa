/* Runs a scheme and a policy of ccarena on a toy link (link.h), the policy also as an operator runs it:
 * host [POLICY.safetensors]
 *
 * cc host.c $(pkg-config --cflags --libs ccarena) -o host, or as docs/library.md says for a checkout. */
#include <stdio.h>
#include <stdlib.h>

#include "link.h"

static host sender; /* Too large for a stack. */

static ccarena_facts facts(void) {
  ccarena_facts facts;
  memset(&facts, 0, sizeof facts);
  facts.abi = CCARENA_ABI;
  facts.mss_bytes = MSS;
  facts.header_bytes = 52;
  facts.reports = REPORTS;
  facts.seed = 1;
  return facts;
}

/* Runs `flow` on 20 Mbit/s, 40 ms and a buffer of a bandwidth-delay product, and frees it. */
static int measure(const char *name, ccarena_flow *flow) {
  link_facts link = {20, 40000000, 69, 20000000000u};
  outcome out;
  char why[300] = "";
  int code = run(&sender, flow, &link, &out);
  if (code == CCARENA_OK) {
    printf("%s: %.2f Mbit/s, RTT %.1f ms, %llu packets lost, %llu decisions, role %d\n", name, out.mbps, out.rtt_ms,
           (unsigned long long)out.lost_packets, (unsigned long long)ccarena_decisions(flow), ccarena_role(flow));
  } else {
    ccarena_why(flow, why, sizeof why);
    fprintf(stderr, "%s: %s: %s\n", name, ccarena_text(code), why);
  }
  ccarena_free(flow);
  return code;
}

static unsigned char *read_file(const char *path, size_t *count) {
  unsigned char *bytes = NULL;
  FILE *file = fopen(path, "rb");
  long size;
  if (!file) return NULL;
  if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET) && (bytes = malloc((size_t)size)))
    *count = fread(bytes, 1, (size_t)size, file);
  fclose(file);
  return bytes;
}

/* Runs `policy` in the shadow of CUBIC, which acts; or, if `shadow` is 0, until `guard` decisions in a row are on
 * observations that its training did not see, from when CUBIC goes on for good. */
static int operate(const char *name, const ccarena_policy *policy, uint32_t shadow, uint32_t guard) {
  ccarena_facts connection = facts();
  ccarena_flow *flow = NULL;
  char why[300] = "";
  int code = ccarena_create_operated(policy, NULL, 0, &connection, "cubic", shadow, guard, &flow, why, sizeof why);
  if (code != CCARENA_OK) return puts(why), code;
  return measure(name, flow);
}

int main(int argc, char **argv) {
  ccarena_facts connection = facts();
  ccarena_value no_hystart = {"hystart", 0};
  ccarena_flow *flow = NULL;
  ccarena_policy *policy = NULL;
  unsigned char *bytes;
  size_t count = 0;
  int code;
  char why[300] = "";

  if (ccarena_create("cubic", NULL, 0, &connection, &flow, why, sizeof why) != CCARENA_OK) return puts(why), 1;
  if (measure("cubic", flow) != CCARENA_OK) return 1;
  if (ccarena_create("cubic", &no_hystart, 1, &connection, &flow, why, sizeof why) != CCARENA_OK) return puts(why), 1;
  if (measure("cubic, no HyStart", flow) != CCARENA_OK) return 1;

  if (argc < 2) return 0;
  if (!(bytes = read_file(argv[1], &count))) return perror(argv[1]), 1;
  code = ccarena_policy_read(bytes, count, &policy, why, sizeof why);
  free(bytes); /* The policy has its own copy. */
  if (code != CCARENA_OK) return puts(why), 1;
  code = ccarena_create_policy(policy, NULL, 0, &connection, &flow, why, sizeof why);
  if (code == CCARENA_OK) code = measure(argv[1], flow);
  else puts(why);
  if (code == CCARENA_OK) code = operate("in the shadow of cubic", policy, 1, 0);
  if (code == CCARENA_OK) code = operate("guarded by cubic", policy, 0, 8);
  ccarena_policy_free(policy); /* Flows keep what they need. */
  return code != CCARENA_OK;
}
