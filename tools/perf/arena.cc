#include "tools/perf/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo {
namespace {

constexpr std::byte kGuard{0xA5};

bool IsGuard(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kGuard; });
}

}  // namespace

Result<std::unique_ptr<PerfArena>> PerfArena::Make(std::uint64_t bytes, PerfMemory memory, Communicator* allocator,
                                                   CudaSession* session) {
  std::unique_ptr<PerfArena> arena(new PerfArena);
  arena->all_bytes_ = bytes + kFront + kGuardBytes;
  if (allocator != nullptr) {
    RONDO_ASSIGN(arena->allocated_, allocator->Allocate(arena->all_bytes_));
    arena->memory_ = arena->allocated_->bytes().data();
  } else {
    void* const mapped = ::mmap(nullptr, arena->all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      return Fail(ErrorCode::kOutOfMemory, "no memory for a buffer of {} bytes: {}", bytes, std::strerror(errno));
    arena->memory_ = static_cast<std::byte*>(mapped);
    ::madvise(mapped, arena->all_bytes_, MADV_HUGEPAGE);
  }
  // The mirror (the host copy) of GPU memory is pinned, too. Otherwise the driver would copy the data through its own
  // staging buffer.
  if (memory != PerfMemory::kHost) {
    RONDO_ASSIGN(arena->pinned_, session->Pin({arena->memory_, arena->all_bytes_}));
  }
  if (IsOnGpu(memory)) {
    RONDO_ASSIGN(arena->on_gpu_, session->Allocate(arena->all_bytes_));
    arena->session_ = session;
  }
  return arena;
}

PerfArena::~PerfArena() {
  pinned_.reset();
  if (allocated_ == nullptr && memory_ != nullptr) ::munmap(memory_, all_bytes_);
}

MutableBytes PerfArena::Guarded(std::uint64_t bytes) {
  bytes_ = bytes;
  std::fill_n(data() - kGuardBytes, kGuardBytes, kGuard);
  std::fill_n(data() + bytes, kGuardBytes, kGuard);
  return {data(), bytes};
}

bool PerfArena::GuardsIntact() const {
  return IsGuard({data() - kGuardBytes, kGuardBytes}) && IsGuard({data() + bytes_, kGuardBytes});
}

Status PerfArena::ToGpu() {
  if (on_gpu_ == nullptr) return {};
  return session_->Write(address() - kGuardBytes, {data() - kGuardBytes, guarded_bytes()});
}

Status PerfArena::FromGpu() {
  if (on_gpu_ == nullptr) return {};
  return session_->Read({data() - kGuardBytes, guarded_bytes()}, address() - kGuardBytes);
}

}  // namespace rondo
