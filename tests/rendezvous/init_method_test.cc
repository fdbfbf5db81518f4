// Tests a table of rendezvous URLs, and the store that each URL opens.
#include "rendezvous/url/init_method.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/membership.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/url/open_store.h"
#include "tests/rendezvous/stores.h"
#include "tests/support/threads.h"

namespace rondo {
namespace init_method_test {

using Variables = std::map<std::string, std::string>;

Result<InitMethod> Parse(const std::string& url, const Variables& variables = {}) {
  return ParseInitMethod(url, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST_CASE("URLs that are right") {
  struct Row {
    std::string url;
    std::string meaning;
    std::optional<Rank> rank;
    std::optional<int> world_size;
  };
  const std::vector<Row> rows{
      {"tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500", {}, {}},
      {"tcp://node-1.cluster:29500/", "tcp://node-1.cluster:29500", {}, {}},
      {"tcp://[::1]:29500", "tcp://[::1]:29500", {}, {}},
      {"tcp://[fe80::1%eth0]:1", "tcp://[fe80::1%eth0]:1", {}, {}},
      {"tcp://localhost:0?rank=2&world_size=4", "tcp://localhost:0", 2, 4},
      {"tcp://a:65535?world_size=1", "tcp://a:65535", {}, 1},
      {"file:///tmp/some where", "file:///tmp/some where", {}, {}},
      {"file:///x?rank=0", "file:///x", 0, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.url);
    const auto method = Parse(row.url);
    REQUIRE_MESSAGE(method.has_value(), method.error().ToString());
    CHECK(method->ToString() == row.meaning);
    CHECK(method->rank == row.rank);
    CHECK(method->world_size == row.world_size);
    CHECK(!method->external_store);
  }
}

TEST_CASE("URLs that are wrong: the error names the part and what was expected") {
  struct Row {
    std::string url;
    std::string says;
  };
  const std::vector<Row> rows{
      {"", "tcp://HOST:PORT"},
      {"10.0.0.1:29500", "is not a URL"},
      {"http://a:1", "scheme 'http'"},
      {"tcp://", "lacks ':PORT'"},
      {"tcp://a", "lacks ':PORT'"},
      {"tcp://:29500", "lacks a host"},
      {"tcp://a:", "port ''"},
      {"tcp://a:65536", "port '65536'"},
      {"tcp://a:-1", "port '-1'"},
      {"tcp://a:12x", "port '12x'"},
      {"tcp://::1:29500", "brackets"},
      {"tcp://[::1:29500", "']'"},
      {"tcp://[::1]", "lacks ':PORT'"},
      {"tcp://[[]:1", "bracket"},
      {"tcp://a]:1", "bracket"},
      {"tcp://a b:1", "blank"},
      {std::string("tcp://a\0b:1", 11), "control character"},
      {"tcp://a:1?rank=-1", "rank in"},
      {"tcp://a:1?rank=", "a number from 0"},
      {"tcp://a:1?rank=two", "'two'"},
      {"tcp://a:1?world_size=0", "a number from 1"},
      {"tcp://a:1?rank=4&world_size=4", "rank 4 is outside 0..3"},
      {"tcp://a:1?size=4", "unknown parameter 'size'"},
      {"file://tmp/x", "absolute path"},
      {"file://", "absolute path"},
      {"env://host", "is not allowed after env://"},
      {"tcp://" + std::string(300, 'h') + ":1", "255"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.url);
    const auto method = Parse(row.url);
    REQUIRE(!method);
    CHECK(method.error().code() == ErrorCode::kInvalidArgument);
    CHECK_MESSAGE(method.error().message().find(row.says) != std::string::npos, method.error().message());
  }
}

TEST_CASE("The environment gives address, rank and world size; RONDO_ goes first, the URL before both") {
  const Variables torchrun{{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29400"}, {"RANK", "3"}, {"WORLD_SIZE", "8"}};
  auto method = Parse("env://", torchrun);
  REQUIRE(method);
  CHECK(method->ToString() == "tcp://[::1]:29400");
  CHECK(method->rank == 3);
  CHECK(method->world_size == 8);
  CHECK(!method->external_store);

  Variables both = torchrun;
  both["RONDO_RANK"] = "5";
  both["RONDO_MASTER_PORT"] = "1";
  both["RONDO_WORLD_SIZE"] = "";  // an empty variable counts as not set
  both["RONDO_EXTERNAL_STORE"] = "1";
  both["RONDO_JOIN"] = "1";
  method = Parse("env://?world_size=16", both);
  REQUIRE(method);
  CHECK(method->address.port == 1);
  CHECK(method->rank == 5);
  CHECK(method->world_size == 16);
  CHECK(method->external_store);
  CHECK(method->join);

  both["RONDO_RENDEZVOUS"] = "file:///tmp/x?rank=7";
  method = Parse("env://", both);
  REQUIRE(method);
  CHECK(method->ToString() == "file:///tmp/x");
  CHECK(method->rank == 7);
  CHECK(method->world_size == 8);
}

TEST_CASE("An environment that is wrong: the error names the variable") {
  const auto says = [](const Variables& variables) { return Parse("env://", variables).error().message(); };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  for (const char* part : {"MASTER_ADDR and MASTER_PORT", "OMPI_COMM_WORLD_RANK", "PMI_FD", "SLURM_STEP_ID",
                           "TORCHELASTIC_RUN_ID", "--rendezvous", "RONDO_RENDEZVOUS"}) {
    CHECK_MESSAGE(has(says({}), part), says({}));
  }
  CHECK(has(says({{"MASTER_ADDR", "a"}}), "MASTER_ADDR is set, but MASTER_PORT is not"));
  CHECK(has(says({{"MASTER_PORT", "1"}}), "MASTER_PORT is set, but MASTER_ADDR is not"));
  CHECK(has(says({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "x"}}), "variable MASTER_PORT is 'x'"));
  CHECK(has(says({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"RONDO_RANK", "x"}}), "variable RONDO_RANK is 'x'"));
  CHECK(has(says({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "0"}}), "variable WORLD_SIZE is '0'"));
  CHECK(has(says({{"RONDO_RENDEZVOUS", "env://"}}), "RONDO_RENDEZVOUS"));
  CHECK(has(ParseInitMethod("env://").error().message(), "environment"));
}

const Variables kSrun{{"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "3"},        {"SLURM_PROCID", "1"},
                      {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_CLUSTER_NAME", "big"}};

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST_CASE("env:// under a launcher: place, rank, world size and job are the launcher's") {
  const auto method = Parse("env://", kSrun);
  REQUIRE_MESSAGE(method.has_value(), method.error().ToString());
  CHECK(method->kind == InitMethod::Kind::kLaunch);
  CHECK(method->rank == 1);
  CHECK(method->world_size == 2);
  CHECK(method->job == "slurm/big/17.3/0");
  CHECK(method->ToString() == "env:// (srun of Slurm)");
  CHECK(method->Describe().find("rank 1 of 2, started by srun of Slurm (SLURM_STEP_ID)") == 0);
}

TEST_CASE("A place that was given by hand goes before the launcher's; ranks are still the launcher's") {
  for (const auto& [url, variables] : std::vector<std::pair<std::string, Variables>>{
           {"tcp://a:1", kSrun},
           {"env://", With(kSrun, {{"RONDO_RENDEZVOUS", "tcp://a:1"}})},
           {"env://", With(kSrun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})},
       }) {
    const auto method = Parse(url, variables);
    REQUIRE_MESSAGE(method.has_value(), method.error().ToString());
    CHECK(method->ToString() == "tcp://a:1");
    CHECK(method->rank == 1);
    CHECK(method->world_size == 2);
    CHECK(method->job.empty());
    CHECK(method->Describe() == "rank 1 of 2, started by srun of Slurm (SLURM_STEP_ID); rendezvous at tcp://a:1");
  }
  // A rank that was set by hand has precedence over the launcher's.
  const auto by_hand =
      Parse("env://", With(kSrun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}}));
  REQUIRE(by_hand);
  CHECK(by_hand->rank == 5);
  CHECK(by_hand->world_size == 8);
  // The launcher's rank does not apply in a world of another size.
  const auto other_world = Parse("tcp://a:1?world_size=4", kSrun);
  REQUIRE(other_world);
  CHECK(!other_world->rank);
}

TEST_CASE("What rondo run and torchrun say of themselves is not by hand") {
  const Variables inner{{"RONDO_LAUNCHER", "rondo run"}, {"RANK", "0"},        {"WORLD_SIZE", "1"},
                        {"MASTER_ADDR", "127.0.0.1"},    {"MASTER_PORT", "1"}, {"RONDO_JOB", "a"},
                        {"RONDO_STORE", "127.0.0.1:2"}};
  const auto method = Parse("env://", With(kSrun, inner));
  REQUIRE(method);
  CHECK(method->rank == 1);
  CHECK(method->world_size == 2);
  CHECK(method->job == "slurm/big/17.3/0");
}

TEST_CASE("A launcher's broken variables matter only where they are needed") {
  const Variables broken = With(kSrun, {{"SLURM_PROCID", "x"}});
  CHECK(Parse("tcp://a:1", broken));
  const auto method = Parse("env://", broken);
  REQUIRE(!method);
  CHECK(method.error().message().find("SLURM_PROCID of srun of Slurm is 'x'") != std::string::npos);
}

OpenStoreOptions Options(std::optional<Rank> rank, const std::string& job = "job") {
  OpenStoreOptions options;
  options.job = job;
  options.rank = rank;
  options.deadline = Soon();
  return options;
}

InitMethod Loopback(std::uint16_t port) { return *Parse("tcp://127.0.0.1:" + std::to_string(port)); }

TEST_CASE("Rank 0 serves, the others connect, in any order; rank 0 leaves last") {
  const HeldPort held;
  const InitMethod method = Loopback(held.port());
  Threads others(3, [&](int other) {
    auto opened = OpenStore(method, Options(1 + other));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
    CHECK(!opened->serves());
    CHECK(opened->store().WaitFor("from 0", Soon()));
    CHECK(opened->store().Add("seen", 1, Soon()));
    CHECK(opened->store().WaitFor("go", Soon()));
    CHECK(opened->Leave(Soon()));
  });
  auto zero = OpenStore(method, Options(0));
  REQUIRE_MESSAGE(zero.has_value(), zero.error().ToString());
  CHECK(zero->serves());
  REQUIRE(zero->store().Set("from 0", "", Soon()));
  while (*zero->store().Get("seen", Soon()) != "3") std::this_thread::yield();
  REQUIRE(zero->store().Set("go", "", Soon()));
  CHECK(zero->Leave(Soon()));
  CHECK(zero->Leave(Soon()));
  others.Join();
}

TEST_CASE("Rank 0 does not wait for the others for ever") {
  const HeldPort held;
  const InitMethod method = Loopback(held.port());
  auto zero = OpenStore(method, Options(0));
  REQUIRE(zero);
  const auto one = OpenStore(method, Options(1));
  REQUIRE(one);
  const Status left = zero->Leave(InMs(30));
  REQUIRE(!left);
  CHECK(left.error().code() == ErrorCode::kStoreTimeout);
  CHECK(left.error().message().find("1 processes") != std::string::npos);
  CHECK(one->store().Get("key", Soon()).error().code() == ErrorCode::kStoreLost);
}

TEST_CASE("A rank that is back for the next generation waits for the next store, and rank 0 not for it") {
  const HeldPort held;
  const InitMethod method = Loopback(held.port());
  auto zero = OpenStore(method, Options(0));
  REQUIRE(zero);
  auto one = OpenStore(method, Options(1));
  auto two = OpenStore(method, Options(2));
  REQUIRE(one);
  REQUIRE(two);
  zero->TakeNoMore();
  REQUIRE(two->store().Set("served", "on", Soon()));  // connected clients are still served
  CHECK(one->Leave(Soon()));
  std::thread back([&] {
    const auto again = OpenStore(method, Options(1));
    REQUIRE_MESSAGE(again.has_value(), again.error().ToString());
    CHECK(*again->store().Get("served", Soon()) == std::nullopt);
    CHECK(again->store().Set("back", "", Soon()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(two->Leave(Soon()));
  CHECK(zero->Leave(Soon()));
  const auto next = OpenStore(method, Options(0));
  REQUIRE_MESSAGE(next.has_value(), next.error().ToString());
  CHECK(next->store().WaitFor("back", Soon()));
  back.join();
}

TEST_CASE("A port that is taken is reported to rank 0 at once; with an external store it just connects") {
  const auto server = StartServer();
  InitMethod method = Loopback(server->port());
  const auto taken = OpenStore(method, Options(0));
  REQUIRE(!taken);
  CHECK(taken.error().code() == ErrorCode::kAddressInUse);
  CHECK(taken.error().message().find(server->address()) != std::string::npos);
  method.external_store = true;
  const auto external = OpenStore(method, Options(0));
  REQUIRE(external);
  CHECK(!external->serves());
}

TEST_CASE("An address without a server: the error at rank 0 says if the store was to be external") {
  const HeldPort held;
  InitMethod method = Loopback(held.port());
  for (const bool external : {true, false}) {
    method.external_store = external;
    OpenStoreOptions options = Options(external ? 0 : 1);
    options.deadline = SteadyClock().Now() + std::chrono::milliseconds(300);
    const auto opened = OpenStore(method, options);
    REQUIRE(!opened);
    CHECK(opened.error().code() == ErrorCode::kUnreachable);
    CHECK((opened.error().message().find("RONDO_EXTERNAL_STORE") != std::string::npos) == external);
  }
}

TEST_CASE("Without ranks one process serves, and the rendezvous has all of them") {
  const HeldPort held;
  const InitMethod method = Loopback(held.port());
  constexpr int kWorld = 5;
  std::atomic<int> serving{0};
  OnThreads(kWorld, [&](int i) {
    auto opened = OpenStore(method, Options(std::nullopt));
    REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
    if (opened->serves()) ++serving;
    const SteadyClock clock;
    JoinOptions join;
    join.world_size = kWorld;
    join.job = "job";
    join.deadline = Soon();
    join.self.host = "a";
    join.self.pid = static_cast<std::uint64_t>(i);
    join.self.instance = std::to_string(i);
    const auto membership = Join(opened->store(), clock, join);
    REQUIRE_MESSAGE(membership.has_value(), membership.error().ToString());
    CHECK(opened->Leave(Soon()));
  });
  CHECK(serving == 1);
}

TEST_CASE("Two jobs on one port: the second job's ranks learn whose store it is") {
  const HeldPort held;
  const InitMethod method = Loopback(held.port());
  const auto zero = OpenStore(method, Options(0, "first"));
  REQUIRE(zero);
  const auto intruder = OpenStore(method, Options(1, "second"));
  REQUIRE(!intruder);
  CHECK(intruder.error().code() == ErrorCode::kVersionMismatch);
  CHECK(intruder.error().message().find("'first'") != std::string::npos);
}

TEST_CASE("A file store opens from its URL, and Leave is nothing to wait for") {
  const TemporaryDirectory directory;
  const InitMethod method = *Parse("file://" + directory.File("store"));
  auto zero = OpenStore(method, Options(0));
  REQUIRE(zero);
  const auto one = OpenStore(method, Options(1));
  REQUIRE(one);
  REQUIRE(zero->store().Set("key", "value", Soon()));
  CHECK(*one->store().Get("key", Soon()) == "value");
  CHECK(zero->Leave(Soon()));
}

}  // namespace init_method_test
}  // namespace rondo
