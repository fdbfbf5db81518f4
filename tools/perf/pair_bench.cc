#include "tools/perf/pair_bench.h"

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

constexpr Tag kPing = 1, kFlow = 2, kDone = 3, kAgree = 4;
constexpr std::uint64_t kFewRoundTrips = 20;
// the largest number of messages in one batch; after it the ranks agree on the size of the next batch
constexpr std::uint64_t kMaxMessages = 1 << 20;

double SecondsBetween(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

std::byte PatternOf(Rank from, std::size_t at) {
  return static_cast<std::byte>((at * 31 + static_cast<std::size_t>(from) * 101 + (at >> 8)) & 0xFF);
}

}  // namespace

PairBench::PairBench(Communicator& communicator, const Clock& clock, const PairOptions& options)
    : communicator_(communicator), clock_(clock), options_(options) {}

Result<PairRow> PairBench::Measure(Rank low, Rank high) {
  PairRow row{.low = low, .high = high};
  const Rank self = communicator_.rank();
  if (self != low && self != high) return row;
  const bool leads = self == low;
  const Rank peer = leads ? high : low;
  RONDO_TRY(Allocate());
  Fill(self);

  // The first messages set up the path, and are not timed.
  RONDO_TRY(PingPong(peer, leads, options_.warmup.value_or(kFewRoundTrips), nullptr));
  RONDO_ASSIGN(TimeSamples round_trips, TimedPingPong(peer, leads));
  if (leads) {
    row.latency_min_us = round_trips.min() / 2;
    row.latency_median_us = round_trips.Quantile(0.5) / 2;
    row.latency_p99_us = round_trips.Quantile(0.99) / 2;
  }

  if (options_.check) {
    RONDO_TRY(Stream(peer, true, true, static_cast<std::uint64_t>(options_.in_flight)));
    (leads ? row.wrong_down : row.wrong_up) = CountWrong(peer);
  }
  const auto gbps = [&](const Flow& flow) {
    return static_cast<double>(flow.messages * options_.bandwidth_bytes) / flow.seconds / 1e9;
  };
  RONDO_ASSIGN(const Flow up, Timed(peer, leads, leads, !leads));
  RONDO_ASSIGN(const Flow down, Timed(peer, leads, !leads, leads));
  RONDO_ASSIGN(const Flow both, Timed(peer, leads, true, true));
  row.up_GBps = gbps(up);
  row.down_GBps = gbps(down);
  row.both_GBps = 2 * gbps(both);
  return row;
}

Result<std::uint64_t> PairBench::AgreeOnMore(Rank peer, bool leads, std::uint64_t done, double seconds) {
  const double budget = std::chrono::duration<double>(options_.time).count();
  double more = 0;
  if (seconds < budget) more = std::max(1.0, (budget / std::max(seconds, 1e-9) - 1) * static_cast<double>(done));
  return Agree(peer, leads, static_cast<std::uint64_t>(std::min(more, static_cast<double>(kMaxMessages))));
}

Result<TimeSamples> PairBench::TimedPingPong(Rank peer, bool leads) {
  TimeSamples round_trips;
  if (options_.iterations) {
    RONDO_TRY(PingPong(peer, leads, *options_.iterations, &round_trips));
    return round_trips;
  }
  const TimePoint begin = clock_.Now();
  for (std::uint64_t times = kFewRoundTrips; times > 0;) {
    RONDO_TRY(PingPong(peer, leads, times, &round_trips));
    RONDO_ASSIGN(times, AgreeOnMore(peer, leads, round_trips.count(), SecondsBetween(begin, clock_.Now())));
  }
  return round_trips;
}

Status PairBench::PingPong(Rank peer, bool leads, std::uint64_t times, TimeSamples* round_trips_us) {
  const std::uint64_t bytes = options_.latency_bytes;
  TimePoint before = clock_.Now();
  for (std::uint64_t i = 0; i < times; ++i) {
    if (leads) RONDO_TRY(communicator_.Send(out_->bytes().data(), bytes, DataType::kUint8, peer, kPing));
    RONDO_TRY(communicator_.Recv(in_->bytes().data(), bytes, DataType::kUint8, peer, kPing));
    if (!leads) RONDO_TRY(communicator_.Send(out_->bytes().data(), bytes, DataType::kUint8, peer, kPing));
    if (round_trips_us == nullptr) continue;
    const TimePoint now = clock_.Now();
    round_trips_us->Add(SecondsBetween(before, now) * 1e6);
    before = now;
  }
  return {};
}

Status PairBench::Stream(Rank peer, bool sends, bool receives, std::uint64_t messages) {
  const auto depth = static_cast<std::size_t>(options_.in_flight);
  const std::uint64_t bytes = options_.bandwidth_bytes;
  std::vector<Work> outgoing(depth), incoming(depth);
  for (std::uint64_t i = 0; i < messages + depth; ++i) {
    const std::size_t slot = i % depth;
    if (receives) {
      if (i >= depth) RONDO_TRY(incoming[slot].Wait());
      if (i < messages)
        incoming[slot] =
            communicator_.RecvAsync(in_->bytes().data() + slot * bytes, bytes, DataType::kUint8, peer, kFlow);
    }
    if (sends) {
      if (i >= depth) RONDO_TRY(outgoing[slot].Wait());
      if (i < messages)
        outgoing[slot] = communicator_.SendAsync(out_->bytes().data(), bytes, DataType::kUint8, peer, kFlow);
    }
  }
  std::uint8_t done = 0;
  Work done_sent = receives ? communicator_.SendAsync(&done, 1, DataType::kUint8, peer, kDone) : Work();
  std::uint8_t theirs = 0;
  if (sends) RONDO_TRY(communicator_.Recv(&theirs, 1, DataType::kUint8, peer, kDone));
  return receives ? done_sent.Wait() : Status{};
}

Result<PairBench::Flow> PairBench::TimedStream(Rank peer, bool sends, bool receives, std::uint64_t messages) {
  const TimePoint begin = clock_.Now();
  RONDO_TRY(Stream(peer, sends, receives, messages));
  Flow flow{.messages = messages, .seconds = SecondsBetween(begin, clock_.Now())};
  // Only the sender knows when all messages have arrived, so both ends use the sender's time. If both ends send, both
  // use the longer of the two times.
  double theirs = 0;
  if (sends) RONDO_TRY(communicator_.Send(&flow.seconds, 1, DataType::kFloat64, peer, kAgree));  // small, so eager
  if (receives) RONDO_TRY(communicator_.Recv(&theirs, 1, DataType::kFloat64, peer, kAgree));
  flow.seconds = std::max({theirs, sends ? flow.seconds : 0.0, 1e-9});
  return flow;
}

Result<PairBench::Flow> PairBench::Timed(Rank peer, bool leads, bool sends, bool receives) {
  const auto depth = static_cast<std::uint64_t>(options_.in_flight);
  RONDO_TRY(Stream(peer, sends, receives, options_.warmup.value_or(depth)));
  if (options_.iterations) return TimedStream(peer, sends, receives, *options_.iterations);
  // The time of a few messages determines the size of the first batch.
  RONDO_ASSIGN(const Flow few, TimedStream(peer, sends, receives, depth));
  RONDO_ASSIGN(std::uint64_t messages, AgreeOnMore(peer, leads, depth, few.seconds));
  Flow all;
  for (messages = std::max(messages, depth); messages > 0;) {
    RONDO_ASSIGN(const Flow flow, TimedStream(peer, sends, receives, messages));
    all.messages += flow.messages;
    all.seconds += flow.seconds;
    RONDO_ASSIGN(messages, AgreeOnMore(peer, leads, all.messages, all.seconds));
  }
  return all;
}

Result<std::uint64_t> PairBench::Agree(Rank peer, bool leads, std::uint64_t value) {
  if (leads) {
    RONDO_TRY(communicator_.Send(&value, 1, DataType::kUint64, peer, kAgree));
  } else {
    RONDO_TRY(communicator_.Recv(&value, 1, DataType::kUint64, peer, kAgree));
  }
  return value;
}

Status PairBench::Allocate() {
  if (out_ != nullptr) return {};
  const std::uint64_t largest = std::max(options_.bandwidth_bytes, options_.latency_bytes);
  RONDO_ASSIGN(in_, communicator_.Allocate(largest * static_cast<std::size_t>(options_.in_flight)));
  RONDO_ASSIGN(out_, communicator_.Allocate(largest));
  return {};
}

void PairBench::Fill(Rank from) {
  const MutableBytes out = out_->bytes(), in = in_->bytes();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = PatternOf(from, i);
  std::fill(in.begin(), in.end(), std::byte{0});
}

std::uint64_t PairBench::CountWrong(Rank from) const {
  std::uint64_t wrong = 0;
  const Bytes in = Bytes(in_->bytes()).first(options_.bandwidth_bytes * static_cast<std::size_t>(options_.in_flight));
  for (std::size_t i = 0; i < in.size(); ++i) wrong += in[i] != PatternOf(from, i % options_.bandwidth_bytes);
  return wrong;
}

}  // namespace rondo
