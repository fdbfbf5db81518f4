// Connect when one rank cannot take part: the other ranks get the reason, instead of waiting or reporting a dead rank.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/net/ports.h"
#include "collectives/connect.h"
#include "tests/support/own_places.h"
#include "tests/support/status_text.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace connect_failures_test {

using namespace std::chrono_literals;

bool Has(const Error& error, const std::string& part) { return error.ToString().find(part) != std::string::npos; }

Environment Variables(const std::string& name, const std::string& value) {
  return [=](const std::string& asked) { return asked == name ? std::optional<std::string>(value) : std::nullopt; };
}

ConnectOptions RankOf(Rank rank, const std::string& url) {
  ConnectOptions options;
  options.rendezvous = url;
  options.rank = rank;
  options.world_size = 2;
  options.timeout = 30s;
  options.path = Path::kTcp;
  return options;
}

// Returns the errors of two ranks. Rank `broken` is given an address that this machine does not have.
std::array<Error, 2> WithoutAddress(Rank broken, const std::string& url) {
  std::array<Error, 2> errors{Error(ErrorCode::kInternal, "none"), Error(ErrorCode::kInternal, "none")};
  std::array<std::thread, 2> threads;
  for (Rank rank = 0; rank < 2; ++rank) {
    threads[static_cast<std::size_t>(rank)] = std::thread([&, rank] {
      ConnectOptions options = RankOf(rank, url);
      if (rank == broken) options.addresses = {"192.0.2.1"};
      const auto communicator = Connect(options);
      if (!communicator) errors[static_cast<std::size_t>(rank)] = communicator.error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST_CASE("Where one rank cannot listen the others fail at once, with its name and its reason") {
  for (const Rank broken : {0, 1}) {
    const TemporaryDirectory folder;
    const HeldPort port;
    for (const std::string& url : {folder.StoreUrl(), port.StoreUrl()}) {
      CAPTURE(broken);
      CAPTURE(url);
      const auto began = std::chrono::steady_clock::now();
      for (const Error& error : WithoutAddress(broken, url)) {
        CAPTURE(error.ToString());
        CHECK(error.code() == ErrorCode::kInvalidArgument);
        CHECK(error.culprit() == broken);
        CHECK(Has(error, "rank " + std::to_string(broken) + ", host "));
        CHECK(Has(error, "cannot take part: no interface has the address 192.0.2.1"));
      }
      CHECK(std::chrono::steady_clock::now() - began < 20s);  // well before the timeout of 30 s
    }
  }
}

TEST_CASE("A range of ports comes from the options, else from RONDO_PORTS, which is named where it is none") {
  const TemporaryDirectory folder;
  ConnectOptions options = RankOf(0, folder.StoreUrl());
  options.environment = Variables("RONDO_PORTS", "29500..29510");
  auto communicator = Connect(options);
  REQUIRE_FALSE(communicator);
  CHECK(communicator.error().code() == ErrorCode::kInvalidArgument);
  CHECK(Has(communicator.error(), "variable RONDO_PORTS: expected FIRST-LAST"));

  options.ports = PortRange{.first = 5, .last = 4};
  communicator = Connect(options);
  REQUIRE_FALSE(communicator);
  CHECK(Has(communicator.error(), "the range of ports 5 to 4 ends before it begins"));

  // The range has only one port, and this test already listens on it. So Connect must fail, both for the option and for
  // the variable.
  const auto listener = ListenOnPort({});
  REQUIRE(listener);
  const std::uint16_t taken = LocalSocketAddress(listener->get()).port;
  for (const bool by_option : {true, false}) {
    options.ports = by_option ? std::optional(PortRange{.first = taken, .last = taken}) : std::nullopt;
    options.environment = by_option ? Environment() : Variables("RONDO_PORTS", std::to_string(taken));
    communicator = Connect(options);
    REQUIRE_FALSE(communicator);
    CHECK(communicator.error().code() == ErrorCode::kAddressInUse);
    CHECK(
        Has(communicator.error(), "none of the 1 ports " + std::to_string(taken) + " (--ports, RONDO_PORTS) is free"));
  }
}

}  // namespace connect_failures_test
}  // namespace rondo
