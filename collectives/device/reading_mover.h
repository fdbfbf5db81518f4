// A mover for operations whose input lies on a device. A move that copies from that memory to the host goes to a
// DeviceReader, which has the device do it; every other move goes to the mover that this one wraps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "collectives/engine/mover.h"

namespace rondo {

// Thread rule: one thread at a time.
class DeviceReader {
 public:
  virtual ~DeviceReader() = default;
  // Begins to copy these bytes and returns the copy's number, from 1 on. Copies end in the order of their numbers.
  virtual std::uint64_t Read(std::byte* host, const std::byte* device, std::size_t bytes) = 0;
  // How many copies have ended.
  virtual std::uint64_t read() const = 0;
};

class DeviceReadingMover final : public Mover {
 public:
  explicit DeviceReadingMover(std::unique_ptr<Mover> mover) : mover_(std::move(mover)) {}

  // For the next Start: moves from `memory`, which lies on the device, go to `reader`. Empty: there are none. The
  // reader lives until the Start after that one, and ends its own copies.
  void Use(DeviceReader* reader, Bytes memory) {
    reader_ = reader;
    memory_ = memory;
  }

  void Start(const MoveContext& context, std::size_t streams) override {
    reads_.clear();
    if (!memory_.empty()) read_.assign(streams, 0);
    mover_->Start(context, streams);
  }
  void Submit(std::uint32_t stream, const Move& move) override {
    if (memory_.empty() || move.left < memory_.data() || move.left >= memory_.data() + memory_.size())
      return mover_->Submit(stream, move);
    reads_.push_back({stream, move.bytes, reader_->Read(move.destination, move.left, move.bytes)});
  }
  std::uint64_t Done(std::uint32_t stream) override {
    if (memory_.empty()) return mover_->Done(stream);
    for (; !reads_.empty() && reads_.front().number <= reader_->read(); reads_.pop_front())
      read_[reads_.front().stream] += reads_.front().bytes;
    return mover_->Done(stream) + read_[stream];
  }
  void Drain() override { mover_->Drain(); }

 private:
  struct Pending {
    std::uint32_t stream;
    std::size_t bytes;
    std::uint64_t number;
  };

  const std::unique_ptr<Mover> mover_;
  DeviceReader* reader_ = nullptr;
  Bytes memory_;
  std::deque<Pending> reads_;
  std::vector<std::uint64_t> read_;  // by stream: bytes
};

}  // namespace rondo
