// Lets a mover serve users' operations: what the user's function combines is computed here at once, everything else is
// handed on. A function that throws ends the moving: neither its bytes nor any later ones count as done, so that
// nothing of what it left behind is sent on or becomes a result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator/user_operation.h"
#include "collectives/engine/mover.h"

namespace rondo {

class UserOperationMover final : public Mover {
 public:
  explicit UserOperationMover(std::unique_ptr<Mover> mover) : mover_(std::move(mover)) {}

  // What the next Start is for; null: nothing of a user's. `operation` lives until the one after.
  void Use(const UserOperation* operation) { operation_ = operation; }
  // What a function threw, in words; for good.
  const std::optional<std::string>& failure() const { return failure_; }

  void Start(const MoveContext& context, std::size_t streams) override;
  void Submit(std::uint32_t stream, const Move& move) override;
  std::uint64_t Done(std::uint32_t stream) override;
  void Drain() override { mover_->Drain(); }

 private:
  void Combine(const Move& move) const;

  std::unique_ptr<Mover> mover_;
  const UserOperation* operation_ = nullptr;
  DataType type_ = DataType::kUint8;
  std::optional<std::string> failure_;
  std::vector<std::uint64_t> combined_;  // by stream: bytes; only while a user's operation runs
};

}  // namespace rondo
