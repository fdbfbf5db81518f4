// Tests communicators over real sockets whose connections the proxy cuts, silences, slices and slows. Each case checks
// that its fault fired, and checks every rank's error. If the ranks can know the culprit and the operation, the case
// also checks that all ranks name the same culprit and operation.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/faults/sockets/proxied_ranks.h"
#include "tests/support/fault_row.h"

namespace rondo::fault {
namespace lane_faults_test {

using namespace std::chrono_literals;

// The number of elements. It is so large that byte kMidst of a lane is in the middle of the operation.
constexpr std::size_t kMuch = 100'000;
constexpr std::uint64_t kMidst = 50'000;

bool Has(const Status& status, std::string_view part) {
  return !status && status.error().message().find(part) != std::string::npos;
}

void CheckSequence(const std::vector<Status>& statuses, Sequence sequence) {
  for (const Status& status : statuses) {
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().details().sequence == sequence);
    CHECK_FALSE(status.error().details().collective.empty());
  }
}

// ---- cut ----

TEST_CASE(
    "a lane reset in the midst of an operation: all ranks name one culprit and the operation; a new group works") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    ProxiedJob job({.ranks = ranks});
    const auto cut = job.Add({.stream = LaneStream(0, 1), .from_byte = kMidst}, ResetPeer{});
    const auto statuses = job.Run([](Communicator& c) { return SumByRing(c, kMuch); });
    CHECK(cut->fired.count() == 1);
    StateFault(8, cut->fired.count(), statuses, {.took = job.took()});
    // Both ends see the same reset. All ranks adopt the error of the higher rank at the cut connection.
    CheckAllName(statuses, ErrorCode::kConnectionReset, 0);
    CheckSequence(statuses, 1);
    const ErrorDetails& details = statuses[1].error().details();
    CHECK(details.bytes_done <= kMidst);
    CHECK(details.bytes_due > 0);

    job.proxy().RemoveAll();
    const auto again = job.Run([](Communicator& c) { return ThenClose(c, SumByRing(c, kMuch)); });
    CAPTURE(TextOf(again));
    for (const Status& status : again) CHECK(status.has_value());
  }
}

TEST_CASE("a lane that ends (FIN) before a header, in it, in an element or later is reported as such, with bytes") {
  // The lane ends at these byte offsets. Three are in rank 0's first frame to rank 1, and the fourth is far beyond that
  // frame.
  for (const std::uint64_t after : {std::uint64_t{0}, std::uint64_t{32}, std::uint64_t{64 + 1001}, kMidst}) {
    CAPTURE(after);
    ProxiedJob job({.ranks = 3});
    const auto limit = job.Add({.stream = LaneStream(0, 1), .from_byte = after}, LimitData{});
    const auto statuses = job.Run([](Communicator& c) { return SumByRing(c, kMuch); });
    CHECK(limit->fired.count() == 1);
    for (const int fault : {8, 11}) StateFault(fault, limit->fired.count(), statuses, {.took = job.took()});
    CheckAllName(statuses, ErrorCode::kConnectionReset, 0);
    CheckSequence(statuses, 1);
    CHECK(Has(statuses[1], "rank 0 ended its lane to rank 1 while bytes are still expected"));
    CHECK(statuses[1].error().details().bytes_done <= after);
    CHECK(statuses[1].error().details().bytes_due > 0);
  }
}

TEST_CASE("a message's lane reset in the middle of its body fails the receive, and whatever its sender does next") {
  ProxiedJob job;
  const auto cut = job.Add({.stream = LaneStream(0, 1, 1), .from_byte = kMidst}, ResetPeer{});
  const auto statuses = job.Run([](Communicator& c) -> Status {
    std::vector<float> body(kMuch, 1);
    // The barrier is needed because a send ends when its buffer is free, even if the peer has not received the bytes.
    if (c.rank() == 0) return ThenBarrier(c, c.Send(body.data(), kMuch, DataType::kFloat32, 1, 7));
    const auto received = c.Recv(body.data(), kMuch, DataType::kFloat32, 0, 7);
    return received ? Status{} : Status(tl::unexpected(received.error()));
  });
  CHECK(cut->fired.count() == 1);
  StateFault(8, cut->fired.count(), statuses, {.took = job.took()});
  CheckAllName(statuses, ErrorCode::kConnectionReset, 0);
}

TEST_CASE("a rank whose connections are all reset is dead to all others, who name it") {
  ProxiedJob job({.ranks = 3});
  std::vector<ToxicHandle> cuts;
  // All three ranks stop in the middle of the operation, so that each of them has begun it and none has finished it.
  std::vector<ToxicHandle> holes;
  for (const Rank r : {0, 1, 2})
    holes.push_back(job.Add({.stream = LaneStream(r, (r + 1) % 3), .from_byte = kMidst}, Timeout{}));
  std::thread cutter([&] {
    for (const ToxicHandle& hole : holes) CHECK(hole->fired.Await(1, kFiring));
    // Both resets happen while no byte passes. So between the resets, rank 2 cannot send a notice, and the job cannot
    // end.
    CHECK(job.proxy().Pause(""));
    for (const Rank other : {0, 1}) cuts.push_back(job.Add({.stream = ControlStream(other, 2)}, ResetPeer{}));
    CHECK(job.proxy().Resume(""));
  });
  const auto before = std::chrono::steady_clock::now();
  const auto statuses = job.Run([](Communicator& c) { return SumByRing(c, kMuch); });
  cutter.join();
  CHECK(std::chrono::steady_clock::now() - before < 10s);  // far below the deadline
  CAPTURE(TextOf(statuses));
  for (const ToxicHandle& cut : cuts) CHECK(cut->fired.count() == 1);
  StateFault(1, cuts.front()->fired.count() + cuts.back()->fired.count(), {statuses[0], statuses[1]},
             {.took = job.took()});
  for (const std::size_t survivor : {0, 1}) {
    REQUIRE_FALSE(statuses[survivor].has_value());
    const Error& error = statuses[survivor].error();
    CHECK(error.code() == ErrorCode::kPeerLost);
    CHECK(error.culprit() == 2);
    CHECK(error.details().sequence == 1);
  }
  // From the view of the rank that was cut off, the other ranks are lost.
  CHECK(CodeOf(statuses[2]) == ErrorCode::kPeerLost);
}

// ---- silence ----

TEST_CASE("bytes of one way vanish: the waiting rank names the sender and how many came, and all ranks get the error") {
  ProxiedJob job({.ranks = 3});
  const auto hole = job.Add({.stream = LaneStream(0, 1), .from_byte = 1000}, Timeout{});
  const auto statuses = job.Run([](Communicator& c) { return ThenBarrier(c, BroadcastDirectly(c, 5000, 500ms)); });
  CHECK(hole->fired.count() == 1);
  StateFault(6, hole->fired.count(), statuses, {.took = job.took()});
  CheckAllName(statuses, ErrorCode::kTimeout, 0);
  CHECK(Has(statuses[2], "#1 broadcast"));
  CHECK(Has(statuses[2], "rank 1 waits for rank 0 (936 of 20000 bytes of step"));
}

TEST_CASE("a black hole both ways, control connection included: each side names the silent one, in time") {
  ProxiedJob job;
  std::vector<ToxicHandle> holes;
  for (const auto& [from, to] : {std::pair<Rank, Rank>{0, 1}, {1, 0}}) {
    holes.push_back(job.Add({.stream = LaneStream(from, to), .from_byte = 1000}, Timeout{}));
    // Takes effect from the first control frame on.
    job.Add({.stream = ControlStream(from, to), .from_byte = 8}, Timeout{});
  }
  const auto before = std::chrono::steady_clock::now();
  const auto statuses = job.Run([](Communicator& c) { return SumByRing(c, 2000, 400ms); });
  CHECK(std::chrono::steady_clock::now() - before < 10s);
  CAPTURE(TextOf(statuses));
  for (const ToxicHandle& hole : holes) CHECK(hole->fired.count() == 1);
  for (const int fault : {6, 14}) StateFault(fault, holes.front()->fired.count(), statuses, {.took = job.took()});
  // These ranks cannot know the culprit, because the cut is symmetric and no notice crosses it.
  for (const Rank r : {0, 1}) {
    const Status& status = statuses[static_cast<std::size_t>(r)];
    CHECK(CodeOf(status) == ErrorCode::kTimeout);
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().culprit() == 1 - r);
    CHECK(status.error().details().sequence == 1);
  }
}

TEST_CASE("a black hole that heals inside the deadline costs time and nothing else") {
  ProxiedJob job({.ranks = 3});
  const auto hole = job.Add({.stream = LaneStream(0, 1), .from_byte = kMidst}, Timeout{});
  std::thread healer([&] {
    CHECK(hole->fired.Await(1, kFiring));
    job.proxy().Remove(hole);
  });
  const auto statuses = job.Run([](Communicator& c) { return ThenClose(c, SumByRing(c, kMuch)); });
  healer.join();
  StateFault(6, hole->fired.count(), statuses, {.took = job.took()});
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
}

// ---- slices and slow links ----

TEST_CASE("every connection in slices of one byte: handshakes, control, collectives and messages, all bit-equal") {
  ProxiedJob job({.ranks = 3});
  const auto slicer = job.Add({}, Slicer{.slice_bytes = 1});
  const auto statuses = job.Run([](Communicator& c) -> Status {
    if (Status sum = SumByRing(c, 500); !sum) return sum;
    if (Status cast = BroadcastDirectly(c, 500, 20s); !cast) return cast;
    const Rank right = (c.rank() + 1) % 3, left = (c.rank() + 2) % 3;
    std::array<std::int32_t, 100> mine{}, theirs{};
    mine.fill(c.rank() + 100);
    const auto message =
        c.SendRecv({.buffer = mine.data(), .count = 100, .to = right, .tag = 1},
                   {.buffer = theirs.data(), .count = 100, .from_or_any = left, .tag_or_any = 1}, DataType::kInt32);
    if (!message) return tl::unexpected(message.error());
    for (const std::int32_t value : theirs)
      if (value != left + 100) return Fail(ErrorCode::kInternal, "{} from rank {}", value, left);
    return c.Close();
  });
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
  CHECK(slicer->fired.count() > 10'000);
  StateFault(12, slicer->fired.count(), statuses, {.took = job.took()});
}

TEST_CASE("late, jittering links change no bit") {
  ProxiedJob job({.ranks = 3});
  const auto late = job.Add({}, Latency{.delay = 2ms, .jitter = 4ms});
  const auto statuses = job.Run([](Communicator& c) { return ThenClose(c, SumByRing(c, 20'000)); });
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
  CHECK(late->fired.count() > 20);
  StateFault(13, late->fired.count(), statuses, {.took = job.took()});
}

TEST_CASE("a link of 1 Mbit is slow inside the deadline, and outside of it is named with its rate") {
  ProxiedJob job({.ranks = 3});
  const auto slow = job.Add({.stream = LaneStream(0, 1)}, Bandwidth{.bytes_per_second = 125'000});
  const auto inside = job.Run([](Communicator& c) { return ThenClose(c, BroadcastDirectly(c, 2500, 20s)); });
  CAPTURE(TextOf(inside));
  for (const Status& status : inside) CHECK(status.has_value());
  CHECK(slow->fired.count() > 10);

  // Rank 0 finishes sending at once, because the buffers on the way can hold all 200 KB.
  const auto outside = job.Run([](Communicator& c) { return ThenBarrier(c, BroadcastDirectly(c, 50'000, 500ms)); });
  StateFault(13, slow->fired.count(), outside, {.took = job.took()});
  CheckAllName(outside, ErrorCode::kTimeout, 0);
  CHECK(Has(outside[2], "rank 1 waits for rank 0 ("));
  CHECK(Has(outside[2], "of 200000 bytes of step"));
  CHECK(Has(outside[2], " arrived, 0."));  // the rate in MB/s; the link allows 0.125 MB/s
}

// ---- connecting ----

TEST_CASE("a listener that does not answer for a while is waited for") {
  ProxiedJob job;
  REQUIRE(job.proxy().Pause("rank 0"));
  std::thread late([&] {
    CHECK(job.proxy().counters().paused.Await(1, kFiring));
    CHECK(job.proxy().Resume("rank 0"));
  });
  const auto statuses = job.Run([](Communicator& c) { return ThenClose(c, SumByRing(c, 1000)); });
  late.join();
  StateFault(24, job.proxy().counters().paused.count(), statuses, {.took = job.took()});
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
}

// Only rank 1 connects. Rank 0 exists, but connects to no rank.
Status FirstError(ProxiedJob& job) {
  return job.Run([](Communicator& c) { return c.rank() == 1 ? SumByRing(c, 1000) : Status{}; })[1];
}

TEST_CASE("a listener that refuses is named with every address tried and the reason") {
  ProxiedJob job;
  REQUIRE(job.proxy().Refuse("rank 0"));
  const Status status = FirstError(job);
  CHECK(job.proxy().counters().refused.count() == 1);
  CAPTURE(TextOf(status));
  CHECK(CodeOf(status) == ErrorCode::kPeerLost);
  StateFault(24, job.proxy().counters().refused.count(), {status}, {.took = job.took()});
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().culprit() == 0);
  CHECK(Has(status, "All its addresses refuse connections: 127.0.0.1:"));
  CHECK(Has(status, "Connection refused"));
}

TEST_CASE("a listener that accepts and never answers is named with its address, and that is what it says") {
  ProxiedJob job({.timeout = 700ms, .adjust_tcp = [](Rank, TcpOptions& tcp) { tcp.handshake_timeout = 200ms; }});
  REQUIRE(job.proxy().Pause("rank 0"));
  const Status status = FirstError(job);
  CHECK(job.proxy().counters().paused.count() > 0);
  CAPTURE(TextOf(status));
  CHECK(CodeOf(status) == ErrorCode::kUnreachable);
  StateFault(24, job.proxy().counters().paused.count(), {status}, {.took = job.took()});
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().culprit() == 0);
  CHECK(Has(status, "127.0.0.1:"));
  CHECK(Has(status, "it has accepted the connection, but has not answered yet"));
}

}  // namespace lane_faults_test
}  // namespace rondo::fault
