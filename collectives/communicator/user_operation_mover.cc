#include "collectives/communicator/user_operation_mover.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

namespace rondo {
namespace {

// Operands are in the user's buffers and in received data, at any address; but a user's function may rely on alignment.
// Unaligned data is copied through pieces of this size.
constexpr std::size_t kPieceBytes = 4096;

}  // namespace

void UserOperationMover::Start(const MoveContext& context, std::size_t streams) {
  type_ = context.type;
  if (operation_ != nullptr) combined_.assign(streams, 0);
  mover_->Start(context, streams);
}

void UserOperationMover::Submit(std::uint32_t stream, const Move& move) {
  if (failure_) return;
  if (operation_ == nullptr || move.kind != MoveKind::kReduce) return mover_->Submit(stream, move);
  try {
    Combine(move);
    combined_[stream] += move.bytes;
  } catch (const std::exception& thrown) {
    failure_ = fmt::format("the function of operation '{}' threw: {}", operation_->name, thrown.what());
  } catch (...) {
    failure_ = fmt::format("the function of operation '{}' threw an exception of unknown type", operation_->name);
  }
}

std::uint64_t UserOperationMover::Done(std::uint32_t stream) {
  return mover_->Done(stream) + (operation_ != nullptr ? combined_[stream] : 0);
}

void UserOperationMover::Combine(const Move& move) const {
  const std::size_t element_bytes = SizeOf(type_);
  const auto aligned = [&](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % element_bytes == 0;
  };
  if (aligned(move.left) && aligned(move.right) && aligned(move.destination))
    return operation_->combine(move.left, move.right, move.destination, move.bytes / element_bytes, type_);

  struct alignas(16) Piece {
    std::array<std::byte, kPieceBytes> bytes;
  };
  Piece left, right;
  for (std::size_t at = 0; at < move.bytes; at += kPieceBytes) {
    const std::size_t n = std::min(kPieceBytes, move.bytes - at);
    std::memcpy(left.bytes.data(), move.left + at, n);
    std::memcpy(right.bytes.data(), move.right + at, n);
    operation_->combine(left.bytes.data(), right.bytes.data(), left.bytes.data(), n / element_bytes, type_);
    std::memcpy(move.destination + at, left.bytes.data(), n);
  }
}

}  // namespace rondo
