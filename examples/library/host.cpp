// Runs a scheme and a policy of ccarena on a toy link, from C++: a flow that frees itself, and codes as exceptions.
// host [POLICY.safetensors]
//
// c++ -std=c++17 host.cpp $(pkg-config --cflags --libs ccarena) -o host, or as docs/library.md says for a checkout.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "link.h"

namespace {

struct Freed {
  void operator()(ccarena_flow *flow) const { ccarena_free(flow); }
  void operator()(ccarena_policy *policy) const { ccarena_policy_free(policy); }
};
using Flow = std::unique_ptr<ccarena_flow, Freed>;
using Policy = std::unique_ptr<ccarena_policy, Freed>;

ccarena_facts facts() {
  ccarena_facts facts{};
  facts.abi = CCARENA_ABI;
  facts.mss_bytes = MSS;
  facts.header_bytes = 52;
  facts.reports = REPORTS;
  facts.seed = 1;
  return facts;
}

void check(int code, const char *why) {
  if (code != CCARENA_OK) throw std::runtime_error(std::string(ccarena_text(code)) + ": " + why);
}

Flow scheme(const std::string &name) {
  const ccarena_facts connection = facts();
  ccarena_flow *flow = nullptr;
  char why[300] = "";
  check(ccarena_create(name.c_str(), nullptr, 0, &connection, &flow, why, sizeof why), why);
  return Flow(flow);
}

Policy policy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  ccarena_policy *policy = nullptr;
  char why[300] = "";
  check(ccarena_policy_read(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), &policy, why, sizeof why), why);
  return Policy(policy);
}

Flow decided_by(const Policy &policy) {
  const ccarena_facts connection = facts();
  ccarena_flow *flow = nullptr;
  char why[300] = "";
  check(ccarena_create_policy(policy.get(), nullptr, 0, &connection, &flow, why, sizeof why), why);
  return Flow(flow);
}

// The policy in the shadow of CUBIC, or under a guard that hands the flow to it.
Flow operated(const Policy &policy, bool shadow, uint32_t guard) {
  const ccarena_facts connection = facts();
  ccarena_flow *flow = nullptr;
  char why[300] = "";
  check(ccarena_create_operated(policy.get(), nullptr, 0, &connection, "cubic", shadow, guard, &flow, why, sizeof why), why);
  return Flow(flow);
}

void measure(const std::string &name, const Flow &flow) {
  const auto sender = std::make_unique<host>();
  const link_facts link = {20, 40000000, 69, 20000000000u};
  outcome out{};
  char why[300] = "";
  const int code = run(sender.get(), flow.get(), &link, &out);
  ccarena_why(flow.get(), why, sizeof why);
  check(code, why);
  std::cout << name << ": " << out.mbps << " Mbit/s, RTT " << out.rtt_ms << " ms, " << out.lost_packets << " packets lost, role "
            << ccarena_role(flow.get()) << '\n';
}

}  // namespace

int main(int argc, char **argv) {
  try {
    measure("bbr", scheme("bbr"));
    if (argc > 1) {
      const Policy mine = policy(argv[1]);
      measure(argv[1], decided_by(mine));
      measure("in the shadow of cubic", operated(mine, true, 0));
      measure("guarded by cubic", operated(mine, false, 8));
    }
  } catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
