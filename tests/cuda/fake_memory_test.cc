// The fake driver's devices, memory, kernels and faults.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/fake_gpu.h"

namespace rondo::cuda {
namespace fake_memory_test {

constexpr const char* kSum = "rondo_device_reduce_float32_sum";

std::byte* Pointer(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

template <class T>
T Attribute(const Driver& cuda, CUpointer_attribute attribute, CUdeviceptr address) {
  T value{};
  REQUIRE_CUDA(cuda.PointerGetAttribute(&value, attribute, address));
  return value;
}

TEST_CASE("The fake driver has as many GPUs as FAKE_CUDA_DEVICES says, each with its own PCI address") {
  const FakeDriver fake;
  const Driver& cuda = fake.driver();
  fake.SetDevices(2);
  int count = 0;
  CHECK_CUDA(cuda.DeviceGetCount(&count), CUDA_SUCCESS);
  CHECK(count == 2);
  CHECK(cuda.version == CUDA_VERSION);
  char name[64];
  CHECK_CUDA(cuda.DeviceGetName(name, sizeof name, 1), CUDA_SUCCESS);
  CHECK(std::string(name) == "Fake GPU");
  std::array<CUuuid, 2> uuids{};
  std::array<char[16], 2> places{};
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cuda.DeviceGetUuid(&uuids[i], i), CUDA_SUCCESS);
    CHECK_CUDA(cuda.DeviceGetPCIBusId(places[i], 16, i), CUDA_SUCCESS);
  }
  CHECK(std::memcmp(&uuids[0], &uuids[1], sizeof(CUuuid)) != 0);
  CHECK(std::string(places[0]) == "0000:10:00.0");
  CHECK(std::string(places[1]) == "0000:11:00.0");
  CUdevice device = 0;
  CHECK_CUDA(cuda.DeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  int major = 0;
  CHECK_CUDA(cuda.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
  CHECK(major == 9);
}

TEST_CASE("Calls need a context, and each thread has its own that are current") {
  const FakeGpu gpu;
  std::thread([&] {
    CUdeviceptr address = 0;
    CHECK_CUDA(gpu.cuda.MemAlloc(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CUDA(gpu.cuda.CtxPopCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = nullptr;
    CHECK_CUDA(gpu.cuda.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.CtxPushCurrent(context), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_SUCCESS);
    CUcontext popped = nullptr;
    CHECK_CUDA(gpu.cuda.CtxPopCurrent(&popped), CUDA_SUCCESS);
    CHECK(popped == context);
    CHECK_CUDA(gpu.cuda.DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

// The signal that ends a child which calls `act`; 0: no signal does.
template <class Act>
int SignalOf(Act act) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // instead of the handlers of a sanitizer and of doctest
    act();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("Device memory is not the host's to touch, not even once it is freed") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(100);
  auto* const at = reinterpret_cast<volatile unsigned char*>(memory);
  CHECK(SignalOf([&] { static_cast<void>(at[0]); }) == SIGSEGV);
  CHECK(SignalOf([&] { at[99] = 1; }) == SIGSEGV);
  gpu.cuda.MemFree(memory);
  CHECK(SignalOf([&] { static_cast<void>(at[0]); }) == SIGSEGV);
}

TEST_CASE("A child by fork has no driver") {
  const FakeGpu gpu;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int count = 0;
    _exit(static_cast<int>(gpu.cuda.DeviceGetCount(&count)));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == CUDA_ERROR_NOT_INITIALIZED);
}

TEST_CASE("An address identifies its allocation, and ordinary host memory is unknown") {
  const FakeGpu gpu;
  const CUdeviceptr first = gpu.Allocate(1000);
  CHECK(first % 256 == 0);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CHECK_CUDA(gpu.cuda.MemGetAddressRange(&base, &bytes, first + 999), CUDA_SUCCESS);
  CHECK(base == first);
  CHECK(bytes == 1000);
  CHECK_CUDA(gpu.cuda.MemGetAddressRange(&base, &bytes, first + 1000), CUDA_ERROR_NOT_FOUND);
  CHECK(Attribute<unsigned>(gpu.cuda, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, first + 5) == CU_MEMORYTYPE_DEVICE);
  CHECK(Attribute<int>(gpu.cuda, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, first) == 0);
  CHECK(Attribute<CUdeviceptr>(gpu.cuda, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, first + 5) == first + 5);
  CHECK(Attribute<unsigned>(gpu.cuda, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first) == 0);
  const unsigned yes = 1;
  CHECK_CUDA(gpu.cuda.PointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first), CUDA_SUCCESS);
  CHECK(Attribute<unsigned>(gpu.cuda, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first) == 1);
  unsigned type = 0;
  CHECK_CUDA(
      gpu.cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&type)),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemFree(first + 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemFree(first), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.MemFree(first), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("An address that is freed comes again, as another buffer") {
  const FakeGpu gpu;
  const CUdeviceptr first = gpu.Allocate(2 << 20);
  const auto id = Attribute<unsigned long long>(gpu.cuda, CU_POINTER_ATTRIBUTE_BUFFER_ID, first);
  gpu.cuda.MemFree(first);
  const CUdeviceptr second = gpu.Allocate(2 << 20);
  CHECK(second == first);
  CHECK(Attribute<unsigned long long>(gpu.cuda, CU_POINTER_ATTRIBUTE_BUFFER_ID, second) != id);
  gpu.cuda.MemFree(second);
}

TEST_CASE("A device has so much memory and no more") {
  const FakeGpu gpu;
  gpu.fake.SetMemory(1000);
  const CUdeviceptr memory = gpu.Allocate(600);
  CUdeviceptr more = 0;
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 401), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 400), CUDA_SUCCESS);
  CHECK(gpu.fake.live().memory == 2);
  CHECK(gpu.fake.live().memory_bytes == 1000);
  gpu.cuda.MemFree(memory);
  gpu.cuda.MemFree(more);
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Host memory is registered once, and has the same address on the device") {
  const FakeGpu gpu;
  std::vector<std::byte> memory(10000);
  CHECK_CUDA(gpu.cuda.MemHostRegister(memory.data(), 10000, 0), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.MemHostRegister(memory.data() + 9999, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(gpu.fake.live().registrations == 1);
  CUdeviceptr address = 0;
  CHECK_CUDA(gpu.cuda.MemHostGetDevicePointer(&address, memory.data() + 1, 0), CUDA_SUCCESS);
  CHECK(Pointer(address) == memory.data() + 1);
  CHECK(Attribute<unsigned>(gpu.cuda, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CU_MEMORYTYPE_HOST);
  CHECK_CUDA(gpu.cuda.MemHostUnregister(memory.data()), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.MemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("Memory that is unregistered is the device's no more, and work that comes to it then breaks the context") {
  const FakeGpu gpu;
  std::vector<std::byte> host(100);
  const CUdeviceptr memory = gpu.Allocate(100);
  CUstream stream = gpu.NewStream();
  CHECK_CUDA(gpu.cuda.MemHostRegister(host.data(), 100, 0), CUDA_SUCCESS);
  gpu.fake.Hold(stream);
  CHECK_CUDA(gpu.cuda.MemcpyDtoHAsync(host.data(), memory, 100, stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.MemHostUnregister(host.data()), CUDA_SUCCESS);
  gpu.fake.Release(stream);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("Memory has a descriptor for other devices where the test says that this is supported") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(2 << 20);
  int descriptor = -1;
  const auto ask = [&](CUdeviceptr address, std::size_t bytes) {
    return gpu.cuda.MemGetHandleForAddressRange(&descriptor, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  };
  CHECK_CUDA(ask(memory, 2 << 20), CUDA_ERROR_NOT_SUPPORTED);
  gpu.fake.SetDmaBuf(true);
  CHECK_CUDA(ask(memory, 100), CUDA_ERROR_INVALID_VALUE);  // the range is not whole pages
  CHECK_CUDA(ask(memory, 2 << 20), CUDA_SUCCESS);
  CHECK(close(descriptor) == 0);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("A kernel computes on device memory and registered memory, from arguments as they were at its launch") {
  const FakeGpu gpu;
  CUmodule module = gpu.Load();
  CUfunction none = nullptr;
  CHECK_CUDA(gpu.cuda.ModuleGetFunction(&none, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  CUstream stream = gpu.NewStream();
  Pinned<float, 100> right(gpu);
  right.values.fill(2.0F);
  const CUdeviceptr left = gpu.Allocate(400);
  const std::vector<float> ones(100, 1.0F);
  gpu.fake.WriteDevice(left, std::as_bytes(std::span(ones)));
  ReduceArguments arguments;
  arguments.destination = Pointer(left);
  arguments.sources[0] = Pointer(left);
  arguments.sources[1] = Pointer(right.address());
  arguments.elements = 100;
  arguments.count = 2;
  gpu.fake.Hold(stream);
  // The launch copies its parameters, so they may change now.
  CHECK_CUDA(gpu.Launch(module, kSum, arguments, stream), CUDA_SUCCESS);
  CHECK(gpu.Read<float>(left, 100) == ones);
  gpu.fake.Release(stream);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  CHECK(gpu.Read<float>(left, 100) == std::vector<float>(100, 3.0F));
  CHECK(gpu.fake.kernels() == 1);
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(left);
}

TEST_CASE("A kernel that touches what is not the device's breaks the context forever") {
  const FakeGpu gpu;
  CUmodule module = gpu.Load();
  const CUdeviceptr memory = gpu.Allocate(400);
  CUstream stream = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  std::array<float, 100> pageable{};
  ReduceArguments arguments;
  arguments.destination = Pointer(memory);
  arguments.sources[0] = Pointer(memory);
  arguments.elements = 100;
  arguments.count = 1;
  SUBCASE("past the end of an allocation") { arguments.elements = 101; }
  SUBCASE("host memory that is not registered") {
    arguments.sources[0] = reinterpret_cast<const std::byte*>(pageable.data());
  }
  SUBCASE("because a test wants it to") { gpu.fake.FaultKernel(); }
  CHECK_CUDA(gpu.Launch(module, kSum, arguments, stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.StreamQuery(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.MemsetD8Async(memory, 0, 1, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more = 0;
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  // Calls that release objects release them and still return the error.
  CHECK_CUDA(gpu.cuda.ModuleUnload(module), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.EventDestroy(event), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.StreamDestroy(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_CUDA(gpu.cuda.MemFree(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("A kernel does not reach another device's memory, and a copy does") {
  const FakeGpu gpu;
  gpu.fake.SetDevices(2);
  CUmodule module = gpu.Load();
  const CUdeviceptr own = gpu.Allocate(4);
  CUcontext other = nullptr;
  gpu.cuda.DevicePrimaryCtxRetain(&other, 1);
  gpu.cuda.CtxPushCurrent(other);
  const CUdeviceptr theirs = gpu.Allocate(4);
  gpu.cuda.CtxPopCurrent(nullptr);
  CHECK(Attribute<int>(gpu.cuda, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, theirs) == 1);
  CHECK_CUDA(gpu.cuda.MemcpyDtoDAsync(own, theirs, 4, nullptr), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_SUCCESS);
  ReduceArguments arguments;
  arguments.destination = Pointer(own);
  arguments.sources[0] = Pointer(theirs);
  arguments.elements = 1;
  arguments.count = 1;
  CHECK_CUDA(gpu.Launch(module, kSum, arguments, nullptr), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.MemFree(own);
  gpu.cuda.CtxPushCurrent(other);
  CHECK_CUDA(gpu.cuda.MemFree(theirs), CUDA_SUCCESS);  // the device of this memory is not broken
  gpu.cuda.CtxPopCurrent(nullptr);
  gpu.cuda.DevicePrimaryCtxRelease(1);
}

TEST_CASE("The nth call fails if a test asks for it, and does nothing") {
  const FakeGpu gpu;
  gpu.fake.FailCall("MemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr memory = gpu.Allocate(1);
  CUdeviceptr more = 0;
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(gpu.fake.live().memory == 1);
  CHECK(gpu.fake.Calls("MemAlloc") == 2);
  CHECK_CUDA(gpu.cuda.MemAlloc(&more, 1), CUDA_SUCCESS);
  CHECK(gpu.cuda.Check(CUDA_ERROR_OUT_OF_MEMORY, "allocating").error().message() ==
        "allocating failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  gpu.cuda.MemFree(memory);
  gpu.cuda.MemFree(more);
}

TEST_CASE("What is not given back is counted") {
  const FakeGpu gpu;
  Pinned<int, 1> word(gpu);
  const CUdeviceptr memory = gpu.Allocate(10);
  CUstream stream = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  CUmodule module = gpu.Load();
  CHECK(
      gpu.fake.live() ==
      fake::Live{
          .memory = 1, .memory_bytes = 10, .streams = 1, .events = 1, .registrations = 1, .modules = 1, .contexts = 1});
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(memory);
}

}  // namespace fake_memory_test
}  // namespace rondo::cuda
