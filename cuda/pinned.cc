#include "cuda/pinned.h"

#include <fmt/core.h>

#include <utility>

namespace rondo::cuda {
namespace {

class Pinned final : public PinnedMemory {
 public:
  Pinned(std::shared_ptr<const Gpu> gpu, void* memory) : gpu_(std::move(gpu)), memory_(memory) {}
  ~Pinned() override {
    const Gpu::Use use(*gpu_);
    gpu_->driver().MemHostUnregister(memory_);
  }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  void* const memory_;
};

}  // namespace

Result<std::unique_ptr<PinnedMemory>> Pin(std::shared_ptr<const Gpu> gpu, MutableBytes memory) {
  if (memory.empty()) return std::make_unique<PinnedMemory>();
  const Gpu::Use use(*gpu);
  RONDO_TRY(gpu->driver().Check(gpu->driver().MemHostRegister(memory.data(), memory.size(), kPinFlags),
                                fmt::format("pinning {} bytes for {}", memory.size(), gpu->name())));
  return std::make_unique<Pinned>(std::move(gpu), memory.data());
}

}  // namespace rondo::cuda
