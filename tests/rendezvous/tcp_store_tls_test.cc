// Tests the TCP store with TLS: which clients it accepts, and which error the others get. store_conformance_test.cc
// also tests a store's guarantees with TLS.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "rendezvous/tcp_store_protocol.h"
#include "tests/rendezvous/stores.h"
#include "tests/support/threads.h"

namespace rondo {
namespace tcp_store_tls_test {

using testing::PskOf;
using testing::TlsFiles;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::unique_ptr<TcpStoreServer> ServerWith(const std::shared_ptr<const TlsContext>& tls, Logger* logger = nullptr,
                                           int hello_timeout_ms = 5000) {
  TcpStoreServer::Options options;
  options.tls = tls;
  options.logger = logger;
  options.limits.hello_timeout_ms = hello_timeout_ms;
  return StartServer(std::move(options));
}

Error Refused(const TcpStoreServer& server, const std::shared_ptr<const TlsContext>& tls) {
  const TimePoint begun = SteadyClock().Now();
  const auto client = ConnectTo(server, "", begun + std::chrono::minutes(10), nullptr, tls);
  REQUIRE(!client);
  CHECK(SteadyClock().Now() < begun + std::chrono::minutes(5));  // Connect fails at once, well before the deadline
  CAPTURE(client.error().ToString());
  CHECK(client.error().code() == ErrorCode::kAuth);
  CHECK(Has(client.error().ToString(), server.address()));
  return client.error();
}

// Sends bytes to a server, and returns what the server sends until it closes the connection.
std::string Talk(const TcpStoreServer& server, std::string_view said) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(server.port());
  REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(fd, said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  std::string received;
  char buffer[4096];
  for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
    received.append(buffer, static_cast<std::size_t>(got));
  close(fd);
  return received;
}

void CheckWorks(const TcpStoreServer& server, const std::shared_ptr<const TlsContext>& tls) {
  const auto client = ClientOf(server, tls);
  REQUIRE(client->Set("works", "yes", Soon()));
  CHECK(*client->Get("works", Soon()) == "yes");
}

TEST_CASE("tcp store with TLS: who has another key is refused at once, in words, and others are served") {
  const auto server = ServerWith(TlsOf(PskOf('k')));
  CHECK(Has(Refused(*server, TlsOf(PskOf('j'))).message(), "refused the pre-shared key"));
  CHECK(Reaches(*server, [](const auto& stats) { return stats.auth_failed == 1; }));
  CheckWorks(*server, TlsOf(PskOf('k')));
}

TEST_CASE("tcp store with TLS: certificates of one authority serve, an expired one and an outsider's are refused") {
  TlsFiles files;
  const auto tls = TlsOf(files.Member("ca", "server"));
  const auto server = ServerWith(tls);
  CheckWorks(*server, TlsOf(files.Member("ca", "client")));
  const auto expired =
      TlsOf(files.Member("ca", "old", {.from = -std::chrono::hours(9), .until = -std::chrono::hours(1)}));
  CHECK(Has(Refused(*server, expired).message(), "it has expired"));
  CHECK(Has(Refused(*server, TlsOf(files.Member("other", "outsider"))).message(), "not signed by the job's CA"));
  CheckWorks(*server, tls);
}

TEST_CASE("tcp store with TLS: a client without it gets that error at once") {
  const auto server = ServerWith(TlsOf(PskOf('k')));
  CHECK(Has(Refused(*server, nullptr).message(), "the store requires TLS"));
  CHECK(Reaches(*server, [](const auto& stats) { return stats.auth_failed == 1; }));
  CHECK(Reaches(*server, [](const auto& stats) { return stats.clients == 0; }));
}

TEST_CASE("tcp store: a client with TLS gets the error at once that the store has none") {
  const auto server = ServerWith(nullptr);
  CHECK(Has(Refused(*server, TlsOf(PskOf('k'))).message(), "does not speak TLS, but this process does"));
  CheckWorks(*server, nullptr);
}

TEST_CASE("tcp store with TLS: foreign clients receive nothing, and are counted") {
  const auto server = ServerWith(TlsOf(PskOf('k')));
  CHECK(Talk(*server, "GET / HTTP/1.1\r\n\r\n").empty());
  CHECK(Talk(*server, "SSH-2.0-OpenSSH_9\r\n").empty());
  CHECK(Reaches(*server, [](const auto& stats) { return stats.unknown == 2; }));
  CheckWorks(*server, TlsOf(PskOf('k')));
}

TEST_CASE("tcp store with TLS: who begins TLS and falls silent is dropped in time") {
  const auto tls = TlsOf(PskOf('k'));
  const auto server = ServerWith(tls, nullptr, /*hello_timeout_ms=*/50);
  auto session = TlsSession::Make(tls, TlsSession::Role::kClient, "test");
  REQUIRE(session);
  REQUIRE((*session)->Handshake() == false);
  const std::string half = ToText((*session)->Unsent()).substr(0, 50);
  Talk(*server, half);  // returns when the server closes the connection
  CHECK(Reaches(*server, [](const auto& stats) { return stats.unknown == 1; }));
}

TEST_CASE("tcp store with TLS: large values, and many at once, arrive whole") {
  const auto tls = TlsOf(PskOf('k'));
  const auto server = ServerWith(tls);
  const std::string large(kMaxValueBytes, 'v');
  const auto client = ClientOf(*server, tls);
  REQUIRE(client->Set("large", large, Soon()));
  std::atomic<int> right{0};
  OnThreads(8, [&](int i) {
    const auto mine =
        i % 2 == 0 ? client : std::shared_ptr<TcpStoreClient>(*ConnectTo(*server, "", Soon(), nullptr, tls));
    for (int j = 0; j < 4; ++j) {
      const auto got = mine->Get("large", Soon());
      right += got && *got == large;
    }
  });
  CHECK(right == 32);
}

TEST_CASE("tcp store with TLS: a server that goes is a lost store") {
  const auto tls = TlsOf(PskOf('k'));
  auto server = ServerWith(tls);
  const auto client = ClientOf(*server, tls);
  server.reset();
  const auto got = client->Get("key", Soon());
  REQUIRE(!got);
  CHECK(got.error().code() == ErrorCode::kStoreLost);
}

}  // namespace tcp_store_tls_test
}  // namespace rondo
