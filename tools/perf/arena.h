// The memory that one buffer of a measurement lies in, of the largest size, with a guard in front and a guard behind
// whatever size is in use. Memory of a GPU has a mirror on the host, in which it is filled and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "cuda/session.h"
#include "tools/perf/case.h"

namespace rondo {

class PerfArena {
 public:
  // `allocator`: in memory of that communicator; `session`: of all memory but kHost. Null: none. They outlive it.
  static Result<std::unique_ptr<PerfArena>> Make(std::uint64_t bytes, PerfMemory memory, Communicator* allocator,
                                                 CudaSession* session);
  ~PerfArena();
  PerfArena(const PerfArena&) = delete;
  PerfArena& operator=(const PerfArena&) = delete;

  // The first `bytes`, guarded from now on: on the host.
  MutableBytes Guarded(std::uint64_t bytes);
  MutableBytes bytes() { return {data(), bytes_}; }
  bool GuardsIntact() const;
  // For operations.
  std::byte* address() const { return on_gpu_ != nullptr ? on_gpu_->address() + kFront : data(); }
  // From the mirror and to it, guards included; nothing where there is none.
  Status ToGpu();
  Status FromGpu();

 private:
  static constexpr std::size_t kFront = 4096;  // the data starts on a page
  static constexpr std::size_t kGuardBytes = 64;

  PerfArena() = default;
  std::byte* data() const { return memory_ + kFront; }
  std::size_t guarded_bytes() const { return bytes_ + 2 * kGuardBytes; }

  std::byte* memory_ = nullptr;
  std::uint64_t all_bytes_ = 0;
  std::unique_ptr<Memory> allocated_;  // null: it is mapped
  std::unique_ptr<PinnedMemory> pinned_;
  CudaSession* session_ = nullptr;
  std::unique_ptr<CudaMemory> on_gpu_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rondo
