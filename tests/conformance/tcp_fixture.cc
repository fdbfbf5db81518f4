// The TCP transport over loopback: every rank has its own transport, as if it were a separate process.
#include "base/access.h"
#include "base/check.h"
#include "tests/conformance/conformance.h"
#include "tests/support/tls_files.h"
#include "transport/tcp/tcp.h"

namespace rondo::conformance {
namespace {

class TcpTestNetwork final : public TestNetwork {
 public:
  TcpTestNetwork(int world_size, const TcpOptions& options) {
    for (int rank = 0; rank < world_size; ++rank) {
      auto transport = MakeTcpTransport(options);
      RONDO_CHECK(transport, "{}", transport.error().ToString());
      transports_.push_back(*transport);
    }
  }
  std::shared_ptr<Transport> transport(Rank rank) override { return transports_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::shared_ptr<Transport>> transports_;
};

Fixture Of(std::string name, TcpOptions options) {
  options.job = "conformance";
  Fixture fixture;
  fixture.name = std::move(name);
  fixture.make = [options](int world_size) { return std::make_unique<TcpTestNetwork>(world_size, options); };
  return fixture;
}

std::shared_ptr<const TlsContext> Tls(const TlsOptions& options) {
  auto made = TlsContext::Make(options);
  RONDO_CHECK(made, "{}", made.error().ToString());
  return *made;
}

}  // namespace

std::vector<Fixture> Fixtures() {
  testing::TlsFiles files;  // Tls reads the files at once, so they may be removed afterwards
  return {
      Of("same host", {.host_id = LocalHostId()}),
      Of("same host, two sockets per lane", {.host_id = LocalHostId(), .split_local_lanes = true}),
      Of("same host, with a token", {.token = *JobToken::Make("secret", "the token"), .host_id = LocalHostId()}),
      Of("hosts unknown, small socket buffers", {.socket_buffer_bytes = 64 * 1024}),
      Of("over IPv6", {.host_id = LocalHostId(), .addresses = {"::1"}}),
      Of("TLS by a key", {.host_id = LocalHostId(), .tls = Tls(testing::PskOf('k'))}),
      Of("TLS by a key, small socket buffers", {.tls = Tls(testing::PskOf('k')), .socket_buffer_bytes = 64 * 1024}),
      Of("TLS by a key, with a token",
         {.token = *JobToken::Make("secret", "the token"), .host_id = LocalHostId(), .tls = Tls(testing::PskOf('k'))}),
      Of("TLS by certificates", {.host_id = LocalHostId(), .tls = Tls(files.Member("ca", "rank"))}),
  };
}

}  // namespace rondo::conformance
