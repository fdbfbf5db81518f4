#include "tests/conformance/traffic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/support/pattern.h"

// Like REQUIRE, but cheap if the condition holds, because the tests check a million conditions.
#define MUST(promise)                                   \
  do {                                                  \
    if (!(promise)) FAIL("broken promise: ", #promise); \
  } while (false)

namespace rondo::conformance {

namespace {

constexpr std::byte kOverwritten{0xDD};

}  // namespace

Sender::Sender(Lane& lane, const Capabilities& capabilities, std::uint64_t pattern, std::uint64_t total, Random random,
               SenderOptions options)
    : lane_(lane),
      capabilities_(capabilities),
      total_(total),
      random_(random),
      options_(options),
      source_(total, random_.Below(64)) {
  FillPattern(pattern, 0, source_.bytes());
  if (options_.registers == nullptr) return;
  auto registration = options_.registers->Register(source_.bytes());
  REQUIRE_MESSAGE(registration, registration.error().ToString());
  registration_ = std::move(*registration);
}

Bytes Sender::Next(std::size_t bytes) const {
  return source_.bytes().subspan(lane_.accepted(), std::min<std::uint64_t>(bytes, total_ - lane_.accepted()));
}

void Sender::Step() {
  const std::uint64_t before = lane_.accepted();
  const std::size_t size = random_.Below(options_.max_piece_bytes) + 1;
  // Up to four pieces that are adjacent in the stream; some of them are empty.
  std::array<Bytes, 4> pieces;
  Bytes rest = Next(size);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t part = i + 1 == pieces.size() ? rest.size() : random_.Below(rest.size() + 1);
    pieces[i] = rest.first(part);
    rest = rest.subspan(part);
  }
  const std::size_t taken = lane_.Write(pieces);
  MUST(lane_.accepted() == before + taken);

  const std::uint64_t released = lane_.released();
  MUST(released >= released_);
  MUST(released <= lane_.accepted());
  if (!capabilities_.late_release) MUST(released == lane_.accepted());
  released_ = released;
  const std::uint64_t until = options_.overwrite_early ? lane_.accepted() : released;
  std::fill_n(source_.bytes().data() + overwritten_, until - overwritten_, kOverwritten);
  overwritten_ = until;
}

Receiver::Receiver(Lane& lane, const Capabilities& capabilities, std::uint64_t pattern, std::uint64_t total,
                   Random random, ReceiverOptions options)
    : lane_(lane), capabilities_(capabilities), pattern_(pattern), total_(total), random_(random), options_(options) {}

void Receiver::Check(std::uint64_t offset, Bytes bytes) {
  if (options_.tolerate_garbage) {
    for (std::size_t i = 0; i < bytes.size(); ++i) wrong_bytes_ += bytes[i] != PatternAt(pattern_, offset + i);
    return;
  }
  const auto mismatch = PatternMismatch(pattern_, offset, bytes);
  REQUIRE_MESSAGE(!mismatch, "wrong byte at stream offset ", offset + *mismatch);
}

// Passes a window ahead of the consumed bytes to Lane::Expect, sometimes after a gap, sometimes in two parts.
void Receiver::Grant() {
  std::uint64_t begin = std::max(granted_, lane_.consumed()) + random_.Below(3) * random_.Below(300);
  for (std::uint64_t parts = 1 + random_.Below(3); parts > 0 && begin < total_; --parts) {
    const std::size_t size = std::min<std::uint64_t>(1 + random_.Below(options_.max_piece_bytes), total_ - begin);
    Transport* const registers = random_.Below(4) == 0 ? nullptr : options_.registers;
    auto buffer = std::make_unique<WindowMemory>(size, random_.Below(64), registers);
    if (!lane_.Expect(begin, buffer->bytes())) return;
    windows_.push_back({begin, std::move(buffer)});
    granted_ = begin += size;
  }
}

void Receiver::Step() {
  if (options_.windows && capabilities_.push && windows_.size() < 8 && random_.Chance(0.2)) Grant();

  const std::uint64_t at = lane_.consumed();
  if (!windows_.empty() && windows_.front().begin <= at) {
    WindowMemory& buffer = *windows_.front().buffer;
    const MutableBytes rest = buffer.bytes().subspan(at - windows_.front().begin);
    const std::size_t got = lane_.ReadInto(rest);
    MUST(got <= rest.size());
    MUST(lane_.consumed() == at + got);
    Check(at, rest.first(got));
    if (got < rest.size()) return;
    MUST(buffer.GuardsIntact());
    windows_.pop_front();
    return;
  }

  const std::uint64_t bound = windows_.empty() ? total_ : windows_.front().begin;
  if (at == bound) return;
  const std::size_t size = std::min<std::uint64_t>(1 + random_.Below(options_.max_piece_bytes), bound - at);
  if (random_.Chance(0.5)) {
    GuardedBuffer buffer(size, random_.Below(64));
    const std::size_t got = lane_.ReadInto(buffer.bytes());
    MUST(got <= size);
    MUST(lane_.consumed() == at + got);
    Check(at, buffer.bytes().first(got));
    MUST(buffer.GuardsIntact());
    return;
  }
  const Arrived arrived = lane_.Peek(size);
  if (arrived.first.empty()) MUST(arrived.second.empty());
  MUST(at + arrived.size() <= total_);
  Check(at, arrived.first);
  Check(at + arrived.first.size(), arrived.second);
  MUST(lane_.consumed() == at);
  const std::size_t eat = random_.Below(std::min(arrived.size(), size) + 1);
  lane_.Consume(eat);
  MUST(lane_.consumed() == at + eat);
}

}  // namespace rondo::conformance
