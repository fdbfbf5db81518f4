#include "tests/cuda/fake_driver/stream.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/fake_driver/graph.h"
#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

constexpr std::chrono::microseconds kPollEvery(20);

// How far another stream must have advanced.
struct Until {
  std::shared_ptr<Stream> stream;
  std::uint64_t finished = 0;
};

bool IsLegacy(const Stream& stream) { return &stream == stream.context->legacy.get(); }

// Returns the work of other streams that must end before new work of `stream` begins. The legacy default stream waits
// for all blocking streams of its context, and these streams wait for the legacy default stream.
std::vector<Until> Before(const Stream& stream) {
  std::vector<Until> before;
  const Context& context = *stream.context;
  const auto add = [&](const std::shared_ptr<Stream>& other) {
    if (!other->Idle()) before.push_back({other, other->queued});
  };
  if (IsLegacy(stream)) {
    for (const auto& other : context.streams)
      if (other.get() != &stream && other->blocking) add(other);
  } else if (stream.blocking && context.legacy != nullptr) {
    add(context.legacy);
  }
  return before;
}

// Breaks the capture, because the call is not allowed while the stream captures.
CUresult BreakCapture(const Stream& stream) {
  stream.captured->capture->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void Serve(State& state, std::shared_ptr<Stream> stream) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    stream->wake.wait(lock,
                      [&] { return stream->queue.empty() ? stream->destroyed : !stream->held || stream->steps > 0; });
    if (stream->queue.empty()) break;
    if (stream->held) --stream->steps;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    while (work.ready && stream->context->error == CUDA_SUCCESS && !work.ready()) {
      if (work.polls) {
        state.finished.wait_for(lock, kPollEvery);
      } else {
        state.finished.wait(lock);
      }
    }
    if (stream->context->error == CUDA_SUCCESS) {
      const std::uint64_t late_us = state.random.Below(state.settings.delay_us + 1);
      const std::uint64_t salt = state.random.Next();
      lock.unlock();
      if (late_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(late_us));
      const bool sound = work.run(salt);
      // Objects that the work held are released before any thread sees the work as done, and without the lock.
      work = {};
      lock.lock();
      if (!sound) Break(state, *stream->context);
    }
    ++stream->finished;
    state.finished.notify_all();
  }
  std::erase(stream->context->streams, stream);
}

}  // namespace

std::shared_ptr<Stream> StartStream(State& state, Context* context, bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->blocking = blocking;
  context->streams.push_back(stream);
  // Signals must go to the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(Serve, std::ref(state), stream).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return stream;
}

void EndStream(Stream& stream) {
  stream.destroyed = true;
  stream.wake.notify_all();
}

std::shared_ptr<Stream> FindStream(Call& call, CUstream handle) {
  const auto found = call.state.streams.find(handle);
  if (found != call.state.streams.end()) return found->second;
  if (call.context == nullptr) return nullptr;
  Context& context = *call.context;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    if (context.legacy == nullptr) context.legacy = StartStream(call.state, &context, true);
    return context.legacy;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    auto& stream = context.of_threads[std::this_thread::get_id()];
    if (stream == nullptr) stream = StartStream(call.state, &context, true);
    return stream;
  }
  return nullptr;
}

CUresult Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::uint64_t* number) {
  if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
  if (stream->captured != nullptr) {
    Capture& capture = *stream->captured->capture;
    if (capture.broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (work.repeats) {
      capture.work.push_back(std::move(work));
      ++stream->captured->before[stream.get()];
      return CUDA_SUCCESS;
    }
    capture.broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (auto before = Before(*stream); !before.empty()) {
    work.ready = [before = std::move(before), ready = std::move(work.ready)] {
      return std::all_of(before.begin(), before.end(),
                         [](const Until& until) { return until.stream->finished >= until.finished; }) &&
             (!ready || ready());
    };
  }
  stream->queue.push_back(std::move(work));
  ++stream->queued;
  if (number != nullptr) *number = stream->queued;
  stream->wake.notify_all();
  return CUDA_SUCCESS;
}

CUresult WaitUntilFinished(Call& call, const Stream& stream, std::uint64_t number) {
  call.state.finished.wait(call.lock,
                           [&] { return stream.finished >= number || stream.context->error != CUDA_SUCCESS; });
  return stream.context->error;
}

void WaitForAll(Call& call, const Context& context) {
  std::vector<Until> all;
  for (const auto& stream : context.streams) all.push_back({stream, stream->queued});
  for (const auto& [stream, number] : all) WaitUntilFinished(call, *stream, number);
}

void Break(State& state, Context& context) {
  context.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  state.finished.notify_all();
}

}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int) {
  return Do("StreamCreateWithPriority", Needs::kContext, [&](Call& call) {
    if (stream == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto made = StartStream(call.state, call.context, (flags & CU_STREAM_NON_BLOCKING) == 0);
    *stream = reinterpret_cast<CUstream>(made.get());
    call.state.streams[*stream] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream handle) {
  return Do("StreamDestroy", Needs::kGiveBack, [&](Call& call) {
    const auto found = call.state.streams.find(handle);
    if (found == call.state.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    EndStream(*found->second);
    call.state.streams.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return Do("StreamQuery", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->captured != nullptr) return BreakCapture(*stream);
    if (stream->context->error != CUDA_SUCCESS) return stream->context->error;
    const bool idle = stream->Idle() && !(IsLegacy(*stream) && !Before(*stream).empty());
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return Do("StreamSynchronize", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->captured != nullptr) return BreakCapture(*stream);
    const std::uint64_t number = stream->queued;
    for (const auto& [other, until] : IsLegacy(*stream) ? Before(*stream) : std::vector<Until>())
      if (const CUresult waited = WaitUntilFinished(call, *other, until); waited != CUDA_SUCCESS) return waited;
    return WaitUntilFinished(call, *stream, number);
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  const bool is_default = handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  return Do("StreamGetCtx", is_default ? Needs::kContext : Needs::kDriver, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = reinterpret_cast<CUcontext>(stream->context);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return Do("StreamIsCapturing", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // The default stream would have to wait for a capturing stream.
    const auto implicit = [&](const auto& other) { return other->blocking && other->captured != nullptr; };
    const auto& all = call.context->streams;
    if (stream == call.context->legacy && std::any_of(all.begin(), all.end(), implicit))
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = stream->captured == nullptr         ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->captured->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitValue64(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return Do("StreamWaitValue64", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const unsigned how = flags & 3u;
    if (address % sizeof value != 0 || (flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)) != 0 ||
        !call.state.memory.Resolve(address, sizeof value))
      return CUDA_ERROR_INVALID_VALUE;
    State& state = call.state;
    const auto gone = std::make_shared<bool>(false);
    Work work;
    work.polls = true;
    work.ready = [&state, address, value, how, gone] {
      const auto place = state.memory.Resolve(address, sizeof value);
      *gone = !place;
      if (*gone) return true;
      const auto now = __atomic_load_n(reinterpret_cast<const cuuint64_t*>(place->at), __ATOMIC_ACQUIRE);
      switch (how) {
        case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::int64_t>(now - value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ: return now == value;
        case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
        default: return ~(now | value) != 0;
      }
    };
    work.run = [gone](std::uint64_t) { return !*gone; };
    return Enqueue(stream, std::move(work));
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return Do("LaunchHostFunc", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    work.run = [function, data](std::uint64_t) {
      const InHostFunction inside;
      function(data);
      return true;
    };
    return Enqueue(stream, std::move(work));
  });
}
