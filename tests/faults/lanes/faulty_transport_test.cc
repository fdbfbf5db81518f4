// Tests every kind of fault of a fault plan with communicators, over the in-process transport. Each test checks what is
// injected, that the fault fired, and the ranks' errors. (The conformance suite checks that the lane contract holds.)
#include "transport/fault/faulty_transport.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/fault_row.h"
#include "tests/support/ranks.h"
#include "transport/fault/fault_plan.h"
#include "transport/inproc/inproc.h"

namespace rondo::fault {
namespace faulty_transport_test {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 2'000;  // so few that slices of one byte are fast enough on a busy machine

// Ranks of one network, each with a faulty transport. All use the same plan.
struct Job {
  explicit Job(int ranks, std::string_view text, const InprocOptions& inproc = {}) : network(ranks, inproc) {
    auto plan = ParseFaultPlan(text);
    REQUIRE_MESSAGE(plan, plan.error().ToString());
    injector = std::make_shared<FaultInjector>(*std::move(plan),
                                               InjectorOptions{.kill = [this](Rank rank) { network.Kill(rank); }});
  }
  // Runs `body` on every rank and returns each result.
  std::vector<Status> Run(const std::function<Status(Communicator&)>& body, Duration timeout = 20s) {
    std::vector<Status> statuses(static_cast<std::size_t>(network.world_size()));
    OnRanks(
        network, [&](Communicator& c) { statuses[static_cast<std::size_t>(c.rank())] = body(c); },
        [&](CommunicatorOptions& options) {
          auto faulty = MakeFaultyTransport(options.transport, injector);
          REQUIRE(faulty);
          options.transport = *faulty;
          options.timeout = timeout;
          options.checksums = checksums;
          // If a lane moves bytes in slices, its rank polls again for each slice. If ranks yielded in between, each
          // byte would take milliseconds on a busy machine.
          options.wait_policy = WaitPolicy{};
          // The limit is small, so that pushed and announced transfers occur if a lane supports them.
          options.windows_from_bytes = 64;
        });
    return statuses;
  }
  std::uint64_t fired() const { return injector->fired(0).count(); }

  InprocNetwork network;
  std::shared_ptr<FaultInjector> injector;
  bool checksums = false;
};

Status Sum(Communicator& c, Duration timeout = 20s) {
  std::vector<std::int32_t> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<std::int32_t>(i) + c.rank();
  Status status = c.AllReduce(values.data(), values.data(), kCount, DataType::kInt32, ReduceOp::kSum,
                              {.timeout = timeout, .algorithm = Algorithm::kRing});
  if (!status) return status;
  const int world = c.world_size();
  for (std::size_t i = 0; i < kCount; ++i)
    if (values[i] != world * static_cast<std::int32_t>(i) + world * (world - 1) / 2)
      return Fail(ErrorCode::kInternal, "element {} is {}", i, values[i]);
  return {};
}

Status SumAndClose(Communicator& c) {
  const Status status = Sum(c);
  return status ? c.Close() : status;
}

std::string TextOf(const std::vector<Status>& statuses) {
  std::string text;
  for (const Status& status : statuses) text += "\n  " + rondo::TextOf(status);
  return text;
}

TEST_CASE("an empty plan changes nothing") {
  Job job(3, "");
  const auto statuses = job.Run(SumAndClose);
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
  CHECK(job.injector->fired() == 0);
}

TEST_CASE("slices and stalls that end change no bit, on every kind of lane") {
  const InprocOptions kinds[] = {
      {},
      {.ring_bytes = 4096, .late_release = true},
      {.ring_bytes = 4096, .reluctant = true},
      {.reluctant = true, .push = true},
  };
  for (const InprocOptions& kind : kinds) {
    for (const char* plan : {"slice@all:7", "slice@lane(0->1):50", "stall@all:bytes=1000,for_ms=5",
                             "stall@lane(1->2):bytes=0,for_ms=3; slice@lane(2->0):64; stall@all:bytes=999,for_ms=1"}) {
      CAPTURE(plan);
      Job job(3, plan, kind);
      const auto statuses = job.Run(SumAndClose);
      CAPTURE(TextOf(statuses));
      CAPTURE(job.injector->Describe());
      StateFault(12, job.injector->fired(), statuses, {.path = "inproc"});
      for (const Status& status : statuses) CHECK(status.has_value());
      for (std::size_t fault = 0; fault < job.injector->plan().faults.size(); ++fault)
        CHECK(job.injector->fired(fault).count() > 0);
    }
  }
}

TEST_CASE("a lane that is cut fails all ranks with one account, after exactly so many bytes") {
  for (const char* plan : {"cut@lane(0->1):bytes=0", "cut@lane(0->1):bytes=100", "cut@lane(0->1):bytes=5000"}) {
    CAPTURE(plan);
    Job job(3, plan);
    const auto statuses = job.Run(SumAndClose);
    CHECK(job.fired() == 1);
    StateFault(8, job.fired(), statuses, {.path = "inproc"});
    CAPTURE(TextOf(statuses));
    for (const Status& status : statuses) {
      REQUIRE_FALSE(status.has_value());
      CHECK(status.error().message() == statuses[0].error().message());
      CHECK(status.error().culprit() == statuses[0].error().culprit());
      CHECK(status.error().details().sequence == 1);
    }
  }
}

TEST_CASE("a corrupted header is a protocol error that names who sent it") {
  Job job(2, "corrupt@lane(0->1):bytes=0,bit=0");
  const auto statuses = job.Run([](Communicator& c) { return Sum(c); });
  CHECK(job.fired() == 1);
  StateFault(10, job.fired(), statuses, {.path = "inproc"});
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) {
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code() == ErrorCode::kProtocol);
    CHECK(status.error().culprit() == 0);
  }
}

TEST_CASE(
    "a corrupted payload byte arrives with that bit turned over, in zero-copy sends too; checksums "
    "tell") {
  const InprocOptions kinds[] = {
      {}, {.reluctant = true}, {.reluctant = true, .push = true}, {.push = true}, {.late_release = true}};
  for (const InprocOptions& kind : kinds) {
    for (const bool checksums : {false, true}) {
      Job job(2, "corrupt@lane(0->1):bytes=164,bit=6", kind);  // 64 bytes of header, then element 25
      job.checksums = checksums;
      std::vector<std::uint32_t> got(100, 0);
      const auto statuses = job.Run([&](Communicator& c) -> Status {
        std::vector<std::uint32_t> zeros(100, 0);
        std::uint32_t* const values = c.rank() == 1 ? got.data() : zeros.data();
        const Status status = c.Broadcast(values, values, 100, DataType::kUint32, 0, {.algorithm = Algorithm::kDirect});
        return status ? c.Barrier() : status;
      });
      CHECK(job.fired() == 1);
      if (checksums) StateFault(9, job.fired(), statuses, {.path = "inproc"});
      CAPTURE(TextOf(statuses));
      for (const Status& status : statuses) {
        CHECK(status.has_value() == !checksums);
        if (status) continue;
        CHECK(status.error().code() == ErrorCode::kCorrupt);
        CHECK(status.error().culprit() == 0);
      }
      for (std::size_t i = 0; i < got.size() && !checksums; ++i) CHECK(got[i] == (i == 25 ? 64u : 0u));
    }
  }
}

TEST_CASE("a lane that stalls forever is a timeout that names it") {
  Job job(2, "stall@lane(0->1):bytes=3000");
  // Rank 1 times out first, and rank 0 gets rank 1's error.
  const auto statuses =
      job.Run([](Communicator& c) { return Sum(c, c.rank() == 1 ? Duration(300ms) : Duration(20s)); });
  CHECK(job.fired() == 1);
  StateFault(6, job.fired(), statuses, {.path = "inproc"});
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) {
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code() == ErrorCode::kTimeout);
    CHECK(status.error().culprit() == 0);
    CHECK(status.error().message().find("rank 1 waits for rank 0 (2936 of 3968 bytes of step") != std::string::npos);
  }
}

TEST_CASE("a rank killed after so many bytes is named by the others") {
  Job job(3, "kill@rank(2):bytes=5000");
  const auto statuses = job.Run(SumAndClose);
  CHECK(job.fired() == 1);
  StateFault(1, job.fired(), {statuses[0], statuses[1]}, {.path = "inproc"});
  CAPTURE(TextOf(statuses));
  for (const std::size_t survivor : {0, 1}) {
    REQUIRE_FALSE(statuses[survivor].has_value());
    CHECK(statuses[survivor].error().code() == ErrorCode::kPeerLost);
    CHECK(statuses[survivor].error().culprit() == 2);
  }
}

TEST_CASE("a lost goodbye is waited for until Close's timeout, which names the rank") {
  Job job(2, "drop_control(1->0):after=1");  // rank 1's first message still arrives
  const auto statuses = job.Run(SumAndClose, 400ms);
  CHECK(job.fired() >= 1);
  CAPTURE(TextOf(statuses));
  REQUIRE_FALSE(statuses[0].has_value());
  CHECK(statuses[0].error().code() == ErrorCode::kTimeout);
  CHECK(statuses[0].error().message().find("missing: rank 1") != std::string::npos);
}

TEST_CASE("a lane that cannot be opened fails with the code of the plan") {
  Job job(2, "fail_open(1->0):resource");
  // If rank 0 has connected before rank 1 fails, rank 0 gets a notice. Otherwise rank 0's connection attempt times out.
  const auto statuses =
      job.Run([](Communicator& c) { return Sum(c, c.rank() == 0 ? Duration(300ms) : Duration(20s)); });
  CHECK(job.fired() >= 1);
  StateFault(26, job.fired(), statuses, {.path = "inproc"});
  CAPTURE(TextOf(statuses));
  REQUIRE_FALSE(statuses[1].has_value());
  CHECK(statuses[1].error().code() == ErrorCode::kResource);
  CHECK(statuses[1].error().message() == "lane 0 to rank 0 cannot be opened (injected: fail_open(1->0):resource)");
  CHECK_FALSE(statuses[0].has_value());
}

TEST_CASE("harmless random plans harm no rank") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const std::string plan =
        ToString(RandomFaultPlan({.world_size = 3, .max_faults = 4, .max_bytes = 8'000, .harmless = true}, random));
    CAPTURE(seed);
    CAPTURE(plan);
    Job job(3, plan);
    const auto statuses = job.Run(SumAndClose);
    CAPTURE(TextOf(statuses));
    for (const Status& status : statuses) CHECK(status.has_value());
  }
}

TEST_CASE("under any random plan every rank ends in time, with the right sum or a typed error") {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    // Without checksums a corrupted payload can give a wrong sum, so those runs have no corruption in their plans.
    const bool checksums = seed % 2 == 0;
    FaultPlan drawn = RandomFaultPlan({.world_size = 3, .max_faults = 2, .max_bytes = 8'000, .kills = true}, random);
    if (!checksums) std::erase_if(drawn.faults, [](const Fault& f) { return f.kind == FaultKind::kCorrupt; });
    CAPTURE(seed);
    const std::string plan = ToString(drawn);
    CAPTURE(plan);
    Job job(3, plan);
    job.checksums = checksums;
    const auto before = std::chrono::steady_clock::now();
    const auto statuses = job.Run(
        [](Communicator& c) {
          const Status status = Sum(c, 150ms);
          return status ? c.Close() : status;
        },
        150ms);
    CHECK(std::chrono::steady_clock::now() - before < 10s);
    CAPTURE(TextOf(statuses));
    for (const Status& status : statuses) {
      failed += status ? 0 : 1;
      if (!status) CHECK(status.error().code() != ErrorCode::kInternal);
    }
  }
  CHECK(failed > 3);
}

TEST_CASE("a plan with a kill and nothing to kill with is refused by name") {
  const InprocNetwork network(1);
  const auto injector = std::make_shared<FaultInjector>(*ParseFaultPlan("slice@all:1; kill@rank(2):bytes=7"));
  const auto faulty = MakeFaultyTransport(network.transport(0), injector);
  REQUIRE_FALSE(faulty.has_value());
  CHECK(faulty.error().code() == ErrorCode::kInvalidArgument);
  CHECK(faulty.error().message().find("kill@rank(2):bytes=7") != std::string::npos);
}

TEST_CASE("an injector says what has fired how often") {
  Job job(2, "slice@lane(0->1):1024; cut@lane(1->0)#9:bytes=1");
  job.Run(SumAndClose);
  const std::string said = job.injector->Describe();
  CHECK(said.find("slice@lane(0->1):1024 fired ") == 0);
  CHECK(said.find("\ncut@lane(1->0)#9:bytes=1 fired 0 times") != std::string::npos);
  CHECK(job.injector->fired() == job.injector->fired(0).count());
}

}  // namespace faulty_transport_test
}  // namespace rondo::fault
