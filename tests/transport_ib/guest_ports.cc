// Prints the machine's RDMA ports, and the ports that each argument selects. Runs in a virtual machine of
// tools/dev/lab/rdma_vm (tests/vm).
#include <fmt/core.h>

#include "transport/ib/ports.h"

int main(int argc, char** argv) {
  const auto library = rondo::ib::LoadVerbs();
  const auto ports = library ? rondo::ib::EnumeratePorts(*library) : rondo::Fail(library.error());
  const auto addresses = rondo::tcp::EnumerateInterfaces();
  if (!ports || !addresses) {
    fmt::print("{}\n", ports ? addresses.error().ToString() : ports.error().ToString());
    return 1;
  }
  for (const auto& port : *ports) fmt::print("{}\n", port.ToString());
  for (int i = 1; i < argc; ++i) {
    const auto chosen = rondo::ib::ChoosePort(*ports, *addresses, argv[i]);
    fmt::print("'{}': {}\n", argv[i],
               chosen ? fmt::format("{}, GID {} {}: {}", chosen->port.Name(), chosen->gid.index, chosen->gid.ToString(),
                                    chosen->reason)
                      : chosen.error().ToString());
  }
  return 0;
}
