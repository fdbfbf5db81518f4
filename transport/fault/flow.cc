#include "transport/fault/flow.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/random.h"

namespace rondo::fault {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// With the toxic Bandwidth, one step sends the bytes of 1/kPaceHz s. That time is short enough to act like a slow link,
// and long enough for a timer.
constexpr std::uint64_t kPaceHz = 200;

std::uint64_t Plus(std::uint64_t a, std::uint64_t b) { return b > kNever - a ? kNever : a + b; }

}  // namespace

Flow::Flow(FlowIdentity identity, std::size_t buffer_bytes)
    : identity_(std::move(identity)), buffer_bytes_(buffer_bytes) {}

void Flow::Add(std::shared_ptr<Toxicity> toxicity) {
  const Scope& scope = toxicity->scope;
  if (!scope.listener.empty() && scope.listener != identity_.listener) return;
  if (scope.connection != 0 && scope.connection != identity_.connection) return;
  if (scope.way != Way::kBoth && scope.way != identity_.way) return;
  uses_.push_back({std::move(toxicity), false, std::nullopt});
}

void Flow::Remove(const Toxicity& toxicity) {
  std::erase_if(uses_, [&](const Use& use) { return use.toxicity.get() == &toxicity; });
}

void Flow::Name(std::string stream, std::uint64_t begin) {
  stream_ = std::move(stream);
  stream_begin_ = begin;
}

std::size_t Flow::room() const { return over_ ? buffer_bytes_ : buffer_bytes_ - std::min(buffered_, buffer_bytes_); }

std::optional<std::uint64_t> Flow::OriginFor(const Scope& scope) const {
  if (scope.stream.empty()) return 0;
  if (!stream_ || *stream_ != scope.stream) return std::nullopt;
  return stream_begin_;
}

bool Flow::IsAt(const Scope& scope, std::uint64_t offset) const {
  const auto origin = OriginFor(scope);
  return origin && offset >= Plus(*origin, scope.from_byte) && offset < Plus(*origin, scope.to_byte);
}

template <typename Kind>
Flow::Use* Flow::Find(std::uint64_t offset) {
  for (Use& use : uses_)
    if (std::holds_alternative<Kind>(use.toxicity->toxic) && IsAt(use.toxicity->scope, offset)) return &use;
  return nullptr;
}

std::uint64_t Flow::NextEdge(std::uint64_t offset) const {
  std::uint64_t next = kNever;
  for (const Use& use : uses_) {
    const Scope& scope = use.toxicity->scope;
    const auto origin = OriginFor(scope);
    if (!origin) continue;
    for (const std::uint64_t edge : {Plus(*origin, scope.from_byte), Plus(*origin, scope.to_byte)})
      if (edge > offset) next = std::min(next, edge);
  }
  return next;
}

std::uint64_t Flow::Draw(const Toxicity& toxicity, std::uint64_t offset) const {
  Random random(identity_.seed ^ (toxicity.number << 48) ^ offset);
  return random.Next();
}

TimePoint Flow::DueAt(std::uint64_t offset, TimePoint now) {
  Duration delay{};
  for (Use& use : uses_) {
    const auto* const latency = std::get_if<Latency>(&use.toxicity->toxic);
    if (latency == nullptr || !IsAt(use.toxicity->scope, offset)) continue;
    const auto jitter_ns = static_cast<std::uint64_t>(latency->jitter.count());
    delay += latency->delay + Duration(jitter_ns == 0 ? 0 : Draw(*use.toxicity, offset) % jitter_ns);
    use.toxicity->fired.Fire();
  }
  last_due_ = std::max(last_due_, now + delay);
  return last_due_;
}

void Flow::Arrive(Bytes bytes, TimePoint now) {
  if (over_) return;
  RONDO_CHECK(bytes.size() <= room(), "{} bytes arrived, there is room for {}", bytes.size(), room());
  buffered_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::uint64_t>(bytes.size(), NextEdge(arrived_) - arrived_);
    const Bytes part = bytes.first(size);
    pieces_.push_back({{part.begin(), part.end()}, 0, DueAt(arrived_, now)});
    arrived_ += size;
    bytes = bytes.subspan(size);
  }
}

void Flow::ArriveEnd(End end, TimePoint now) {
  if (end_ || over_) return;
  end_ = end;
  end_due_ = DueAt(arrived_, now);
}

Flow::Step Flow::Finish(Step::Kind kind) {
  over_ = true;
  withholds_ = false;
  pieces_.clear();
  buffered_ = 0;
  return {.kind = kind};
}

Flow::Step Flow::Withhold(Use& use, TimePoint now) {
  const bool something = !pieces_.empty() || end_;
  withholds_ = something;
  if (!something) return {};
  if (!std::exchange(use.noted, true)) use.toxicity->fired.Fire();
  const auto& close_after = std::get<Timeout>(use.toxicity->toxic).close_after;
  if (!close_after) return {};
  if (!use.since) use.since = now;
  const TimePoint until = Later(*use.since, *close_after);
  if (now < until) return {.kind = Step::Kind::kWait, .until = until};
  return Finish(Step::Kind::kEnd);
}

Flow::Step Flow::NextEnd(TimePoint now) {
  if (!end_) return {};
  if (now < end_due_) return {.kind = Step::Kind::kWait, .until = end_due_};
  if (*end_ == End::kReset) return Finish(Step::Kind::kReset);
  if (Use* const use = Find<SlowClose>(sent_)) {
    if (!use->since) {
      use->since = now;
      use->toxicity->fired.Fire();
    }
    const TimePoint until = Later(*use->since, std::get<SlowClose>(use->toxicity->toxic).delay);
    if (now < until) return {.kind = Step::Kind::kWait, .until = until};
  }
  return Finish(Step::Kind::kEnd);
}

// Corrupts the front byte, which has the offset sent_. No byte to corrupt is skipped, because no step goes beyond an
// offset at which a toxic begins.
void Flow::CorruptFront() {
  for (Use& use : uses_) {
    const auto* const corrupt = std::get_if<Corrupt>(&use.toxicity->toxic);
    if (corrupt == nullptr || use.noted) continue;
    const auto origin = OriginFor(use.toxicity->scope);
    if (!origin || sent_ != Plus(*origin, use.toxicity->scope.from_byte)) continue;
    const int bit = corrupt->bit.value_or(static_cast<int>(Draw(*use.toxicity, sent_) % 8));
    Piece& front = pieces_.front();
    front.bytes[front.begin] ^= std::byte{1} << bit;
    use.noted = true;
    use.toxicity->fired.Fire();
  }
}

Flow::Step Flow::Next(TimePoint now) {
  if (over_) return {.kind = Step::Kind::kOver};
  withholds_ = false;
  if (held_) {
    withholds_ = !pieces_.empty() || end_;
    return {};
  }
  if (Use* const use = Find<Timeout>(sent_)) return Withhold(*use, now);
  if (Use* const use = Find<ResetPeer>(sent_)) {
    use->toxicity->fired.Fire();
    return Finish(Step::Kind::kReset);
  }
  if (Use* const use = Find<LimitData>(sent_)) {
    use->toxicity->fired.Fire();
    return Finish(Step::Kind::kEnd);
  }
  if (pieces_.empty()) return NextEnd(now);
  const Piece& front = pieces_.front();
  if (const TimePoint free = std::max(front.due, free_at_); now < free) {
    return {.kind = Step::Kind::kWait, .until = free};
  }
  CorruptFront();
  std::uint64_t size = std::min<std::uint64_t>(front.size(), NextEdge(sent_) - sent_);
  if (const Use* const use = Find<Slicer>(sent_)) {
    size = std::min<std::uint64_t>(size, std::get<Slicer>(use->toxicity->toxic).slice_bytes);
  }
  if (const Use* const use = Find<Bandwidth>(sent_)) {
    const std::uint64_t rate = std::get<Bandwidth>(use->toxicity->toxic).bytes_per_second;
    size = std::min(size, std::max<std::uint64_t>(1, rate / kPaceHz));
  }
  return {.kind = Step::Kind::kSend, .bytes = Bytes(front.bytes).subspan(front.begin, size)};
}

void Flow::Sent(std::size_t bytes, TimePoint now) {
  if (bytes == 0) return;
  Piece& front = pieces_.front();
  RONDO_CHECK(bytes <= front.size(), "{} bytes sent of {}", bytes, front.size());
  if (Use* const use = Find<Slicer>(sent_)) {
    if (bytes < front.size() || pieces_.size() > 1) use->toxicity->fired.Fire();
    free_at_ = std::max(free_at_, now + std::get<Slicer>(use->toxicity->toxic).pause);
  }
  if (Use* const use = Find<Bandwidth>(sent_)) {
    use->toxicity->fired.Fire();
    const std::uint64_t rate = std::get<Bandwidth>(use->toxicity->toxic).bytes_per_second;
    // The time is rounded up, so that the stream is never faster than the toxic's bandwidth.
    free_at_ = std::max(free_at_, now) + Duration(DivCeil(std::uint64_t{bytes} * std::nano::den, rate));
  }
  front.begin += bytes;
  sent_ += bytes;
  buffered_ -= bytes;
  if (front.size() == 0) pieces_.pop_front();
}

}  // namespace rondo::fault
