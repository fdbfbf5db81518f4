// Shared memory, with TCP over loopback as base transport. Every rank has its own transport, as if it were a separate
// process.
#include "base/check.h"
#include "tests/conformance/conformance.h"
#include "tests/support/tls_files.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo::conformance {
namespace {

class ShmTestNetwork final : public TestNetwork {
 public:
  ShmTestNetwork(int world_size, const ShmOptions& options, bool ranks_know_their_host, const TlsOptions& tls_options) {
    auto tls = TlsContext::Make(tls_options);
    RONDO_CHECK(tls, "{}", tls.error().ToString());
    for (int rank = 0; rank < world_size; ++rank) {
      TcpOptions tcp;
      tcp.job = "conformance";
      tcp.host_id = LocalHostId();
      tcp.tls = *tls;
      auto base = MakeTcpTransport(tcp);
      RONDO_CHECK(base, "{}", base.error().ToString());
      ShmOptions own = options;
      if (ranks_know_their_host) own.host_id = LocalHostId();
      auto transport = MakeShmTransport(*base, own);
      RONDO_CHECK(transport, "{}", transport.error().ToString());
      transports_.push_back(*transport);
    }
  }
  std::shared_ptr<Transport> transport(Rank rank) override { return transports_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::shared_ptr<Transport>> transports_;
};

Fixture Of(std::string name, const ShmOptions& options, bool ranks_know_their_host = true, const TlsOptions& tls = {}) {
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.make = [=](int world_size) {
    return std::make_unique<ShmTestNetwork>(world_size, options, ranks_know_their_host, tls);
  };
  return fixture;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  return {
      Of("same host", {}),
      Of("smallest rings", {.ring_bytes = 4096}),
      Of("hosts unknown: the base transport alone", {}, false),
      Of("beside TLS", {}, true, testing::PskOf('k')),
      Of("hosts unknown: TLS alone", {}, false, testing::PskOf('k')),
  };
}

}  // namespace rondo::conformance
