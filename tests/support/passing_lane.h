// A lane that forwards every call to another one, for tests that change or observe a lane.
#pragma once

#include <span>

#include "transport/lane.h"

namespace rondo {

class PassingLane : public Lane {
 public:
  // `lane` must outlive this object.
  explicit PassingLane(Lane& lane) : lane_(lane) {}

  Rank peer() const override { return lane_.peer(); }
  LaneState state() const override { return lane_.state(); }
  const Error* failure() const override { return lane_.failure(); }
  std::size_t Write(std::span<const Bytes> pieces) override { return lane_.Write(pieces); }
  std::uint64_t accepted() const override { return lane_.accepted(); }
  std::uint64_t released() const override { return lane_.released(); }
  bool sends_device_memory() const override { return lane_.sends_device_memory(); }
  Arrived Peek(std::size_t want) override { return lane_.Peek(want); }
  void Consume(std::size_t bytes) override { lane_.Consume(bytes); }
  std::size_t ReadInto(MutableBytes destination) override { return lane_.ReadInto(destination); }
  bool Expect(std::uint64_t offset, MutableBytes destination) override { return lane_.Expect(offset, destination); }
  bool end_arrived() const override { return lane_.end_arrived(); }
  std::uint64_t consumed() const override { return lane_.consumed(); }
  void Revoke() override { lane_.Revoke(); }

 protected:
  Lane& lane() const { return lane_; }

 private:
  Lane& lane_;
};

}  // namespace rondo
