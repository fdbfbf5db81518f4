// Tests exchanges over a real socket pair. The other end gives the answers that were recorded from Hydra and Slurm, or
// wrong answers. tests/launchers/run tests with the real launchers.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/launchers/exchange.h"
#include "rendezvous/launchers/pmi1_protocol.h"
#include "rendezvous/launchers/pmi2_protocol.h"
#include "tests/rendezvous/stores.h"

namespace rondo {
namespace pmi_exchange_test {

struct Turn {
  std::string asked;
  std::string answer;
};

// The launcher's end of the socket. It expects each request byte for byte and sends the answer.
class Server {
 public:
  explicit Server(std::vector<Turn> turns) {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_.data()) == 0);
    thread_ = std::thread([this, turns = std::move(turns)] {
      for (const Turn& turn : turns) {
        std::string asked(turn.asked.size(), '\0');
        if (recv(fds_[1], asked.data(), asked.size(), MSG_WAITALL) != static_cast<ssize_t>(asked.size())) return;
        CHECK(asked == turn.asked);
        send(fds_[1], turn.answer.data(), turn.answer.size(), MSG_NOSIGNAL);
      }
    });
  }
  ~Server() {
    Finish();
    close(fds_[0]);
  }
  // Waits until all requests were received and answered, then closes the launcher's end.
  void Finish() {
    if (!thread_.joinable()) return;
    thread_.join();
    close(fds_[1]);
  }
  int fd() const { return fds_[0]; }

 private:
  std::array<int, 2> fds_{};
  std::thread thread_;
};

Launched By(Launched::Way way, const Server& server, Rank rank) {
  Launched launch;
  launch.launcher = "mpiexec of MPICH";
  launch.way = way;
  launch.fd = server.fd();
  launch.rank = rank;
  launch.world_size = 2;
  launch.job = "slurm/big/6.0/0";
  launch.pmi_job = "6.0";
  return launch;
}

Result<std::unique_ptr<Exchange>> Open(const Launched& launch, TimePoint deadline = Soon()) {
  return OpenExchange(launch, std::make_shared<const SteadyClock>(), deadline);
}

const std::vector<Turn> kPmi1Hello{{pmi1::Init(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
                                   {pmi1::GetMyKvsName(), "cmd=my_kvsname kvsname=kvs_1_0\n"}};
const Turn kPmi1Goodbye{pmi1::Finalize(), "cmd=finalize_ack\n"};
// A message in Slurm's form: the length is padded on the right.
std::string Message(const std::string& body) { return fmt::format("{:<6}{}", body.size(), body); }

std::vector<Turn> Then(std::vector<Turn> turns, const std::vector<Turn>& more) {
  turns.insert(turns.end(), more.begin(), more.end());
  return turns;
}

TEST_CASE("By PMI-1 rank 0 puts its line before the barrier, all get it after, and say goodbye") {
  Server zero(Then(kPmi1Hello, {{pmi1::Put("kvs_1_0", "rondo-0", "at:a:1"), "cmd=put_result rc=0 msg=success\n"},
                                {pmi1::BarrierIn(), "cmd=barrier_out\n"},
                                {pmi1::Get("kvs_1_0", "rondo-0"), "cmd=get_result rc=0 value=at:a:1\n"},
                                kPmi1Goodbye}));
  auto exchange = Open(By(Launched::Way::kPmi1, zero, 0));
  REQUIRE_MESSAGE(exchange.has_value(), exchange.error().ToString());
  CHECK((*exchange)->job() == "mpich/kvs_1_0");
  CHECK(*(*exchange)->Share("rondo-0", "at:a:1", Soon()) == "at:a:1");

  Server one(Then(kPmi1Hello, {{pmi1::BarrierIn(), "cmd=barrier_out\n"},
                               {pmi1::Get("kvs_1_0", "rondo-0"), "cmd=get_result rc=0 value=at:a:1\n"},
                               kPmi1Goodbye}));
  auto other = Open(By(Launched::Way::kPmi1, one, 1));
  REQUIRE(other);
  CHECK(*(*other)->Share("rondo-0", std::nullopt, Soon()) == "at:a:1");
}

TEST_CASE("By PMI-2 as by PMI-1, with a fence for the barrier") {
  const auto hello = [](Rank rank) {
    return std::vector<Turn>{{pmi2::Init(), "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"},
                             {pmi2::FullInit("6.0", rank), Message("cmd=fullinit-response;rc=0;rank=1;size=2;")}};
  };
  const std::vector<Turn> rest{
      {pmi2::KvsFence(), Message("cmd=kvs-fence-response;rc=0;")},
      {pmi2::KvsGet("6.0", "rondo-0"), Message("cmd=kvs-get-response;rc=0;found=TRUE;value=at:a:1;")},
      {pmi2::Finalize(), Message("cmd=finalize-response;rc=0;")}};
  Server zero(Then(Then(hello(0), {{pmi2::KvsPut("rondo-0", "at:a:1"), Message("cmd=kvs-put-response;rc=0;")}}), rest));
  auto exchange = Open(By(Launched::Way::kPmi2, zero, 0));
  REQUIRE_MESSAGE(exchange.has_value(), exchange.error().ToString());
  CHECK((*exchange)->job() == "slurm/big/6.0/0");
  CHECK(*(*exchange)->Share("rondo-0", "at:a:1", Soon()) == "at:a:1");

  Server one(Then(hello(1), rest));
  auto other = Open(By(Launched::Way::kPmi2, one, 1));
  REQUIRE_MESSAGE(other.has_value(), other.error().ToString());
  CHECK(*(*other)->Share("rondo-0", std::nullopt, Soon()) == "at:a:1");
}

TEST_CASE("A process that fails after its first request says goodbye all the same") {
  // The exchange must send the finalize request, because without it the server's thread, and this test, would never
  // end.
  Server server(Then(kPmi1Hello, {kPmi1Goodbye}));
  { REQUIRE(Open(By(Launched::Way::kPmi1, server, 1))); }
  server.Finish();
}

TEST_CASE("A barrier that some never come to ends at the deadline") {
  Server server(Then(kPmi1Hello, {{pmi1::BarrierIn(), ""}, kPmi1Goodbye}));
  auto exchange = Open(By(Launched::Way::kPmi1, server, 1));
  REQUIRE(exchange);
  const auto shared = (*exchange)->Share("rondo-0", std::nullopt, InMs(30));
  REQUIRE(!shared);
  CHECK(shared.error().code() == ErrorCode::kRendezvousTimeout);
  CHECK(shared.error().message().find("PMI_FD=") != std::string::npos);
  CHECK(shared.error().message().find("mpiexec of MPICH") != std::string::npos);
}

TEST_CASE("A launcher that has closed its end gives the error that there has been a rendezvous, and what to do") {
  Server server({});
  server.Finish();
  const auto exchange = Open(By(Launched::Way::kPmi1, server, 0));
  REQUIRE(!exchange);
  CHECK(exchange.error().code() == ErrorCode::kStale);
  for (const char* part : {"PMI_FD=", "one rendezvous", "--rendezvous", "RONDO_RENDEZVOUS"}) {
    CHECK_MESSAGE(exchange.error().message().find(part) != std::string::npos, exchange.error().message());
  }
}

TEST_CASE("A launcher that dies in between is lost at once") {
  Server server(kPmi1Hello);
  auto exchange = Open(By(Launched::Way::kPmi1, server, 1));
  REQUIRE(exchange);
  server.Finish();
  CHECK((*exchange)->Share("rondo-0", std::nullopt, Soon()).error().code() == ErrorCode::kStoreLost);
}

TEST_CASE("A launcher that refuses, or speaks something else, is reported with its words") {
  Server refuses({{pmi1::Init(), "cmd=response_to_init rc=-1 msg=version_mismatch\n"}});
  const auto refused = Open(By(Launched::Way::kPmi1, refuses, 0));
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kProtocol);
  CHECK(refused.error().message().find("version_mismatch") != std::string::npos);

  Server foreign_server({{pmi1::Init(), "220 smtp ready\n"}});
  const auto strange = Open(By(Launched::Way::kPmi1, foreign_server, 0));
  REQUIRE(!strange);
  CHECK(strange.error().code() == ErrorCode::kProtocol);
}

TEST_CASE("A rank 0 that published nothing under this name is reported, not taken for an address") {
  Server server(Then(kPmi1Hello, {{pmi1::BarrierIn(), "cmd=barrier_out\n"},
                                  {pmi1::Get("kvs_1_0", "rondo-7"), "cmd=get_result rc=-1 msg=key_rondo-7_not_found\n"},
                                  kPmi1Goodbye}));
  auto exchange = Open(By(Launched::Way::kPmi1, server, 1));
  REQUIRE(exchange);
  const auto shared = (*exchange)->Share("rondo-7", std::nullopt, Soon());
  REQUIRE(!shared);
  CHECK(shared.error().message().find("key_rondo-7_not_found") != std::string::npos);
}

}  // namespace pmi_exchange_test
}  // namespace rondo
