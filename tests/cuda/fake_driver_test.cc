// The fake driver's streams, events, kernels and faults: how a GPU's behaviour differs from the host's. Other tests
// that use the fake driver rely on these properties.
#include "tests/cuda/fake_driver/fake_driver.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/cuda/fake_gpu.h"
#include "tests/support/sanitized.h"

namespace rondo::cuda {
namespace fake_driver_test {

using Numbers = std::vector<int>;

// Waits until another stream has done many pieces of work. Meanwhile, streams that can advance have very probably
// advanced.
void LetOthersWork(const FakeGpu& gpu) {
  CUstream stream = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  for (int i = 0; i < 50; ++i) CHECK_CUDA(gpu.cuda.EventRecord(event, stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("A copy has not happened before its stream comes to it") {
  const FakeGpu gpu;
  Pinned<int, 4> from(gpu);
  from.values = {1, 2, 3, 4};
  const CUdeviceptr to = gpu.Allocate(16);
  CUstream stream = gpu.NewStream();
  gpu.fake.Hold(stream);
  CHECK_CUDA(gpu.cuda.MemcpyHtoDAsync(to, from.values.data(), 16, stream), CUDA_SUCCESS);
  LetOthersWork(gpu);
  CHECK(gpu.Read<int>(to, 4) == Numbers{0, 0, 0, 0});
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_NOT_READY);
  from.values[0] = 9;  // too early: the copy will read this value

  gpu.fake.Release(stream);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(to, 4) == Numbers{9, 2, 3, 4});
  CHECK(gpu.fake.copied() == fake::BytesCopied{.to_device = 16});
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(to);
}

TEST_CASE("A held stream goes on step by step") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(4);
  CUstream stream = gpu.NewStream();
  gpu.fake.Hold(stream);
  for (const unsigned char value : {1, 2, 3}) gpu.cuda.MemsetD8Async(memory, value, 4, stream);
  CHECK(gpu.fake.Pending(stream) == 3);
  for (const int value : {0x01010101, 0x02020202, 0x03030303}) {
    gpu.fake.Step(stream);
    CHECK(gpu.Read<int>(memory, 1) == Numbers{value});
  }
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_SUCCESS);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("Who looks while a copy is made sees half of it") {
  if (kSanitized) return;  // the sanitizer would report this data race
  const FakeGpu gpu;
  constexpr std::size_t kBytes = 4096;  // a copy of 4096 bytes in one piece would be too fast to observe
  const CUdeviceptr memory = gpu.Allocate(kBytes);
  CUstream stream = gpu.NewStream();
  gpu.fake.SetDelay(2000, 7);
  bool half = false;
  for (unsigned char value = 1; value < 200 && !half; ++value) {
    CHECK_CUDA(gpu.cuda.MemsetD8Async(memory, value, kBytes, stream), CUDA_SUCCESS);
    while (!half && gpu.cuda.StreamQuery(stream) == CUDA_ERROR_NOT_READY) {
      const auto seen = gpu.fake.ReadDevice(memory, kBytes);
      // Two reads return the same half-copied bytes, so this state lasts a while.
      half = seen.front() != seen.back() && gpu.fake.ReadDevice(memory, kBytes) == seen;
    }
  }
  CHECK(half);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("Memory that is not registered makes the caller wait for its stream") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(4);
  CUstream stream = gpu.NewStream();
  gpu.fake.Hold(stream);
  CHECK_CUDA(gpu.cuda.MemsetD8Async(memory, 5, 4, stream), CUDA_SUCCESS);
  std::atomic<bool> back = false;
  std::array<unsigned char, 4> to{};
  CUcontext context = nullptr;
  gpu.cuda.DevicePrimaryCtxRetain(&context, 0);
  std::thread caller([&] {
    gpu.cuda.CtxPushCurrent(context);
    CHECK_CUDA(gpu.cuda.MemcpyDtoHAsync(to.data(), memory, 4, stream), CUDA_SUCCESS);
    back = true;
  });
  while (gpu.fake.Calls("MemcpyDtoHAsync") == 0) std::this_thread::yield();
  LetOthersWork(gpu);
  CHECK(!back);
  gpu.fake.Release(stream);
  caller.join();
  CHECK(to == std::array<unsigned char, 4>{5, 5, 5, 5});
  gpu.cuda.DevicePrimaryCtxRelease(0);
  gpu.cuda.StreamDestroy(stream);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("Work of one stream is done in order, that of two in any") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(8);
  CUstream first = gpu.NewStream();
  CUstream second = gpu.NewStream();
  gpu.fake.Hold(first);
  for (const unsigned char value : {1, 2, 3}) gpu.cuda.MemsetD8Async(memory, value, 4, first);
  gpu.cuda.MemcpyDtoDAsync(memory + 4, memory, 4, second);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(second), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 2) == Numbers{0, 0});
  gpu.fake.Release(first);
  CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 2) == Numbers{0x03030303, 0});
  gpu.cuda.StreamDestroy(first);
  gpu.cuda.StreamDestroy(second);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("A copy in two dimensions takes its rows by their pitches") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(6 * sizeof(int));
  const std::vector<int> from = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from.data();
  copy.srcXInBytes = sizeof(int);
  copy.srcPitch = 3 * sizeof(int);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = 2 * sizeof(int);
  copy.WidthInBytes = 2 * sizeof(int);
  copy.Height = 3;
  CHECK_CUDA(gpu.cuda.Memcpy2DAsync(&copy, nullptr), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 6) == Numbers{2, 3, 5, 6, 8, 9});
  copy.Height = 4;  // more rows than the memory has
  CHECK_CUDA(gpu.cuda.Memcpy2DAsync(&copy, nullptr), CUDA_ERROR_INVALID_VALUE);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("Copies out of bounds, and of the wrong kind of memory, are refused when they are asked for") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(100);
  std::array<std::byte, 200> host{};
  CHECK_CUDA(gpu.cuda.MemcpyHtoDAsync(memory, host.data(), 101, nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemcpyHtoDAsync(memory + 50, host.data(), 51, nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(host.data()), host.data() + 100, 9, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemcpyDtoHAsync(reinterpret_cast<void*>(memory), memory + 50, 9, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CUDA(gpu.cuda.MemcpyHtoDAsync(memory, host.data(), 0, nullptr), CUDA_SUCCESS);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("A stream waits for the record that an event had at the time of the call") {
  const FakeGpu gpu;
  CUstream recorder = gpu.NewStream();
  CUstream waiter = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  // The event was never recorded, so there is nothing to wait for.
  CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(waiter, event, 0), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(waiter), CUDA_SUCCESS);

  CHECK_CUDA(gpu.cuda.EventRecord(event, recorder), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(recorder), CUDA_SUCCESS);
  gpu.fake.Hold(waiter);
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(waiter, event, 0), CUDA_SUCCESS);
  gpu.fake.Hold(recorder);
  CHECK_CUDA(gpu.cuda.EventRecord(event, recorder), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_ERROR_NOT_READY);
  gpu.fake.Release(waiter);
  // The waiter does not wait for the second record.
  CHECK_CUDA(gpu.cuda.StreamSynchronize(waiter), CUDA_SUCCESS);

  CHECK_CUDA(gpu.cuda.StreamWaitEvent(waiter, event, 0), CUDA_SUCCESS);
  gpu.cuda.EventDestroy(event);  // existing waits continue
  LetOthersWork(gpu);
  CHECK_CUDA(gpu.cuda.StreamQuery(waiter), CUDA_ERROR_NOT_READY);
  gpu.fake.Release(recorder);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(waiter), CUDA_SUCCESS);
  gpu.cuda.StreamDestroy(recorder);
  gpu.cuda.StreamDestroy(waiter);
}

TEST_CASE("Events tell the time between them, but those that are made not to") {
  const FakeGpu gpu;
  CUstream stream = gpu.NewStream();
  CUevent start = gpu.NewEvent(CU_EVENT_DEFAULT);
  CUevent end = gpu.NewEvent(CU_EVENT_DEFAULT);
  CUevent silent = gpu.NewEvent();
  float milliseconds = -1;
  CHECK_CUDA(gpu.cuda.EventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);  // not recorded
  gpu.cuda.EventRecord(start, stream);
  gpu.cuda.EventRecord(silent, stream);
  gpu.fake.Hold(stream);
  gpu.cuda.EventRecord(end, stream);
  CHECK_CUDA(gpu.cuda.EventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  gpu.fake.Release(stream);
  CHECK_CUDA(gpu.cuda.EventSynchronize(end), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.EventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  CHECK_CUDA(gpu.cuda.EventElapsedTime(&milliseconds, start, silent), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent event : {start, end, silent}) gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("A stream waits until a word of the host has come to a value, and numbers may wrap") {
  const FakeGpu gpu;
  Pinned<cuuint64_t, 1> word(gpu);
  CUstream stream = gpu.NewStream();
  const auto wait = [&](cuuint64_t value, unsigned flags) {
    CHECK_CUDA(gpu.cuda.StreamWaitValue64(stream, word.address(), value, flags), CUDA_SUCCESS);
  };
  const auto set = [&](cuuint64_t value) { __atomic_store_n(word.values.data(), value, __ATOMIC_RELEASE); };
  set(~cuuint64_t{0} - 1);
  wait(1, CU_STREAM_WAIT_VALUE_GEQ);  // 1 is three more than the word's value, because numbers wrap around
  LetOthersWork(gpu);
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_NOT_READY);
  set(1);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  wait(4, CU_STREAM_WAIT_VALUE_EQ);
  LetOthersWork(gpu);
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_NOT_READY);
  set(4);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  wait(8, CU_STREAM_WAIT_VALUE_AND);
  LetOthersWork(gpu);
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_NOT_READY);
  set(12);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamWaitValue64(stream, word.address() + 4, 0, 0), CUDA_ERROR_INVALID_VALUE);  // misaligned
  cuuint64_t unregistered = 0;
  CHECK_CUDA(gpu.cuda.StreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(&unregistered), 0, 0),
             CUDA_ERROR_INVALID_VALUE);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("The default stream waits for blocking streams, and they for it; others take no notice") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(4);
  CUstream blocking = gpu.NewStream(CU_STREAM_DEFAULT);
  CUstream apart = gpu.NewStream();
  gpu.fake.Hold(blocking);
  gpu.cuda.MemsetD8Async(memory, 1, 4, blocking);
  gpu.cuda.MemsetD8Async(memory, 2, 4, nullptr);
  gpu.cuda.MemsetD8Async(memory, 3, 4, apart);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(apart), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 1) == Numbers{0x03030303});
  CHECK_CUDA(gpu.cuda.StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  gpu.fake.Release(blocking);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(nullptr), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 1) == Numbers{0x02020202});

  gpu.fake.Hold(nullptr);
  gpu.cuda.MemsetD8Async(memory, 4, 4, nullptr);
  gpu.cuda.MemsetD8Async(memory, 5, 4, blocking);
  LetOthersWork(gpu);
  CHECK_CUDA(gpu.cuda.StreamQuery(blocking), CUDA_ERROR_NOT_READY);
  gpu.fake.Release(nullptr);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(blocking), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 1) == Numbers{0x05050505});
  gpu.cuda.StreamDestroy(blocking);
  gpu.cuda.StreamDestroy(apart);
  gpu.cuda.MemFree(memory);
}

TEST_CASE("The first launch of a kernel waits for all that is under way, and holds up every other call") {
  const FakeGpu gpu;
  CUstream held = gpu.NewStream(), other = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  CUmodule module = gpu.Load();
  CUfunction function = nullptr;
  REQUIRE_CUDA(gpu.cuda.ModuleGetFunction(&function, module, "rondo_device_reduce_uint8_sum"));
  const CUdeviceptr memory = gpu.Allocate(1);
  ReduceArguments arguments;
  arguments.destination = reinterpret_cast<std::byte*>(memory);
  arguments.sources[0] = arguments.destination;
  arguments.count = 1;
  arguments.elements = 1;
  void* parameters[] = {&arguments};
  const auto launch = [&] { return gpu.cuda.LaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, other, parameters, nullptr); };

  gpu.fake.Hold(held);
  REQUIRE_CUDA(gpu.cuda.EventRecord(event, held));
  CUcontext context = nullptr;
  REQUIRE_CUDA(gpu.cuda.DevicePrimaryCtxRetain(&context, 0));
  std::atomic<int> ended{0};
  const auto on_thread = [&](auto call) {
    return std::thread([&, call] {
      gpu.cuda.CtxPushCurrent(context);
      CHECK_CUDA(call(), CUDA_SUCCESS);
      ++ended;
      gpu.cuda.CtxPopCurrent(nullptr);
    });
  };
  std::thread loads = on_thread(launch);
  while (gpu.fake.Calls("LaunchKernel") == 0) std::this_thread::yield();
  std::thread asks = on_thread([&] { return gpu.cuda.EventRecord(event, other); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(ended == 0);
  gpu.fake.Release(held);
  loads.join();
  asks.join();
  CHECK(ended == 2);

  // Now the kernel is loaded, so its launch waits for nothing.
  REQUIRE_CUDA(gpu.cuda.StreamSynchronize(held));
  gpu.fake.Hold(held);
  REQUIRE_CUDA(gpu.cuda.EventRecord(event, held));
  CHECK_CUDA(launch(), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(other), CUDA_SUCCESS);
  gpu.fake.Release(held);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(held), CUDA_SUCCESS);
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.MemFree(memory);
  gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(held);
  gpu.cuda.StreamDestroy(other);
  gpu.cuda.DevicePrimaryCtxRelease(0);
}

TEST_CASE("A host function runs in its turn, and may not call CUDA") {
  const FakeGpu gpu;
  CUstream stream = gpu.NewStream();
  struct Seen {
    const Driver* cuda;
    CUresult answer = CUDA_SUCCESS;
  } seen{&gpu.cuda};
  CHECK_CUDA(gpu.cuda.LaunchHostFunc(
                 stream,
                 [](void* data) {
                   auto* const own = static_cast<Seen*>(data);
                   int count = 0;
                   own->answer = own->cuda->DeviceGetCount(&count);
                 },
                 &seen),
             CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_SUCCESS);
  CHECK_CUDA(seen.answer, CUDA_ERROR_NOT_PERMITTED);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("A stream that is destroyed still does what it has to do") {
  const FakeGpu gpu;
  const CUdeviceptr memory = gpu.Allocate(4);
  CUstream stream = gpu.NewStream();
  gpu.fake.Hold(stream);
  gpu.cuda.MemsetD8Async(memory, 6, 4, stream);
  CHECK_CUDA(gpu.cuda.StreamDestroy(stream), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  gpu.fake.Release(stream);
  CHECK_CUDA(gpu.cuda.CtxSynchronize(), CUDA_SUCCESS);
  CHECK(gpu.Read<int>(memory, 1) == Numbers{0x06060606});
  gpu.cuda.MemFree(memory);
}

TEST_CASE("What is put on a stream that captures is done when the graph is launched, each time again") {
  const FakeGpu gpu;
  CUstream stream = gpu.NewStream();
  const CUdeviceptr memory = gpu.Allocate(8);
  CUmodule module = gpu.Load();
  REQUIRE_CUDA(gpu.cuda.MemsetD8Async(memory, 1, 8, stream));
  REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  auto* const at = reinterpret_cast<std::byte*>(memory);
  ReduceArguments arguments{.destination = at, .sources = {at, at}, .elements = 8, .count = 2};
  CHECK_CUDA(gpu.Launch(module, "rondo_device_reduce_uint8_sum", arguments, stream), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE_CUDA(gpu.cuda.StreamEndCapture(stream, &graph));
  CUgraphExec executable = nullptr;
  REQUIRE_CUDA(gpu.cuda.GraphInstantiate(&executable, graph, 0));
  REQUIRE_CUDA(gpu.cuda.StreamSynchronize(stream));
  CHECK(gpu.Read<unsigned char>(memory, 1) == std::vector<unsigned char>{1});
  for (int i = 0; i < 3; ++i) REQUIRE_CUDA(gpu.cuda.GraphLaunch(executable, stream));
  REQUIRE_CUDA(gpu.cuda.StreamSynchronize(stream));
  CHECK(gpu.Read<unsigned char>(memory, 1) == std::vector<unsigned char>{8});
  gpu.cuda.GraphExecDestroy(executable);
  gpu.cuda.GraphDestroy(graph);
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.MemFree(memory);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("A capture is broken by calls that it forbids, in whatever thread; one that asks for peace breaks none") {
  const FakeGpu gpu;
  CUstream stream = gpu.NewStream();
  CUevent event = gpu.NewEvent();
  const auto end = [&] {
    CUgraph graph = nullptr;
    const CUresult ended = gpu.cuda.StreamEndCapture(stream, &graph);
    if (graph != nullptr) gpu.cuda.GraphDestroy(graph);
    return ended;
  };
  const auto in_another_thread = [&](const auto& body) {
    CUcontext context = nullptr;
    REQUIRE_CUDA(gpu.cuda.DevicePrimaryCtxRetain(&context, 0));
    std::thread([&] {
      gpu.cuda.CtxPushCurrent(context);
      body();
    }).join();
    gpu.cuda.DevicePrimaryCtxRelease(0);
  };
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CAPTURE(static_cast<int>(mode));
    const bool forbids_here = mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool forbids_there = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(stream, mode));
    CHECK((gpu.cuda.EventQuery(event) == CUDA_SUCCESS) == !forbids_here);
    CHECK((end() == CUDA_SUCCESS) == !forbids_here);

    REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(stream, mode));
    in_another_thread([&] { CHECK((gpu.cuda.EventQuery(event) == CUDA_SUCCESS) == !forbids_there); });
    CHECK((end() == CUDA_SUCCESS) == !forbids_there);

    REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(stream, mode));
    in_another_thread([&] {
      CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_RELAXED;
      gpu.cuda.ThreadExchangeStreamCaptureMode(&own);
      CHECK_CUDA(own, CU_STREAM_CAPTURE_MODE_GLOBAL);
      CHECK_CUDA(gpu.cuda.EventQuery(event), CUDA_SUCCESS);
    });
    CHECK_CUDA(end(), CUDA_SUCCESS);
  }
  gpu.cuda.EventDestroy(event);
  gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("Streams come into a capture by waiting for its events, and must come back to the one that began it") {
  const FakeGpu gpu;
  CUstream origin = gpu.NewStream(), side = gpu.NewStream(), other = gpu.NewStream();
  CUevent begun = gpu.NewEvent(), done = gpu.NewEvent(), outside = gpu.NewEvent();
  const CUdeviceptr memory = gpu.Allocate(8);
  CUmodule module = gpu.Load();
  auto* const at = reinterpret_cast<std::byte*>(memory);
  const ReduceArguments arguments{.destination = at, .sources = {at, at}, .elements = 8, .count = 2};
  CUgraph graph = nullptr;
  const auto fork = [&] {
    REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_CUDA(gpu.cuda.EventRecord(begun, origin), CUDA_SUCCESS);
    CHECK_CUDA(gpu.cuda.StreamWaitEvent(side, begun, 0), CUDA_SUCCESS);
    CHECK_CUDA(gpu.Launch(module, "rondo_device_reduce_uint8_sum", arguments, side), CUDA_SUCCESS);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK_CUDA(gpu.cuda.StreamIsCapturing(side, &status), CUDA_SUCCESS);
    CHECK_CUDA(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_CUDA(gpu.cuda.EventRecord(done, side), CUDA_SUCCESS);
  };
  REQUIRE_CUDA(gpu.cuda.MemsetD8Async(memory, 1, 8, origin));
  fork();
  CHECK_CUDA(gpu.cuda.EventQuery(done), CUDA_ERROR_CAPTURED_EVENT);
  CHECK_CUDA(gpu.cuda.StreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(origin, done, 0), CUDA_SUCCESS);
  REQUIRE_CUDA(gpu.cuda.StreamEndCapture(origin, &graph));
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(other, done, 0), CUDA_ERROR_CAPTURED_EVENT);
  CUgraphExec executable = nullptr;
  REQUIRE_CUDA(gpu.cuda.GraphInstantiate(&executable, graph, 0));
  REQUIRE_CUDA(gpu.cuda.GraphLaunch(executable, origin));
  REQUIRE_CUDA(gpu.cuda.StreamSynchronize(origin));
  CHECK(gpu.Read<unsigned char>(memory, 1) == std::vector<unsigned char>{2});
  CHECK_CUDA(gpu.cuda.StreamSynchronize(side), CUDA_SUCCESS);  // the stream is in no capture any more

  CUgraph none = nullptr;
  fork();  // the side stream does not rejoin the capture
  CHECK_CUDA(gpu.cuda.StreamEndCapture(origin, &none), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  fork();
  REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(other, done, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CHECK_CUDA(gpu.cuda.StreamEndCapture(other, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_CUDA(gpu.cuda.StreamEndCapture(origin, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE_CUDA(gpu.cuda.EventRecord(outside, other));
  REQUIRE_CUDA(gpu.cuda.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CUDA(gpu.cuda.StreamWaitEvent(origin, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK_CUDA(gpu.cuda.StreamEndCapture(origin, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  gpu.cuda.GraphExecDestroy(executable);
  gpu.cuda.GraphDestroy(graph);
  gpu.cuda.ModuleUnload(module);
  gpu.cuda.MemFree(memory);
  for (CUevent event : {begun, done, outside}) gpu.cuda.EventDestroy(event);
  for (CUstream stream : {origin, side, other}) gpu.cuda.StreamDestroy(stream);
}

TEST_CASE("A stream that captures cannot be waited for, nor can the default one that would wait for it") {
  const FakeGpu gpu;
  CUstream stream = gpu.NewStream(CU_STREAM_DEFAULT);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  CHECK_CUDA(gpu.cuda.StreamIsCapturing(stream, &status), CUDA_SUCCESS);
  CHECK_CUDA(status, CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK_CUDA(gpu.cuda.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  CHECK_CUDA(gpu.cuda.StreamIsCapturing(stream, &status), CUDA_SUCCESS);
  CHECK_CUDA(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK_CUDA(gpu.cuda.StreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_CUDA(gpu.cuda.StreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_CUDA(gpu.cuda.StreamIsCapturing(stream, &status), CUDA_SUCCESS);
  CHECK_CUDA(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  gpu.cuda.StreamDestroy(stream);
}

}  // namespace fake_driver_test
}  // namespace rondo::cuda
