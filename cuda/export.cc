#include "cuda/export.h"

#include <unistd.h>

namespace rondo::cuda {
namespace {

// A dma-buf of the allocation, extended to whole pages of the host. Empty if the driver does not export this kind of
// memory. An adapter may then still be able to use the memory's address.
Fd DmaBufOf(const Gpu& gpu, CUdeviceptr base, std::size_t bytes) {
  if (gpu.Attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0) return {};
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const CUdeviceptr begin = base - base % page;
  const std::size_t whole = RoundUp(base + bytes - begin, page);
  int made = -1;
  if (gpu.driver().MemGetHandleForAddressRange(&made, begin, whole, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) !=
      CUDA_SUCCESS)
    return {};
  return Fd(made);
}

}  // namespace

Result<ExportedMemory> Export(const Gpu& gpu, const std::byte* memory) {
  const Gpu::Use use(gpu);
  const Driver& driver = gpu.driver();
  const auto must = [&](CUresult result, std::string_view doing) -> Status {
    Status done = driver.Check(result, doing);
    if (done) return done;
    return Fail(done.error().With([](ErrorDetails& d) { d.code = ErrorCode::kUnsupported; }));
  };
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  RONDO_TRY(must(driver.MemGetAddressRange(&base, &bytes, AddressOf(memory)), "finding an allocation"));
  ExportedMemory exported;
  RONDO_TRY(must(driver.PointerGetAttribute(&exported.identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, base),
                 "getting an allocation's identity"));
  const unsigned on = 1;
  RONDO_TRY(must(driver.PointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base),
                 "setting SYNC_MEMOPS for an allocation"));
  exported.dma_buf = DmaBufOf(gpu, base, bytes);
  exported.memory.bytes = {reinterpret_cast<const std::byte*>(base), bytes};
  exported.memory.device = gpu.name();
  if (exported.dma_buf) {
    exported.memory.dma_buf_fd = exported.dma_buf.get();
    exported.memory.dma_buf_offset = base % static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }
  return exported;
}

std::uint64_t IdentityOf(const Gpu& gpu, const std::byte* memory) {
  const Gpu::Use use(gpu);
  std::uint64_t identity = 0;
  if (gpu.driver().PointerGetAttribute(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, AddressOf(memory)) != CUDA_SUCCESS)
    return 0;
  return identity;
}

}  // namespace rondo::cuda
