// A mover for operations with a function of the user. It calls that function at once, and passes all other moves to the
// mover that it wraps. If the function throws, neither the bytes of that call nor any later bytes count as done. So
// data that the function left unfinished is not sent on, and does not become a result.
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

  // Sets the operation of the next Start; null: it has no function of a user. `operation` must live until the Start
  // after the next one.
  void Use(const UserOperation* operation) { operation_ = operation; }
  // The text of what a function threw; nullopt: no function has thrown. The text, when set, does not change.
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
  // Bytes that the function has combined, by stream. Only valid while a user's operation runs.
  std::vector<std::uint64_t> combined_;
};

}  // namespace rondo
