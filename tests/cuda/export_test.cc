// Exports memory of a GPU, with a driver that supports dma-bufs and with one that does not.
#include "cuda/export.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda/fake_gpu.h"

namespace rondo::cuda {
namespace export_test {

TEST_CASE("Where there are dma-bufs one holds the allocation's pages, and outlives nothing but itself") {
  const FakeGpu fake;
  fake.fake.SetDmaBuf(true);
  const auto gpu = Gpu::Open(fake.cuda, 0);
  REQUIRE(gpu.has_value());
  const CUdeviceptr before = fake.Allocate(1000);  // so that the next allocation begins inside a page
  const CUdeviceptr device = fake.Allocate(9000);
  std::vector<std::byte> values(9000);
  std::iota(reinterpret_cast<unsigned char*>(values.data()), reinterpret_cast<unsigned char*>(values.data()) + 9000,
            static_cast<unsigned char>(3));
  fake.fake.WriteDevice(device, values);
  {
    const auto exported = Export(**gpu, reinterpret_cast<const std::byte*>(device));
    REQUIRE(exported.has_value());
    REQUIRE(exported->memory.dma_buf_fd >= 0);
    const std::size_t offset = exported->memory.dma_buf_offset;
    CHECK(offset == device % 4096);
    void* const seen = mmap(nullptr, offset + 9000, PROT_READ, MAP_SHARED, exported->memory.dma_buf_fd, 0);
    REQUIRE(seen != MAP_FAILED);
    CHECK(std::memcmp(static_cast<const std::byte*>(seen) + offset, values.data(), values.size()) == 0);
    munmap(seen, offset + 9000);
    unsigned synchronous = 0;
    REQUIRE_CUDA(fake.cuda.PointerGetAttribute(&synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    CHECK(synchronous == 1);
  }
  REQUIRE_CUDA(fake.cuda.MemFree(before));
  REQUIRE_CUDA(fake.cuda.MemFree(device));
  CHECK(IdentityOf(**gpu, reinterpret_cast<const std::byte*>(device)) == 0);
}

TEST_CASE("Where there are none, or this memory has none, it is exported by its address alone") {
  const FakeGpu fake;
  const auto gpu = Gpu::Open(fake.cuda, 0);
  REQUIRE(gpu.has_value());
  const CUdeviceptr device = fake.Allocate(9000);
  for (const bool refuses : {false, true}) {
    fake.fake.SetDmaBuf(refuses);
    if (refuses) fake.fake.FailCall("MemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED);
    const auto exported = Export(**gpu, reinterpret_cast<const std::byte*>(device));
    REQUIRE(exported.has_value());
    CHECK(exported->memory.dma_buf_fd == -1);
    CHECK(exported->memory.bytes.data() == reinterpret_cast<const std::byte*>(device));
    CHECK(exported->memory.bytes.size() == 9000);
  }
  fake.cuda.MemFree(device);
}

}  // namespace export_test
}  // namespace rondo::cuda
