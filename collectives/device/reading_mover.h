// A mover for operations whose input is in GPU memory. Moves that copy from that memory to the host are performed by
// the device, through a DeviceReader. All other moves go to the mover that this one wraps.
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
  // Starts to copy these bytes and returns the number of the copy, from 1 on. Copies end in the order of their numbers.
  virtual std::uint64_t Read(std::byte* host, const std::byte* device, std::size_t bytes) = 0;
  // The number of copies that have ended.
  virtual std::uint64_t read() const = 0;
};

class DeviceReadingMover final : public Mover {
 public:
  explicit DeviceReadingMover(std::unique_ptr<Mover> mover) : mover_(std::move(mover)) {}

  // Sets the reader and the memory for the next Start: moves from `memory`, which is on the device, go to `reader`.
  // If `memory` is empty, no moves go to `reader`. The reader must live until the Start after the next one. Drain does
  // not wait for copies by the reader.
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
  std::vector<std::uint64_t> read_;  // bytes read, by stream
};

}  // namespace rondo
