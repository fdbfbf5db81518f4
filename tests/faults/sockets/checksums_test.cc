// Tests bits that a proxy or a faulty transport flips between real sockets. With checksums every rank gets an error. If
// only results are compared, different results are found. With neither check, the damage becomes part of the result.
// (flipped_bits_test.cc has the damage that is detected without these checks.)
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/sockets/proxied_ranks.h"
#include "tests/support/fault_row.h"
#include "transport/fault/fault_plan.h"
#include "transport/fault/faulty_transport.h"

namespace rondo::fault {
namespace checksums_test {

constexpr int kRanks = 3;
constexpr std::uint64_t kCount = 100, kElement = 10;
// a byte of element kElement; a header of 64 bytes precedes the payload
constexpr std::uint64_t kSpoiltByte = 64 + 4 * kElement + 2;

struct Looks {
  bool checksums = false;
  bool compare_results = false;
};

enum class By : std::uint8_t { kProxy, kPlan };

struct Outcome {
  std::vector<Status> statuses;  // by rank
  // By rank: the received values, which are zeros unless they were damaged.
  std::vector<std::vector<std::uint32_t>> got;
  std::uint64_t fired = 0;
};

// Rank 0 sends zeros to all others. A bit of element kElement is flipped on the way to rank 1.
Outcome BroadcastSpoilt(By by, Looks looks) {
  const auto injector = std::make_shared<FaultInjector>(
      *ParseFaultPlan("corrupt@lane(0->1):bytes=" + std::to_string(kSpoiltByte) + ",bit=3"));
  ProxiedJob job({.ranks = kRanks, .adjust = [&](Rank, CommunicatorOptions& options) {
                    options.checksums = looks.checksums;
                    options.compare_results = looks.compare_results;
                    if (by == By::kPlan) options.transport = *MakeFaultyTransport(options.transport, injector);
                  }});
  ToxicHandle flip;
  if (by == By::kProxy) flip = job.Add({.stream = LaneStream(0, 1), .from_byte = kSpoiltByte}, Corrupt{.bit = 3});
  Outcome outcome;
  outcome.got.resize(kRanks);
  outcome.statuses = job.Run([&](Communicator& c) {
    std::vector<std::uint32_t>& values = outcome.got[static_cast<std::size_t>(c.rank())];
    values.assign(kCount, 0);
    const Status status =
        c.Broadcast(values.data(), values.data(), kCount, DataType::kUint32, 0, {.algorithm = Algorithm::kDirect});
    // The barrier is needed because the sender's broadcast can end before the receivers have checked the bytes.
    return ThenBarrier(c, status);
  });
  outcome.fired = by == By::kProxy ? flip->fired.count() : injector->fired(0).count();
  return outcome;
}

TEST_CASE("with checksums a flipped bit of a payload is reported to every rank, and its sender is named") {
  for (const By by : {By::kProxy, By::kPlan}) {
    const Outcome outcome = BroadcastSpoilt(by, {.checksums = true});
    CHECK(outcome.fired == 1);
    StateFault(9, outcome.fired, outcome.statuses);
    CheckAllName(outcome.statuses, ErrorCode::kCorrupt, 0);
    CHECK(
        TextOf(outcome.statuses[2])
            .find("a frame from rank 0 arrived damaged on lane 0, at stream offset 0, in 400 bytes at 0 of transfer") !=
        std::string::npos);
  }
}

TEST_CASE("comparing results alone, the rank whose result differs is named on every rank") {
  for (const By by : {By::kProxy, By::kPlan}) {
    const Outcome outcome = BroadcastSpoilt(by, {.compare_results = true});
    CHECK(outcome.fired == 1);
    StateFault(9, outcome.fired, outcome.statuses);
    CheckAllName(outcome.statuses, ErrorCode::kCorrupt, 1);
    CHECK(TextOf(outcome.statuses[2]).find("the ranks got different results; checksums: rank 1 ") != std::string::npos);
  }
}

TEST_CASE("with neither, no rank reports it, and the bit is in the result of the rank that it reached") {
  for (const By by : {By::kProxy, By::kPlan}) {
    const Outcome outcome = BroadcastSpoilt(by, {});
    CHECK(outcome.fired == 1);
    StateFault(9, outcome.fired, "documented: undetected without checksums");
    CAPTURE(TextOf(outcome.statuses));
    for (const Status& status : outcome.statuses) CHECK(status.has_value());
    for (Rank rank = 0; rank < kRanks; ++rank)
      for (std::uint64_t i = 0; i < kCount; ++i) {
        const bool spoilt = rank == 1 && i == kElement;
        CHECK(outcome.got[static_cast<std::size_t>(rank)][i] == (spoilt ? std::uint32_t{1} << (16 + 3) : 0));
      }
  }
}

// The ring's first transfer of 1000 elements among three ranks has 333 or 334 elements, then padding and a checksum.
constexpr std::uint64_t kFirstFrameBytes = 64 + 1344;

std::vector<Status> SumSpoiltAt(ProxiedJob& job, std::uint64_t byte) {
  const auto flip =
      job.Add({.stream = LaneStream(0, 1), .from_byte = byte}, Corrupt{.bit = static_cast<int>(byte % 8)});
  auto statuses = job.Run([](Communicator& c) { return ThenBarrier(c, SumByRing(c, 1000)); });
  CHECK(flip->fired.count() == 1);
  StateFault(byte < 64 ? 10 : 9, flip->fired.count(), statuses, {.took = job.took()});
  job.proxy().Remove(flip);
  return statuses;
}

TEST_CASE("with checksums damage anywhere in a frame is reported as damage, never as a disagreement or a timeout") {
  ProxiedJob job({.ranks = kRanks, .adjust = [](Rank, CommunicatorOptions& options) { options.checksums = true; }});
  std::vector<std::uint64_t> bytes;
  for (std::uint64_t byte = 0; byte < 64; byte += 3) bytes.push_back(byte);  // every field of a header
  for (const std::uint64_t byte : {std::uint64_t{64}, std::uint64_t{700}, kFirstFrameBytes - 5, kFirstFrameBytes - 1,
                                   kFirstFrameBytes + 26, 2 * kFirstFrameBytes + 100})
    bytes.push_back(byte);
  for (const std::uint64_t byte : bytes) {
    CAPTURE(byte);
    CheckAllName(SumSpoiltAt(job, byte), ErrorCode::kCorrupt, 0);
  }
}

TEST_CASE("a message damaged on its way is reported to both ends, whether it was eager or announced") {
  for (const std::uint64_t bytes : {100, 300'000}) {
    CAPTURE(bytes);
    ProxiedJob job({.adjust = [](Rank, CommunicatorOptions& options) { options.checksums = true; }});
    const auto flip = job.Add({.stream = LaneStream(0, 1, 1), .from_byte = 150}, Corrupt{.bit = 0});
    const auto statuses = job.Run([&](Communicator& c) -> Status {
      std::vector<std::byte> data(bytes);
      if (c.rank() == 0) {
        RONDO_TRY(c.Send(data.data(), bytes, DataType::kUint8, 1, 7));
      } else if (const auto got = c.Recv(data.data(), bytes, DataType::kUint8, 0, 7); !got) {
        return tl::unexpected(got.error());
      }
      return c.Barrier();
    });
    CHECK(flip->fired.count() == 1);
    StateFault(9, flip->fired.count(), statuses, {.took = job.took()});
    CheckAllName(statuses, ErrorCode::kCorrupt, 0);
    CHECK(TextOf(statuses[0]).find("on lane 1") != std::string::npos);
  }
}

}  // namespace checksums_test
}  // namespace rondo::fault
