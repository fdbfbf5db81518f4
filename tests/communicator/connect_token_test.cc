// Ranks that connect with the job's token, and clients without the right token, through Connect only. Ranks are threads
// that behave like processes.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/access.h"
#include "collectives/connect.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/support/connected_ranks.h"
#include "tests/support/own_places.h"
#include "tests/support/threads.h"

namespace rondo {
namespace connect_token_test {

using namespace std::chrono_literals;

std::unique_ptr<TcpStoreServer> ServerWith(std::string_view token) {
  TcpStoreServer::Options options;
  options.host = "127.0.0.1";
  if (!token.empty()) options.token = *JobToken::Make(token, "the token");
  auto server = TcpStoreServer::Start(options);
  REQUIRE(server);
  return *std::move(server);
}

ConnectOptions At(const std::string& rendezvous) {
  ConnectOptions options;
  options.rendezvous = rendezvous;
  options.external_store = true;
  options.addresses = {"127.0.0.1"};
  return options;
}

// Connects one rank for each token, and returns the results by rank.
std::vector<Connected> ConnectAll(const ConnectOptions& common, const std::vector<std::string>& tokens) {
  std::vector<ConnectOptions> each(tokens.size(), common);
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) each[rank].token = tokens[rank];
  return ConnectEach(std::move(each));
}

// Checks that all ranks have connected, and that together they compute the right sum of their numbers.
void CheckTheySum(std::vector<Connected>& ranks) {
  std::vector<std::int64_t> sums(ranks.size(), 0);
  for (const Connected& rank : ranks) REQUIRE_MESSAGE(rank, rank.error().ToString());
  OnThreads(ranks.size(), [&](std::size_t rank) {
    Communicator& communicator = **ranks[rank];
    std::int64_t& sum = sums[rank];
    const std::int64_t mine = std::int64_t{1} << rank;
    if (!communicator.AllReduce(&mine, &sum, 1, DataType::kInt64, ReduceOp::kSum)) sum = -1;
    if (!communicator.Close()) sum = -2;
  });
  for (const std::int64_t sum : sums) CHECK(sum == (std::int64_t{1} << ranks.size()) - 1);
}

#define CHECK_HAS(text, part) CHECK_MESSAGE((text).find(part) != std::string::npos, text)

TEST_CASE("Three ranks with the same token connect and sum, over every path, in a store over TCP and in a file") {
  for (const Path path : {Path::kTcp, Path::kAuto}) {
    const TemporaryDirectory directory;
    const auto server = ServerWith("secret");
    for (const std::string& url : {directory.StoreUrl(), server->Describe()}) {
      CAPTURE(url);
      ConnectOptions options = At(url);
      options.path = path;
      auto ranks = ConnectAll(options, {"secret", "secret", "secret"});
      CheckTheySum(ranks);
    }
  }
}

TEST_CASE("A store that rank 0 serves has the token, too") {
  const HeldPort port;
  ConnectOptions options = At(port.StoreUrl());
  options.external_store = false;
  auto ranks = ConnectAll(options, {"secret", "secret"});
  CheckTheySum(ranks);
}

TEST_CASE("A rank with another token is refused at the store, and the others learn which rank is missing") {
  for (const std::string wrong : {"Secret", ""}) {
    CAPTURE(wrong);
    const auto server = ServerWith("secret");
    ConnectOptions options = At(server->Describe());
    options.timeout = 5s;
    const auto ranks = ConnectAll(options, {"secret", "secret", wrong});
    REQUIRE_FALSE(ranks[2]);
    CHECK(ranks[2].error().code() == ErrorCode::kAuth);
    CHECK_HAS(ranks[2].error().message(), server->address());
    CHECK_HAS(ranks[2].error().message(), wrong.empty()
                                              ? "the store has a job token, and this process has none"
                                              : "this process (RONDO_TOKEN) and the store have different job tokens");
    for (const Rank rank : {0, 1}) {
      const Connected& other = ranks[static_cast<std::size_t>(rank)];
      REQUIRE_FALSE(other);
      CHECK(other.error().code() == ErrorCode::kRendezvousTimeout);
      CHECK(other.error().culprit() == 2);
    }
  }
}

// This test fails if ranks do not compare the token in the rendezvous, because then the rendezvous succeeds, and the
// ranks fail only at their first call.
TEST_CASE("Over a file ranks with another token, or without one, are reported by its fingerprint, all of them") {
  for (const std::string wrong : {"Secret", ""}) {
    CAPTURE(wrong);
    const TemporaryDirectory directory;
    const auto ranks = ConnectAll(At(directory.StoreUrl()), {"secret", wrong});
    for (const Connected& rank : ranks) {
      REQUIRE_FALSE(rank);
      CHECK(rank.error().code() == ErrorCode::kVersionMismatch);
      CHECK_HAS(rank.error().ToString(), "token_fingerprint is '");
      CHECK_HAS(rank.error().ToString(), (*JobToken::Make("secret", ""))->Fingerprint());
      CHECK_HAS(rank.error().ToString(), wrong.empty() ? "'none'" : (*JobToken::Make("Secret", ""))->Fingerprint());
      CHECK(rank.error().ToString().find("ecret'") == std::string::npos);
    }
  }
}

TEST_CASE("Ranks have one rendezvous after the other at one place, one generation after the other, however soon") {
  for (const bool file : {false, true}) {
    CAPTURE(file);
    const HeldPort held;
    const TemporaryDirectory folder;
    OnThreads(4, [&](Rank rank) {
      ConnectOptions options = At(file ? folder.StoreUrl() : held.StoreUrl());
      options.external_store = false;
      options.rank = rank;
      options.world_size = 4;
      options.timeout = 10s;
      for (; options.generation < 30; ++options.generation) {
        const auto met = Connect(options);  // this communicator is destroyed at once, without a goodbye
        CHECK_MESSAGE(met.has_value(), met.error().ToString());
      }
    });
  }
}

TEST_CASE("The token comes from the environment, where the caller gives none") {
  const auto server = ServerWith("env-secret");
  ConnectOptions options = At(server->Describe());
  options.world_size = 1;
  options.rank = 0;
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "RONDO_TOKEN") return "env-secret";
    return std::nullopt;
  };
  const auto one = Connect(options);
  REQUIRE_MESSAGE(one, one.error().ToString());
  CHECK((*one)->Close());
  options.token = "given";
  options.generation = 1;
  CHECK(Connect(options).error().code() == ErrorCode::kAuth);
}

TEST_CASE("A token of a wrong shape is refused before anything is done with it") {
  const TemporaryDirectory directory;
  ConnectOptions options = At(directory.StoreUrl());
  options.world_size = 1;
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "RONDO_TOKEN") return "";
    return std::nullopt;
  };
  const auto empty = Connect(options);
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code() == ErrorCode::kInvalidArgument);
  CHECK_HAS(empty.error().message(), "RONDO_TOKEN");
  options.token = std::string(2000, 'x');
  const auto long_one = Connect(options);
  REQUIRE_FALSE(long_one);
  CHECK(long_one.error().code() == ErrorCode::kInvalidArgument);
  CHECK(long_one.error().message().find("xxx") == std::string::npos);
}

}  // namespace connect_token_test
}  // namespace rondo
