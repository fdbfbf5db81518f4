// A mover that delays its work on purpose: it does submitted work late, in pieces of random length and in random order
// across streams. Code that takes "submitted" for "done" reads stale bytes or overwrites needed ones.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "collectives/engine/host_mover.h"

namespace rondo {

class LateMover final : public Mover {
 public:
  explicit LateMover(std::uint64_t seed) : random_(seed) {}

  void Start(const MoveContext& context, std::size_t streams) override {
    for (const auto& queue : queues_) RONDO_CHECK(queue.empty(), "moves of the last operation are under way");
    element_bytes_ = SizeOf(context.type);
    worker_.Start(context, streams);
    queues_.assign(streams, {});
  }
  void Submit(std::uint32_t stream, const Move& move) override { queues_[stream].push_back(move); }
  std::uint64_t Done(std::uint32_t stream) override {
    WorkSome();
    return worker_.Done(stream);
  }
  void Drain() override {
    for (auto& queue : queues_) queue.clear();
  }

 private:
  void WorkSome() {
    if (queues_.empty() || random_.Chance(0.5)) return;
    const auto stream = static_cast<std::uint32_t>(random_.Below(queues_.size()));
    if (queues_[stream].empty()) return;
    Move& move = queues_[stream].front();
    Move piece = move;
    piece.bytes = std::min<std::size_t>(move.bytes, random_.Between(1, 40) * element_bytes_);
    worker_.Submit(stream, piece);
    move.destination += piece.bytes;
    move.left += piece.bytes;
    if (move.right != nullptr) move.right += piece.bytes;
    move.bytes -= piece.bytes;
    if (move.bytes == 0) queues_[stream].pop_front();
  }

  Random random_;
  HostMover worker_;
  std::size_t element_bytes_ = 1;
  std::vector<std::deque<Move>> queues_;
};

}  // namespace rondo
