// Tests what the flight recorder keeps, for how long, and what a reader sees while records are being written.
#include "collectives/recorder/flight_recorder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rondo {
namespace flight_recorder_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TimePoint At(int ms) { return TimePoint(milliseconds(ms)); }

std::unique_ptr<FlightRecorder> RecorderOf(std::uint32_t records) {
  auto recorder = FlightRecorder::Create(records);
  REQUIRE(recorder);
  return std::move(*recorder);
}

CollectiveCall Sum(Sequence sequence, std::uint64_t count = 10) {
  return {.sequence = sequence,
          .collective = Collective::kAllReduce,
          .algorithm = Algorithm::kRing,
          .op = ReduceOp::kSum,
          .type = DataType::kFloat32,
          .in_place = true,
          .count = count,
          .timeout = std::chrono::seconds(60)};
}

MessageCall SendTo(Rank peer, Tag tag) {
  return {.sends = true, .peer = peer, .tag = tag, .type = DataType::kInt64, .count = 5, .timeout = milliseconds(1500)};
}

std::vector<std::uint64_t> NumbersOf(const std::vector<Record>& records) {
  std::vector<std::uint64_t> numbers;
  for (const Record& record : records) numbers.push_back(record.number);
  return numbers;
}

TEST_CASE("a collective is scheduled, started and completed, each with its time") {
  const auto recorder = RecorderOf(4);
  CHECK(recorder->Read().empty());
  recorder->Issued(Sum(1), At(100));
  Record record = recorder->Read().at(0);
  CHECK(record.state == RecordState::kScheduled);
  CHECK(record.created == At(100));
  CHECK(record.started == TimePoint{});
  CHECK(record.ended == TimePoint{});

  recorder->Started(1, Algorithm::kTree, At(110), /*coarse=*/false);
  record = recorder->Read().at(0);
  CHECK(record.state == RecordState::kStarted);
  CHECK(record.algorithm == Algorithm::kTree);  // the algorithm that was finally chosen
  CHECK(record.started == At(110));

  recorder->Completed(1, At(120));
  record = recorder->Read().at(0);
  CHECK(record.state == RecordState::kCompleted);
  CHECK(record.ended == At(120));
  CHECK(record.kind == RecordKind::kCollective);
  CHECK(record.collective == Collective::kAllReduce);
  CHECK(record.op == ReduceOp::kSum);
  CHECK(record.type == DataType::kFloat32);
  CHECK(record.count == 10);
  CHECK(record.peer == 0);
  CHECK(record.in_place);
  CHECK(!record.varying);
  CHECK(!record.widened);
  CHECK(!record.coarse);
  CHECK(record.timeout_ms == 60'000);
  CHECK(!record.place);
}

TEST_CASE("times never run backwards, though they come from a coarse clock and a fine one") {
  const auto recorder = RecorderOf(4);
  recorder->Issued(Sum(1), At(100));
  recorder->Started(1, Algorithm::kRing, At(90), /*coarse=*/true);
  recorder->Completed(1, At(80));
  const Record record = recorder->Read().at(0);
  CHECK(record.created == At(100));
  CHECK(record.started == At(100));
  CHECK(record.ended == At(100));
  CHECK(record.coarse);
}

TEST_CASE("a start that was not measured is measured as soon as the clock is read") {
  const auto recorder = RecorderOf(4);
  recorder->Issued(Sum(1), At(100));
  recorder->Started(1, Algorithm::kIntranode, At(50), /*coarse=*/true);
  CHECK(recorder->Read().at(0).coarse);
  recorder->Measured(1, At(103));
  const Record record = recorder->Read().at(0);
  CHECK(!record.coarse);
  CHECK(record.started == At(103));
  CHECK(record.state == RecordState::kStarted);
}

TEST_CASE("what ran at once has one time, and says that it is coarse") {
  const auto recorder = RecorderOf(4);
  recorder->RanAtOnce(Sum(1), At(7));
  const Record record = recorder->Read().at(0);
  CHECK(record.state == RecordState::kCompleted);
  CHECK(record.coarse);
  CHECK(record.created == At(7));
  CHECK(record.started == At(7));
  CHECK(record.ended == At(7));
}

TEST_CASE("the ring keeps the last operations") {
  const auto recorder = RecorderOf(4);
  for (Sequence sequence = 1; sequence <= 10; ++sequence)
    recorder->RanAtOnce(Sum(sequence), At(static_cast<int>(sequence)));
  CHECK(NumbersOf(recorder->Read()) == std::vector<std::uint64_t>{7, 8, 9, 10});
}

TEST_CASE("the number of records is rounded up to a power of two, and limited") {
  CHECK(RecorderOf(1)->capacity() == 1);
  CHECK(RecorderOf(5)->capacity() == 8);
  const auto refused = FlightRecorder::Create(FlightRecorder::kMaxRecords + 1);
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message().find("recorded_operations is 1048577") != std::string::npos);
}

TEST_CASE("an operation that is under way is not overwritten by those that are issued behind it") {
  const auto recorder = RecorderOf(2);
  recorder->Issued(Sum(1), At(1));
  recorder->Started(1, Algorithm::kRing, At(2), false);
  CHECK(recorder->HasRoomFor(/*sequence=*/2, /*completed=*/0));
  CHECK(!recorder->HasRoomFor(3, 0));
  CHECK(!recorder->Has(3));
  recorder->Failed(3, At(5), std::nullopt);  // the operation was not recorded: the call has no effect
  CHECK(recorder->Read().at(0).state == RecordState::kStarted);
  recorder->Completed(1, At(6));
  CHECK(recorder->HasRoomFor(3, 1));
  recorder->Issued(Sum(3), At(7));
  CHECK(recorder->Has(3));
  CHECK(NumbersOf(recorder->Read()) == std::vector<std::uint64_t>{3});
}

TEST_CASE("a failure has the place where it happened, and the next use of its memory does not") {
  const auto recorder = RecorderOf(1);
  recorder->Issued(Sum(1), At(1));
  recorder->Started(1, Algorithm::kRing, At(2), false);
  recorder->Failed(1, At(3), RecordedPlace{.step = 5, .bytes_done = 10, .bytes_due = 40});
  Record record = recorder->Read().at(0);
  CHECK(record.state == RecordState::kFailed);
  REQUIRE(record.place);
  CHECK(record.place->step == 5);
  CHECK(record.place->bytes_done == 10);
  CHECK(record.place->bytes_due == 40);
  recorder->RanAtOnce(Sum(2), At(4));
  CHECK(!recorder->Read().at(0).place);
}

TEST_CASE("operations with a count per rank keep what this rank brings and gets") {
  const auto recorder = RecorderOf(1);
  CollectiveCall call = Sum(1, 0);
  call.varying = true;
  call.input_elements = 7;
  call.output_elements = 90;
  recorder->Issued(call, At(1));
  const Record record = recorder->Read().at(0);
  CHECK(record.varying);
  CHECK(record.input_elements == 7);
  CHECK(record.output_elements == 90);
}

TEST_CASE("messages have states, the peer they found, and their bytes") {
  const auto recorder = RecorderOf(4);
  const std::uint32_t send = recorder->MessageIssued(SendTo(3, 7), At(1));
  const std::uint32_t receive = recorder->MessageIssued({.type = DataType::kInt64, .count = 9}, At(2));
  REQUIRE(send != FlightRecorder::kNotRecorded);
  REQUIRE(receive != FlightRecorder::kNotRecorded);
  recorder->MessageStarted(receive, /*peer=*/2, /*tag=*/11, At(3));
  recorder->MessageEnded(receive, 2, 11, 40, 40, nullptr, At(4));
  std::vector<Record> records = recorder->Read();
  REQUIRE(records.size() == 2);
  CHECK(records[0].kind == RecordKind::kSend);
  CHECK(records[0].number == 1);
  CHECK(records[0].state == RecordState::kScheduled);
  CHECK(records[0].peer == 3);
  CHECK(records[0].tag == 7);
  CHECK(records[0].count == 5);
  CHECK(records[0].timeout_ms == 1500);
  CHECK(records[1].kind == RecordKind::kReceive);
  CHECK(records[1].number == 2);
  CHECK(records[1].state == RecordState::kCompleted);
  CHECK(records[1].peer == 2);
  CHECK(records[1].tag == 11);
  CHECK(records[1].started == At(3));
  CHECK(records[1].ended == At(4));
  REQUIRE(records[1].place);
  CHECK(records[1].place->bytes_done == 40);

  const Error late(ErrorCode::kTimeout, "no rank received it");
  recorder->MessageEnded(send, 3, 7, 0, 40, &late, At(9));
  records = recorder->Read();
  CHECK(records[0].state == RecordState::kFailed);
  CHECK(records[0].started == TimePoint{});
  const auto errors = recorder->MessageErrors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == 1);
  CHECK(errors[0].second == "timeout: no rank received it");
}

TEST_CASE("messages under way are never overwritten; where there are too many, the new ones are not recorded") {
  const auto recorder = RecorderOf(2);
  const std::uint32_t stuck = recorder->MessageIssued(SendTo(1, 1), At(1));
  for (int i = 2; i < 8; ++i) {
    const std::uint32_t through = recorder->MessageIssued(SendTo(1, i), At(i));
    REQUIRE(through != FlightRecorder::kNotRecorded);
    recorder->MessageEnded(through, 1, i, 40, 40, nullptr, At(i));
  }
  CHECK(NumbersOf(recorder->Read()) == std::vector<std::uint64_t>{1, 7});
  const std::uint32_t other = recorder->MessageIssued(SendTo(1, 9), At(9));
  CHECK(other != FlightRecorder::kNotRecorded);
  CHECK(recorder->MessageIssued(SendTo(1, 10), At(10)) == FlightRecorder::kNotRecorded);
  recorder->MessageEnded(FlightRecorder::kNotRecorded, 1, 10, 0, 0, nullptr, At(11));  // the call has no effect
  recorder->MessageEnded(stuck, 1, 1, 40, 40, nullptr, At(12));
  CHECK(recorder->MessageIssued(SendTo(1, 13), At(13)) == stuck);
  CHECK(NumbersOf(recorder->Read()) == std::vector<std::uint64_t>{8, 10});  // message 9 was not recorded
}

// Every record has the same value in several words, so a record that is only partly written would be inconsistent.
TEST_CASE("a reader sees whole records only, whatever is written meanwhile") {
  const auto recorder = RecorderOf(4);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (Sequence sequence = 1; sequence <= 20'000; ++sequence) {
      const TimePoint now(microseconds(static_cast<std::int64_t>(sequence)));
      CollectiveCall call = Sum(sequence, 3 * sequence);
      call.root = static_cast<Rank>(sequence % 1000);
      if (sequence % 2 == 0) {
        recorder->RanAtOnce(call, now);
      } else {
        recorder->Issued(call, now);
        recorder->Started(sequence, Algorithm::kTree, now, false);
        recorder->Failed(sequence, now, RecordedPlace{.step = 1, .bytes_done = sequence, .bytes_due = 2 * sequence});
      }
    }
    done.store(true);
  });
  std::size_t seen = 0, torn = 0;
  bool over;
  do {
    over = done.load();
    for (const Record& record : recorder->Read()) {
      ++seen;
      const auto us = static_cast<std::int64_t>(record.number);
      bool whole = record.count == 3 * record.number && record.created == TimePoint(microseconds(us)) &&
                   record.peer == static_cast<Rank>(record.number % 1000);
      if (record.place)
        whole &= record.place->bytes_done == record.number && record.place->bytes_due == 2 * record.number;
      if (record.state == RecordState::kCompleted) whole &= record.coarse && record.ended == record.created;
      torn += whole ? 0 : 1;
    }
  } while (!over);
  writer.join();
  CHECK(seen > 0);
  CHECK(torn == 0);
}

TEST_CASE("messages are read whole while two threads submit and end them") {
  const auto recorder = RecorderOf(8);
  constexpr int kMessages = 20'000;
  std::vector<std::atomic<std::uint32_t>> places(kMessages);
  std::atomic<int> submitted{0};
  std::atomic<bool> done{false};
  std::thread submitter([&] {
    for (int i = 0; i < kMessages; ++i) {
      places[static_cast<std::size_t>(i)] = recorder->MessageIssued(SendTo(i % 100, i % 100), At(1));
      submitted.store(i + 1);
    }
  });
  std::thread owner([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (submitted.load() <= i) std::this_thread::yield();
      const std::uint32_t place = places[static_cast<std::size_t>(i)];
      recorder->MessageStarted(place, i % 100, i % 100, At(2));
      recorder->MessageEnded(place, i % 100, i % 100, 40, 40, nullptr, At(3));
    }
    done.store(true);
  });
  std::size_t torn = 0;
  while (!done.load())
    for (const Record& record : recorder->Read()) torn += record.peer == record.tag ? 0 : 1;
  submitter.join();
  owner.join();
  CHECK(torn == 0);
  CHECK(recorder->Read().size() <= 8);
}

}  // namespace flight_recorder_test
}  // namespace rondo
