// A sender and a receiver of pattern bytes. They use a lane in every way that the contract allows, chosen at random,
// and check the contract's guarantees at every step.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "base/random.h"
#include "tests/support/guarded_buffer.h"
#include "transport/transport.h"

namespace rondo::conformance {

// Memory for a window (a buffer passed to Lane::Expect), between guard bytes. If a transport is given, the memory and
// its guard bytes are registered with that transport.
class WindowMemory {
 public:
  explicit WindowMemory(std::size_t size, std::size_t misalignment = 0, Transport* registers = nullptr,
                        std::byte fill = std::byte{0xEE})
      : all_(size + 2 * kAroundBytes, misalignment, GuardedBuffer::kGuard), size_(size) {
    std::fill_n(bytes().data(), size, fill);
    if (registers == nullptr) return;
    auto registration = registers->Register(all_.bytes());
    REQUIRE_MESSAGE(registration, registration.error().ToString());
    registration_ = std::move(*registration);
  }

  MutableBytes bytes() { return all_.bytes().subspan(kAroundBytes, size_); }
  bool GuardsIntact() const {
    const auto intact = [](Bytes around) {
      return std::all_of(around.begin(), around.end(), [](std::byte b) { return b == GuardedBuffer::kGuard; });
    };
    return all_.GuardsIntact() && intact(all_.bytes().first(kAroundBytes)) &&
           intact(all_.bytes().subspan(kAroundBytes + size_));
  }

 private:
  static constexpr std::size_t kAroundBytes = 8 * 1024;  // transports do not register smaller memory
  GuardedBuffer all_;
  std::size_t size_;
  std::unique_ptr<Registration> registration_;
};

struct SenderOptions {
  std::size_t max_piece_bytes = 5000;
  Transport* registers = nullptr;  // if not null, registers the source
  bool overwrite_early = false;    // overwrites bytes that are not released yet, to prove that the suite detects it
};

class Sender {
 public:
  Sender(Lane& lane, const Capabilities& capabilities, std::uint64_t pattern, std::uint64_t total, Random random,
         SenderOptions options = {});

  // Calls the lane once or twice. Overwrites released memory.
  void Step();
  bool Accepted() const { return lane_.accepted() == total_; }
  bool Done() const { return overwritten_ == total_; }
  bool GuardsIntact() const { return source_.GuardsIntact(); }

 private:
  Bytes Next(std::size_t bytes) const;

  Lane& lane_;
  const Capabilities capabilities_;
  const std::uint64_t total_;
  Random random_;
  const SenderOptions options_;
  GuardedBuffer source_;  // the whole stream: each byte has its own memory
  std::unique_ptr<Registration> registration_;
  std::uint64_t overwritten_ = 0;
  std::uint64_t released_ = 0;
};

struct ReceiverOptions {
  std::size_t max_piece_bytes = 5000;
  bool windows = true;             // passes windows to Lane::Expect if the transport supports push
  Transport* registers = nullptr;  // if not null, registers most of the windows' memory
  bool tolerate_garbage = false;   // counts wrong bytes; otherwise they fail the test
};

class Receiver {
 public:
  Receiver(Lane& lane, const Capabilities& capabilities, std::uint64_t pattern, std::uint64_t total, Random random,
           ReceiverOptions options = {});

  // Calls the lane once or twice.
  void Step();
  bool Done() const { return lane_.consumed() == total_; }
  std::uint64_t wrong_bytes() const { return wrong_bytes_; }

 private:
  struct Window {
    std::uint64_t begin = 0;
    std::unique_ptr<WindowMemory> buffer;
  };
  void Grant();
  void Check(std::uint64_t offset, Bytes bytes);

  Lane& lane_;
  const Capabilities capabilities_;
  const std::uint64_t pattern_;
  const std::uint64_t total_;
  Random random_;
  const ReceiverOptions options_;
  std::deque<Window> windows_;
  std::uint64_t granted_ = 0;
  std::uint64_t wrong_bytes_ = 0;
};

}  // namespace rondo::conformance
