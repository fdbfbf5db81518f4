// RDMA, with TCP over loopback as base transport. It needs an RDMA device, so it runs in the guest of
// tools/dev/lab/rdma_vm (tests/vm).
#include <string>

#include "base/check.h"
#include "tests/conformance/conformance.h"
#include "transport/ib/ib.h"
#include "transport/tcp/tcp.h"

namespace rondo::conformance {
namespace {

class IbTestNetwork final : public TestNetwork {
 public:
  IbTestNetwork(int world_size, const IbOptions& options, const std::vector<std::string>& ports) {
    for (int rank = 0; rank < world_size; ++rank) {
      TcpOptions tcp;
      tcp.job = "conformance";
      tcp.host_id = LocalHostId();
      auto base = MakeTcpTransport(tcp);
      RONDO_CHECK(base, "{}", base.error().ToString());
      IbOptions own = options;
      own.port = ports[static_cast<std::size_t>(rank) % ports.size()];
      own.may_fall_back = own.port.empty();
      auto transport = MakeIbTransport(*base, own);
      RONDO_CHECK(transport, "{}", transport.error().ToString());
      transports_.push_back(*transport);
    }
  }
  std::shared_ptr<Transport> transport(Rank rank) override { return transports_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::shared_ptr<Transport>> transports_;
};

Fixture Of(std::string name, const IbOptions& options, const std::vector<std::string>& ports) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.make = [=](int world_size) { return std::make_unique<IbTestNetwork>(world_size, options, ports); };
  return fixture;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  return {
      Of("between two devices", {}, {"rxe0", "rxe1"}),
      Of("small rings", {.ring_bytes = 64 * 1024}, {"rxe0", "rxe1"}),
      Of("smallest rings", {.ring_bytes = 4096}, {"10.0.0.1", "10.0.0.2"}),
  };
}

}  // namespace rondo::conformance
