#include "collectives/intranode/move_streams.h"

#include "collectives/kernels/copy.h"

namespace rondo {

MoveStreams::MoveStreams(Mover& mover) : mover_(mover), past_caches_from_bytes_(LastLevelCacheBytes()) {}

void MoveStreams::Start(const IntranodeOperation& operation, double scale) {
  last_rank_ = operation.world_size - 1;
  scales_ = operation.scales;
  divides_ = operation.divides;
  // If the operation is in place, the result's cache lines are in the cache, because this rank has just read its
  // operands there.
  past_caches_ = !operation.in_place && operation.bytes >= past_caches_from_bytes_;
  submitted_ = done_ = {};
  mover_.Start({operation.descriptor.type, operation.descriptor.op, scale, operation.world_size}, submitted_.size());
}

void MoveStreams::CopyResult(std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  if (bytes == 0) return;
  Submit(kCollects, {.kind = MoveKind::kCopy,
                     .destination = destination,
                     .left = source,
                     .bytes = bytes,
                     .past_caches = past_caches_});
}

void MoveStreams::CopyOperands(std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  if (bytes == 0) return;
  Submit(kWrites, {.kind = scales_ ? MoveKind::kScale : MoveKind::kCopy,
                   .destination = destination,
                   .left = source,
                   .bytes = bytes});
}

void MoveStreams::Fold(Stream stream, Rank rank, std::byte* destination, const std::byte* first, const std::byte* next,
                       std::uint64_t bytes) {
  if (rank == 0 || bytes == 0) return;
  Submit(stream, {.kind = rank == last_rank_ && divides_ ? MoveKind::kReduceDivide : MoveKind::kReduce,
                  .destination = destination,
                  .left = rank == 1 ? first : destination,
                  .right = next,
                  .bytes = bytes,
                  .left_is_input = rank == 1,
                  .right_is_input = true});
}

}  // namespace rondo
