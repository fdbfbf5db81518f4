// The memory of one buffer of a measurement. It is large enough for the largest size of the measurement. Guard bytes
// surround the part that is in use. A buffer in GPU memory has a mirror on the host, in which data is filled in and
// checked.
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
  // `allocator`: the communicator that allocates the memory; null: plain memory. `session`: required for every kind of
  // memory except kHost. Both must outlive the arena.
  static Result<std::unique_ptr<PerfArena>> Make(std::uint64_t bytes, PerfMemory memory, Communicator* allocator,
                                                 CudaSession* session);
  ~PerfArena();
  PerfArena(const PerfArena&) = delete;
  PerfArena& operator=(const PerfArena&) = delete;

  // Makes the first `bytes` bytes the part in use, writes guards around this part, and returns the part. The result is
  // always host memory.
  MutableBytes Guarded(std::uint64_t bytes);
  MutableBytes bytes() { return {data(), bytes_}; }
  bool GuardsIntact() const;
  // The address to pass to operations. It is a GPU address if the buffer is in GPU memory.
  std::byte* address() const { return on_gpu_ != nullptr ? on_gpu_->address() + kFront : data(); }
  // ToGpu and FromGpu copy the part in use and its guards from the mirror to the GPU, and back. Without a mirror they
  // do nothing.
  Status ToGpu();
  Status FromGpu();

 private:
  static constexpr std::size_t kFront = 4096;  // the data starts at the beginning of a page
  static constexpr std::size_t kGuardBytes = 64;

  PerfArena() = default;
  std::byte* data() const { return memory_ + kFront; }
  std::size_t guarded_bytes() const { return bytes_ + 2 * kGuardBytes; }

  std::byte* memory_ = nullptr;
  std::uint64_t all_bytes_ = 0;
  std::unique_ptr<Memory> allocated_;  // null: memory_ is mapped
  std::unique_ptr<PinnedMemory> pinned_;
  CudaSession* session_ = nullptr;
  std::unique_ptr<CudaMemory> on_gpu_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rondo
