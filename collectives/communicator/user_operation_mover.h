// A mover for operations with a function of the user. It calls that function at once, and passes all other moves to the
// mover that it wraps. If the function throws, all moving ends: neither its bytes nor any later ones count as done. So
// nothing that the function left unfinished is sent on or becomes a result.
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
  // after that.
  void Use(const UserOperation* operation) { operation_ = operation; }
  // What a function threw, as text; nullopt: nothing yet. Once set it stays.
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
