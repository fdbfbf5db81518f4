#include "tests/cuda/fake_driver/control.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

// Tests may call these functions before cuInit, and while a context is broken.
std::shared_ptr<Stream> Find(State& state, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    const auto& current = ContextsOfThread();
    if (current.empty()) return nullptr;
    if (current.back()->legacy == nullptr) current.back()->legacy = StartStream(state, current.back(), true);
    return current.back()->legacy;
  }
  // Finds a destroyed stream as well, as long as the stream has work.
  for (const Context& context : state.contexts)
    for (const auto& stream : context.streams)
      if (reinterpret_cast<CUstream>(stream.get()) == handle) return stream;
  return nullptr;
}

void SetHeld(CUstream handle, bool held) {
  State& state = State::Get();
  const std::unique_lock lock(state.mutex);
  const auto stream = Find(state, handle);
  if (stream == nullptr) return;
  stream->held = held;
  stream->steps = 0;
  stream->wake.notify_all();
}

template <class Change>
void Set(Change&& change) {
  State& state = State::Get();
  const std::unique_lock lock(state.mutex);
  change(state);
}

Live CountLive() {
  State& state = State::Get();
  const std::unique_lock lock(state.mutex);
  Live live;
  for (const auto& [address, memory] : state.memory.all()) {
    live.opened += memory->opens;
    if (memory->opens > 0) continue;
    ++live.memory;
    live.memory_bytes += memory->bytes;
  }
  live.streams = state.streams.size();
  live.events = state.events.size();
  live.registrations = state.memory.registrations();
  live.modules = state.modules.size();
  live.graphs = state.graphs.size() + state.executables.size();
  for (const Context& context : state.contexts) live.contexts += context.retains;
  return live;
}

bool Move(CUdeviceptr address, std::size_t bytes, void (*move)(std::byte* at, void* host, std::size_t bytes),
          void* host) {
  State& state = State::Get();
  std::unique_lock lock(state.mutex);
  const auto place = state.memory.Resolve(address, bytes);
  lock.unlock();
  if (!place) return false;
  move(place->at, host, bytes);
  return true;
}

void Reset() {
  State& state = State::Get();
  const std::unique_lock lock(state.mutex);
  state.settings = Settings::FromEnvironment();
  state.random = Random(state.settings.seed);
  state.failures.clear();
  state.calls.clear();
  state.kernel_faults_in = 0;
  state.kernels = 0;
  state.copied = {};
  for (Context& context : state.contexts) {
    context.error = CUDA_SUCCESS;
    for (const auto& stream : context.streams) {
      stream->held = false;
      stream->steps = 0;
      stream->captured = nullptr;
      stream->wake.notify_all();
    }
  }
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the library's

extern "C" {
extern const Control fake_cuda_control;
}
const Control fake_cuda_control = {
    .hold = [](CUstream stream) { SetHeld(stream, true); },
    .release = [](CUstream stream) { SetHeld(stream, false); },
    .step =
        [](CUstream handle) {
          Set([&](State& state) {
            const auto stream = Find(state, handle);
            if (stream == nullptr || !stream->held) return;
            ++stream->steps;
            stream->wake.notify_all();
          });
        },
    .pending =
        [](CUstream handle) {
          std::uint64_t pending = 0;
          Set([&](State& state) {
            if (const auto stream = Find(state, handle)) pending = stream->queued - stream->finished;
          });
          return pending;
        },
    .fail_call = [](const char* function, std::uint64_t nth,
                    CUresult result) { Set([&](State& state) {
                                         state.failures.push_back({function, nth, result});
                                       }); },
    .calls =
        [](const char* function) {
          std::uint64_t calls = 0;
          Set([&](State& state) {
            if (const auto found = state.calls.find(function); found != state.calls.end()) calls = found->second;
          });
          return calls;
        },
    .fault_kernel = [](std::uint64_t nth) { Set([&](State& state) { state.kernel_faults_in = nth; }); },
    .set_delay =
        [](std::uint64_t most_us, std::uint64_t seed) {
          Set([&](State& state) {
            state.settings.delay_us = most_us;
            state.settings.seed = seed;
            state.random = rondo::Random(seed);
          });
        },
    .set_devices =
        [](int count) {
          Set([&](State& state) {
            state.settings.devices.clear();
            for (int i = 0; i < std::min(count, kMaxDevices); ++i) state.settings.devices.push_back(i);
          });
        },
    .set_memory = [](std::uint64_t bytes) { Set([&](State& state) { state.settings.memory_bytes = bytes; }); },
    .set_dma_buf = [](bool supported) { Set([&](State& state) { state.settings.dma_buf = supported; }); },
    .set_mps = [](bool enabled) { Set([&](State& state) { state.settings.mps = enabled; }); },
    .set_compute_mode = [](CUcomputemode mode) { Set([&](State& state) { state.settings.compute_mode = mode; }); },
    .set_ipc_capable = [](bool capable) { Set([&](State& state) { state.settings.ipc_capable = capable; }); },
    .set_version = [](int version) { Set([&](State& state) { state.settings.version = version; }); },
    .set_display = [](bool serves) { Set([&](State& state) { state.settings.display = serves; }); },
    .live = &CountLive,
    .copied =
        [] {
          BytesCopied copied;
          Set([&](State& state) { copied = state.copied; });
          return copied;
        },
    .kernels =
        [] {
          std::uint64_t kernels = 0;
          Set([&](State& state) { kernels = state.kernels; });
          return kernels;
        },
    .read =
        [](CUdeviceptr from, void* to, std::size_t bytes) {
          return Move(
              from, bytes, [](std::byte* at, void* host, std::size_t n) { std::memcpy(host, at, n); }, to);
        },
    .write =
        [](CUdeviceptr to, const void* from, std::size_t bytes) {
          return Move(
              to, bytes, [](std::byte* at, void* host, std::size_t n) { std::memcpy(at, host, n); },
              const_cast<void*>(from));
        },
    .reset = &Reset,
};
