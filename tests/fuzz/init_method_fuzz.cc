// Fuzzes rendezvous/init_method with rendezvous URLs as people, scripts and RONDO_RENDEZVOUS give them.
#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::init_method_fuzz {

Corpus HarnessCorpus() {
  return {.seeds = {"tcp://10.0.0.1:29500", "tcp://[fe80::1%eth0]:29500/?rank=2&world_size=4",
                    "tcp://node-1.cluster:0?world_size=65536", "file:///tmp/rendezvous?rank=0", "env://",
                    "env://?rank=1&world_size=2", "tcp://a:1?rank=4&world_size=4", "http://a:1", "tcp://a:b:1"},
          .words = {"tcp://", "file://", "env://", "?rank=", "&world_size=", "[::1]:", "65535", "65536", "-1"}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  const Result<InitMethod> method = ParseInitMethod(input);
  CheckError(method);
  allocations.CheckLargest(4096 + 64 * input.size());

  // If RONDO_RENDEZVOUS contains the input, env:// must give the same result as the input. An input of env:// is an
  // error in both cases.
  const std::string text(input);
  const auto environment = [&](const std::string& name) -> std::optional<std::string> {
    return name == "RONDO_RENDEZVOUS" ? std::optional(text) : std::nullopt;
  };
  const Result<InitMethod> by_variable = ParseInitMethod("env://", environment);
  CheckError(by_variable);
  if (!text.empty()) RONDO_HOLDS(by_variable.has_value() == method.has_value());
  if (!method) return;

  RONDO_HOLDS(method->kind != InitMethod::Kind::kLaunch, "a launch was found without an environment");
  if (method->rank) RONDO_HOLDS(*method->rank >= 0 && *method->rank < method->world_size.value_or(kMaxWorldSize));
  if (method->world_size) RONDO_HOLDS(*method->world_size >= 1 && *method->world_size <= kMaxWorldSize);
  RONDO_HOLDS(!method->Describe().empty());
  const Result<InitMethod> again = ParseInitMethod(method->ToString());
  RONDO_HOLDS(again, "'{}': {}", method->ToString(), again.error().ToString());
  RONDO_HOLDS(again->ToString() == method->ToString() && again->kind == method->kind && again->path == method->path);
  RONDO_HOLDS(again->address.host == method->address.host && again->address.port == method->address.port);
}

}  // namespace rondo::fuzz::init_method_fuzz
