// Two processes with one fake GPU: each uses memory and events of the other. The second process is this program again;
// it runs one of the cases named "child: ...".
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <vector>

#include "tests/cuda/fake_gpu.h"
#include "tests/cuda/other_process.h"

namespace rondo::cuda {
namespace fake_ipc_test {

TEST_CASE("child: opens memory" * doctest::skip()) {
  const Line line(SocketOfChild());
  {
    const FakeGpu gpu;
    const auto handle = line.Receive<CUipcMemHandle>();
    CUdeviceptr memory = 0;
    CHECK_CUDA(gpu.cuda.IpcOpenMemHandle(&memory, handle, 0), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_CUDA(gpu.cuda.IpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CUdeviceptr again = 0;
    CHECK_CUDA(gpu.cuda.IpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
    CHECK(again == memory);
    CHECK(gpu.fake.live().opened == 2);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    CHECK_CUDA(gpu.cuda.MemGetAddressRange(&base, &bytes, memory + 999), CUDA_SUCCESS);
    CHECK(base == memory);
    CHECK(bytes == 1000);
    CHECK(gpu.Read<int>(memory, 1)[0] == 0x07070707);
    // A kernel may use the memory.
    CUmodule module = gpu.Load();
    ReduceArguments arguments;
    arguments.destination = reinterpret_cast<std::byte*>(memory);
    arguments.sources[0] = arguments.destination;
    arguments.sources[1] = arguments.destination;
    arguments.elements = 4;
    arguments.count = 2;
    CHECK_CUDA(gpu.Launch(module, "rondo_device_reduce_uint8_sum", arguments, nullptr), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_SUCCESS);
    CUipcMemHandle passed_on{};
    CHECK_CUDA(gpu.cuda.IpcGetMemHandle(&passed_on, memory), CUDA_ERROR_INVALID_VALUE);
    CHECK_CUDA(gpu.cuda.MemFree(memory), CUDA_ERROR_INVALID_VALUE);
    CHECK_CUDA(gpu.cuda.IpcCloseMemHandle(memory), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.IpcCloseMemHandle(memory), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.IpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
    gpu.cuda.ModuleUnload(module);
  }
  line.Send('k');
}

TEST_CASE("Another process sees the whole allocation, wherever in it the handle was taken") {
  const FakeGpu gpu;
  Other other("child: opens memory");
  const CUdeviceptr memory = gpu.Allocate(1000);
  gpu.cuda.MemsetD8Async(memory, 7, 1000, nullptr);
  gpu.cuda.CtxSynchronize();
  CUipcMemHandle handle{};
  CHECK_CUDA(gpu.cuda.IpcGetMemHandle(&handle, memory + 500), CUDA_SUCCESS);
  CUdeviceptr own = 0;
  CHECK_CUDA(gpu.cuda.IpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
  other.line.Send(handle);
  other.line.Receive<char>();
  CHECK(other.Exit() == 0);
  CHECK(gpu.Read<int>(memory, 2) == std::vector<int>{0x0e0e0e0e, 0x07070707});
  gpu.cuda.MemFree(memory);
}

TEST_CASE("child: exports memory and ends" * doctest::skip()) {
  const Line line(SocketOfChild());
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(1000);
  CUipcMemHandle handle{};
  CHECK_CUDA(gpu.cuda.IpcGetMemHandle(&handle, memory), CUDA_SUCCESS);
  line.Send(handle);
  line.Receive<char>();
  gpu.cuda.MemFree(memory);
  const CUdeviceptr next = gpu.Allocate(1000);  // gets the address and the descriptor number of the freed memory
  line.Send('f');
  line.Receive<char>();
  gpu.cuda.MemFree(next);
}

TEST_CASE("A handle is worth nothing once its memory is freed, or its process is gone") {
  const FakeGpu gpu;
  Other other("child: exports memory and ends");
  const auto handle = other.line.Receive<CUipcMemHandle>();
  CUdeviceptr memory = 0;
  const auto open = [&] { return gpu.cuda.IpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS); };
  CHECK_CUDA(open(), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.IpcCloseMemHandle(memory), CUDA_SUCCESS);
  other.line.Send('f');
  other.line.Receive<char>();
  CHECK_CUDA(open(), CUDA_ERROR_INVALID_VALUE);
  other.line.Send('e');
  CHECK(other.Exit() == 0);
  CHECK_CUDA(open(), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("child: waits for an event" * doctest::skip()) {
  const Line line(SocketOfChild());
  {
    const FakeGpu gpu;
    const auto handle = line.Receive<CUipcEventHandle>();
    CUevent event = nullptr;
    REQUIRE_CUDA(gpu.cuda.IpcOpenEventHandle(&event, handle));
    CUstream stream = gpu.NewStream();
    CHECK_CUDA(gpu.cuda.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);  // never recorded
    CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
    line.Send('r');
    line.Receive<char>();  // the event is recorded, but its stream has not reached it
    CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_ERROR_NOT_READY);
    CHECK_CUDA(gpu.cuda.StreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    line.Send('w');
    CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.EventSynchronize(event), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.EventDestroy(event), CUDA_SUCCESS);
    gpu.cuda.StreamDestroy(stream);
  }
  line.Send('d');
}

TEST_CASE("A stream waits for an event that another process has recorded") {
  const FakeGpu gpu;
  Other other("child: waits for an event");
  CUevent event = nullptr;
  // An event that processes share must be made without timing.
  CHECK_CUDA(gpu.cuda.EventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  event = gpu.NewEvent(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  CUipcEventHandle handle{};
  CHECK_CUDA(gpu.cuda.IpcGetEventHandle(&handle, event), CUDA_SUCCESS);
  CUstream stream = gpu.NewStream();
  gpu.fake.Hold(stream);
  other.line.Send(handle);
  other.line.Receive<char>();
  CHECK_CUDA(gpu.cuda.EventRecord(event, stream), CUDA_SUCCESS);
  other.line.Send('r');
  other.line.Receive<char>();
  gpu.fake.Release(stream);
  CHECK(other.line.Receive<char>() == 'd');
  CHECK(other.Exit() == 0);
  CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_SUCCESS);
  gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("child: does not initialize" * doctest::skip()) {
  const Line line(SocketOfChild());
  void* const library = dlopen(FakeDriver::Path().c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  int count = 0;
  line.Send(reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(library, "cuDeviceGetCount"))(&count));
}

TEST_CASE("Before cuInit there is nothing") {
  Other uninitialized("child: does not initialize");
  CHECK_CUDA(uninitialized.line.Receive<CUresult>(), CUDA_ERROR_NOT_INITIALIZED);
  CHECK(uninitialized.Exit() == 0);
}

TEST_CASE("child: ends with work to do" * doctest::skip()) {
  const Line line(SocketOfChild());
  const FakeDriver fake;
  const Driver& cuda = fake.driver();
  CUcontext context = nullptr;
  REQUIRE_CUDA(cuda.DevicePrimaryCtxRetain(&context, 0));
  REQUIRE_CUDA(cuda.CtxPushCurrent(context));
  CUdeviceptr word = 0;
  CUstream stream = nullptr;
  REQUIRE_CUDA(cuda.MemAlloc(&word, 8));
  REQUIRE_CUDA(cuda.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  CHECK_CUDA(cuda.StreamWaitValue64(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  CHECK_CUDA(cuda.EventRecord(nullptr, stream), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CUDA(cuda.MemsetD8Async(word, 0, 8, stream), CUDA_SUCCESS);
}

TEST_CASE("A process ends whatever its streams wait for") {
  Other other("child: ends with work to do");
  CHECK(other.Exit() == 0);
}

TEST_CASE("child: sees one of four" * doctest::skip()) {
  const Line line(SocketOfChild());
  const FakeDriver fake;
  char place[16];
  CHECK_CUDA(fake.driver().DeviceGetPCIBusId(place, sizeof place, 0), CUDA_SUCCESS);
  CHECK(std::string(place) == "0000:13:00.0");
  CUdevice device = 0;
  CHECK_CUDA(fake.driver().DeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("CUDA_VISIBLE_DEVICES says which of the GPUs a process sees") {
  setenv("FAKE_CUDA_DEVICES", "4", 1);
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  Other other("child: sees one of four");
  unsetenv("FAKE_CUDA_DEVICES");
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(other.Exit() == 0);
}

}  // namespace fake_ipc_test
}  // namespace rondo::cuda
