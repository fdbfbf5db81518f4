// Tests whole jobs with TLS, through Connect only. Ranks are threads that behave like processes. Ranks that belong to
// the job compute right sums over every path. A rank that does not belong to it gets an error in time, and so do the
// other ranks.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/access.h"
#include "collectives/connect.h"
#include "collectives/rebuild.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/tls_settings.h"
#include "tests/support/connected_ranks.h"
#include "tests/support/fault_row.h"
#include "tests/support/own_places.h"
#include "tests/support/threads.h"
#include "tests/support/tls_files.h"

namespace rondo {
namespace connect_tls_test {

using testing::PskOf;
using testing::TlsFiles;
using namespace std::chrono_literals;

using Connected = Result<std::unique_ptr<Communicator>>;
using Ranks = std::vector<std::optional<Connected>>;

std::unique_ptr<TcpStoreServer> StoreWith(const TlsOptions& tls, std::shared_ptr<const JobToken> token = nullptr) {
  TcpStoreServer::Options options;
  options.host = "127.0.0.1";
  options.token = std::move(token);
  options.tls = *TlsContext::Make(tls);
  auto server = TcpStoreServer::Start(options);
  REQUIRE_MESSAGE(server, server.error().ToString());
  return std::move(*server);
}

ConnectOptions At(const std::string& url) {
  ConnectOptions options;
  options.rendezvous = url;
  options.external_store = true;
  options.addresses = {"127.0.0.1"};
  return options;
}

// Calls `body` once for each rank, each on its own thread.
void ForEach(std::size_t ranks, const std::function<void(std::size_t)>& body) { OnThreads(ranks, body); }

Ranks ConnectTlsRanks(std::vector<ConnectOptions> each) {
  Ranks ranks;
  for (Connected& rank : ConnectEach(std::move(each))) ranks.emplace_back(std::move(rank));
  return ranks;
}

// Connects one rank for each entry of `tls`.
Ranks ConnectWithTls(const ConnectOptions& common, const std::vector<TlsOptions>& tls) {
  std::vector<ConnectOptions> each(tls.size(), common);
  for (std::size_t rank = 0; rank < tls.size(); ++rank) each[rank].tls = tls[rank];
  return ConnectTlsRanks(std::move(each));
}

// Sums small and large vectors, twice, and checks every element.
std::string Sum(Communicator& communicator) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}, std::size_t{7}}) {
    std::vector<std::int64_t> in(count), out(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::int64_t>(i) + communicator.rank();
    if (auto done = communicator.AllReduce(in.data(), out.data(), count, DataType::kInt64, ReduceOp::kSum); !done) {
      return done.error().ToString();
    }
    const std::int64_t world = communicator.world_size();
    for (std::size_t i = 0; i < count; ++i) {
      if (out[i] != static_cast<std::int64_t>(i) * world + world * (world - 1) / 2) return "a wrong sum";
    }
  }
  return "right";
}

void CheckSums(Ranks& ranks) {
  std::vector<std::string> sums(ranks.size());
  for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
  ForEach(ranks.size(), [&](std::size_t rank) {
    Communicator& communicator = ***ranks[rank];
    sums[rank] = Sum(communicator);
    if (const Status closed = communicator.Close(); !closed) sums[rank] += ", " + closed.error().ToString();
  });
  for (const std::string& sum : sums) CHECK(sum == "right");
}

// Makes this rank detect that another rank is dead, so that a later rebuild does not wait for the dead rank. Returns ""
// on success.
std::string Notice(Communicator& communicator) {
  return Sum(communicator) == "right" ? "a sum without a rank that is dead" : "";
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("three ranks with one key sum over sockets, and beside shared memory") {
  for (const Path path : {Path::kTcp, Path::kAuto}) {
    const TlsOptions tls = PskOf('k');
    const auto store = StoreWith(tls);
    ConnectOptions options = At(store->Describe());
    options.path = path;
    Ranks ranks = ConnectWithTls(options, {tls, tls, tls});
    REQUIRE(*ranks[0]);
    CheckSums(ranks);
  }
}

TEST_CASE("three ranks with certificates of one authority sum, and paths say how they are kept") {
  TlsFiles files;
  const auto store = StoreWith(files.Member("ca", "store"));
  ConnectOptions options = At(store->Describe());
  options.path = Path::kTcp;
  Ranks ranks =
      ConnectWithTls(options, {files.Member("ca", "rank0"), files.Member("ca", "rank1"), files.Member("ca", "rank2")});
  for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
  std::vector<std::string> sums(3);
  ForEach(3, [&](std::size_t rank) { sums[rank] = Sum(***ranks[rank]); });
  const std::string paths = (**ranks[0])->DescribePaths();
  CHECK_MESSAGE(Has(paths, "TLS 1.3, TLS_AES_128_GCM_SHA256, certificates"), paths);
  CheckSums(ranks);
}

TEST_CASE("a store that rank 0 serves speaks TLS too, and all of it may stand in the environment") {
  const HeldPort port;
  ConnectOptions options = At(port.StoreUrl());
  options.external_store = false;
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "RONDO_TLS") return "psk";
    if (name == "RONDO_TLS_PSK") return std::string(64, 'e');
    return std::nullopt;
  };
  Ranks ranks(2);
  ForEach(2, [&](std::size_t rank) {
    ConnectOptions own = options;
    own.rank = static_cast<Rank>(rank);
    own.world_size = 2;
    ranks[rank] = Connect(own);
  });
  CheckSums(ranks);
}

TEST_CASE("a rank without TLS is refused at the store at once, and the others learn which rank is missing") {
  const TlsOptions tls = PskOf('k');
  const auto store = StoreWith(tls);
  ConnectOptions options = At(store->Describe());
  options.timeout = 3s;
  const Ranks ranks = ConnectWithTls(options, {tls, {}, tls});
  REQUIRE(!*ranks[1]);
  CHECK(ranks[1]->error().code() == ErrorCode::kAuth);
  CHECK_MESSAGE(Has(ranks[1]->error().ToString(), "the store requires TLS"), ranks[1]->error().ToString());
  StateFault(38, store->stats().auth_failed, ranks[1]->error());
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    REQUIRE(!*ranks[rank]);
    const Error& error = ranks[rank]->error();
    CHECK(error.code() == ErrorCode::kRendezvousTimeout);
    CHECK_MESSAGE(Has(error.ToString(), "1"), error.ToString());
  }
}

TEST_CASE("a rank with another key, or an expired certificate, gets that error at the store") {
  TlsFiles files;
  const TlsOptions old = files.Member("ca", "old", {.from = -std::chrono::hours(9), .until = -std::chrono::hours(1)});
  const struct {
    TlsOptions right, wrong;
    std::string words;
  } cases[] = {{PskOf('k'), PskOf('j'), "refused the pre-shared key"},
               {files.Member("ca", "fresh"), old, "refused this process's certificate: it has expired"}};
  std::unique_ptr<TcpStoreServer> stores[] = {StoreWith(cases[0].right), StoreWith(cases[1].right)};
  Ranks of_case[std::size(cases)];
  ForEach(std::size(cases), [&](std::size_t i) {  // runs the cases at the same time, because each waits for a timeout
    ConnectOptions options = At(stores[i]->Describe());
    options.timeout = 3s;
    of_case[i] = ConnectWithTls(options, {cases[i].right, cases[i].wrong});
  });
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto& each = cases[i];
    const auto& store = stores[i];
    const Ranks& ranks = of_case[i];
    REQUIRE(!*ranks[1]);
    CHECK(ranks[1]->error().code() == ErrorCode::kAuth);
    CHECK_MESSAGE(Has(ranks[1]->error().ToString(), each.words), ranks[1]->error().ToString());
    StateFault(38, store->stats().auth_failed, ranks[1]->error());
    REQUIRE(!*ranks[0]);
    CHECK(ranks[0]->error().code() == ErrorCode::kRendezvousTimeout);
  }
}

TEST_CASE("where the store is a file, too, the rendezvous reports that the modes of the ranks differ") {
  TlsFiles files;
  const TlsOptions tls = PskOf('k');
  ConnectOptions options = At("file://" + files.Write("store", ""));
  options.timeout = 4s;
  const Ranks ranks = ConnectWithTls(options, {tls, {}, tls});
  // Ranks that have failed close the file. So a rank that reads the file after all others have closed it finds no other
  // rank.
  int reports = 0;
  for (const auto& rank : ranks) {
    REQUIRE(!*rank);
    const Error& error = rank->error();
    if (error.code() == ErrorCode::kRendezvousTimeout) continue;
    CHECK(error.code() == ErrorCode::kVersionMismatch);
    CHECK_MESSAGE(Has(error.ToString(), "tls"), error.ToString());
    ++reports;
  }
  CHECK(reports >= 2);
}

TEST_CASE("what is wrong with the files is reported before anything begins") {
  TlsFiles files;
  TlsOptions tls = files.Member("ca", "rank");
  tls.key_file = "/nowhere/rank.key";
  ConnectOptions options = At("tcp://127.0.0.1:1");
  options.timeout = 10min;
  const Ranks ranks = ConnectWithTls(options, {tls});
  REQUIRE(!*ranks[0]);
  CHECK(ranks[0]->error().code() == ErrorCode::kInvalidArgument);
  CHECK_MESSAGE(Has(ranks[0]->error().ToString(), "/nowhere/rank.key"), ranks[0]->error().ToString());
}

TEST_CASE("what is rebuilt has TLS again") {
  const TlsOptions tls = PskOf('k');
  const auto store = StoreWith(tls);
  ConnectOptions options = At(store->Describe());
  options.path = Path::kTcp;
  options.rebuildable = true;
  Ranks ranks = ConnectWithTls(options, {tls, tls, tls});
  for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
  ranks[1].reset();  // destroyed without a goodbye
  std::vector<std::string> sums(3, "right");
  ForEach(3, [&](std::size_t rank) {
    if (rank == 1) return;
    if (sums[rank] = Notice(***ranks[rank]); !sums[rank].empty()) return;
    auto next = (**ranks[rank])->Rebuild({.min_ranks = 2});
    if (!next) {
      sums[rank] = next.error().ToString();
      return;
    }
    sums[rank] = Sum(**next);
    const std::string paths = (*next)->DescribePaths();
    if (!Has(paths, "TLS 1.3")) sums[rank] += ", but over " + paths;
    (void)(*next)->Close();
  });
  for (const std::string& sum : sums) CHECK(sum == "right");
}

// ---- the key is derived from the job's token ----

std::shared_ptr<const JobToken> TokenOf(std::string_view text) { return *JobToken::Make(text, "the token"); }

std::unique_ptr<TcpStoreServer> StoreByToken(std::string_view text) {
  const auto token = TokenOf(text);
  return StoreWith(*FindTls(TlsOptions{.mode = TlsMode::kPsk}, {}, token.get()), token);
}

// The options of a rank with these values in its environment; "": the variable is not set.
ConnectOptions WithEnvironment(ConnectOptions options, const std::string& tls, const std::string& token) {
  options.environment = [=](const std::string& name) -> std::optional<std::string> {
    const std::string value = name == "RONDO_TLS" ? tls : name == "RONDO_TOKEN" ? token : "";
    return value.empty() ? std::nullopt : std::optional(value);
  };
  return options;
}

TEST_CASE("psk and a token are enough: three ranks sum by the key that the token gives, over every path") {
  for (const Path path : {Path::kTcp, Path::kAuto}) {
    const auto store = StoreByToken("secret");
    ConnectOptions options = WithEnvironment(At(store->Describe()), "psk", "secret");
    options.path = path;
    Ranks ranks = ConnectTlsRanks({options, options, options});
    for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
    CheckSums(ranks);
    CHECK(store->stats().auth_failed == 0);
  }
}

TEST_CASE("psk and a token: what the ranks say to each other is TLS, and the store that rank 0 serves is too") {
  const HeldPort port;
  ConnectOptions options = WithEnvironment(At(port.StoreUrl()), "psk", "secret");
  options.external_store = false;
  options.path = Path::kTcp;
  Ranks ranks = ConnectTlsRanks({options, options});
  for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
  std::vector<std::string> sums(2);
  ForEach(2, [&](std::size_t rank) { sums[rank] = Sum(***ranks[rank]); });
  const std::string paths = (**ranks[0])->DescribePaths();
  CHECK_MESSAGE(Has(paths, "TLS 1.3, TLS_AES_128_GCM_SHA256, psk"), paths);
  CheckSums(ranks);
}

TEST_CASE(
    "psk and a token: who has another token, no TLS, or the key without the token, gets that error at the store") {
  const std::string key = FindTls(TlsOptions{.mode = TlsMode::kPsk}, {}, TokenOf("secret").get())->psk;
  const struct {
    std::string tls, token, words;
    bool has_key = false;
  } cases[] = {{"psk", "Secret", "refused the pre-shared key"},
               {"", "secret", "the store requires TLS"},
               {"psk", "", "the store has a job token, and this process has none", true}};
  std::vector<std::unique_ptr<TcpStoreServer>> stores;
  for (std::size_t i = 0; i < std::size(cases); ++i) stores.push_back(StoreByToken("secret"));
  Ranks of_case[std::size(cases)];
  ForEach(std::size(cases), [&](std::size_t i) {  // runs the cases at the same time, because each waits for a timeout
    const auto& wrong = cases[i];
    ConnectOptions options = At(stores[i]->Describe());
    options.timeout = 3s;
    const ConnectOptions right = WithEnvironment(options, "psk", "secret");
    ConnectOptions other = WithEnvironment(options, wrong.tls, wrong.token);
    if (wrong.has_key) other.tls = TlsOptions{.mode = TlsMode::kPsk, .psk = key};
    of_case[i] = ConnectTlsRanks({right, right, other});
  });
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto& wrong = cases[i];
    const auto& store = stores[i];
    const Ranks& ranks = of_case[i];
    CAPTURE(wrong.words);
    REQUIRE(!*ranks[2]);
    CHECK(ranks[2]->error().code() == ErrorCode::kAuth);
    CHECK_MESSAGE(Has(ranks[2]->error().ToString(), wrong.words), ranks[2]->error().ToString());
    CHECK(store->stats().auth_failed == 1);
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
      REQUIRE(!*ranks[rank]);
      CHECK(ranks[rank]->error().code() == ErrorCode::kRendezvousTimeout);
      CHECK(ranks[rank]->error().culprit() == 2);
    }
  }
}

TEST_CASE("psk without a key and without a token is a wrong argument that names both variables") {
  ConnectOptions options = WithEnvironment(At("tcp://127.0.0.1:1"), "psk", "");
  options.timeout = 10min;  // the error must come without waiting for this timeout
  const Ranks ranks = ConnectTlsRanks({options});
  REQUIRE(!*ranks[0]);
  CHECK(ranks[0]->error().code() == ErrorCode::kInvalidArgument);
  CHECK_MESSAGE(Has(ranks[0]->error().ToString(), "RONDO_TOKEN or RONDO_TLS_PSK"), ranks[0]->error().ToString());
}

TEST_CASE("psk and a token: a rank dies, a joiner takes its place, and all of it is TLS again") {
  const auto store = StoreByToken("secret");
  ConnectOptions options = WithEnvironment(At(store->Describe()), "psk", "secret");
  options.path = Path::kTcp;
  options.rebuildable = true;
  Ranks ranks = ConnectTlsRanks({options, options, options});
  for (auto& rank : ranks) REQUIRE_MESSAGE(*rank, rank->error().ToString());
  ranks[1].reset();  // destroyed without a goodbye
  std::vector<std::string> sums(3);
  ForEach(3, [&](std::size_t rank) {
    Connected next = tl::unexpected(Error(ErrorCode::kInternal, ""));
    if (rank == 1) {
      ConnectOptions joiner = options;
      joiner.join = true;
      next = Connect(joiner);
    } else {
      if (sums[rank] = Notice(***ranks[rank]); !sums[rank].empty()) return;
      next = (**ranks[rank])->Rebuild({.min_ranks = 3, .max_ranks = 3, .settle = 25s});
    }
    if (!next) {
      sums[rank] = next.error().ToString();
      return;
    }
    sums[rank] = Sum(**next);
    const std::string paths = (*next)->DescribePaths();
    if (!Has(paths, "TLS 1.3")) sums[rank] += ", but over " + paths;
    (void)(*next)->Close();
  });
  for (const std::string& sum : sums) CHECK(sum == "right");
}

}  // namespace connect_tls_test
}  // namespace rondo
