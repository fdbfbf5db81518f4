#include "tests/cuda/fake_driver/graph.h"

#include <algorithm>
#include <utility>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

// Calls that may wait for the work of a capturing stream, or allocate: the documentation of
// cuThreadExchangeStreamCaptureMode calls them "potentially unsafe".
constexpr std::string_view kUnsafe[] = {"CtxSynchronize",    "EventQuery",     "EventSynchronize", "IpcCloseMemHandle",
                                        "IpcOpenMemHandle",  "MemAlloc",       "MemFree",          "MemHostRegister",
                                        "MemHostUnregister", "ModuleLoadData", "ModuleUnload",     "StreamQuery",
                                        "StreamSynchronize"};

void See(Captured& captured, const Captured& other) {
  for (const auto& [stream, works] : other.before) {
    std::size_t& seen = captured.before[stream];
    seen = std::max(seen, works);
  }
}

bool HasSeen(const Captured& captured, const Captured& other) {
  return std::all_of(other.before.begin(), other.before.end(), [&](const auto& one) {
    const auto seen = captured.before.find(one.first);
    return one.second == 0 || (seen != captured.before.end() && seen->second >= one.second);
  });
}

}  // namespace

CUresult WaitFor(Stream& stream, const Captured& event) {
  if (event.capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream.captured == nullptr) {
    if (stream.context->legacy.get() == &stream) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream.captured = std::make_shared<Captured>(event);
    return CUDA_SUCCESS;
  }
  if (stream.captured->capture != event.capture) {
    stream.captured->capture->broken = event.capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  See(*stream.captured, event);
  return CUDA_SUCCESS;
}

CUstreamCaptureMode& CaptureModeOfThread() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

bool IsForbiddenByCapture(State& state, std::string_view function) {
  const CUstreamCaptureMode own = CaptureModeOfThread();
  if (own == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (std::find(std::begin(kUnsafe), std::end(kUnsafe), function) == std::end(kUnsafe)) return false;
  bool forbidden = false;
  for (Context& context : state.contexts)
    for (const auto& stream : context.streams) {
      if (stream->captured == nullptr) continue;
      Capture& capture = *stream->captured->capture;
      if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
      const bool by_this_thread = capture.thread == std::this_thread::get_id();
      const bool by_any = own == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
      if (by_this_thread || by_any) forbidden = capture.broken = true;
    }
  return forbidden;
}

}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Do("ThreadExchangeStreamCaptureMode", Needs::kDriver, [&](Call&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::swap(CaptureModeOfThread(), *mode);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return Do("StreamBeginCapture", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream == call.context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream.get();
    stream->captured = std::make_shared<Captured>(Captured{.capture = std::move(capture), .before = {}});
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return Do("StreamEndCapture", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream->captured == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    const std::shared_ptr<Captured> all = stream->captured;
    Capture& capture = *all->capture;
    if (capture.origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture.thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    capture.ended = true;
    *graph = nullptr;
    bool joined = true;
    for (const auto& one : call.context->streams) {
      if (one->captured == nullptr || one->captured->capture != all->capture) continue;
      joined = joined && HasSeen(*all, *one->captured);
      one->captured = nullptr;
    }
    if (capture.broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    auto made = std::make_unique<Graph>();
    made->context = call.context;
    made->work = std::move(capture.work);
    *graph = reinterpret_cast<CUgraph>(made.get());
    call.state.graphs[*graph] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  return Do("GraphInstantiate", Needs::kContext, [&](Call& call) {
    const auto found = call.state.graphs.find(graph);
    if (found == call.state.graphs.end() || executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Graph>(*found->second);
    *executable = reinterpret_cast<CUgraphExec>(made.get());
    call.state.executables[*executable] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  return Do("GraphLaunch", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    const auto found = call.state.executables.find(executable);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (found == call.state.executables.end() || found->second->context != call.context)
      return CUDA_ERROR_INVALID_VALUE;
    if (stream->captured != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (const Work& work : found->second->work)
      if (const CUresult queued = Enqueue(stream, work); queued != CUDA_SUCCESS) return queued;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return Do("GraphDestroy", Needs::kDriver,
            [&](Call& call) { return call.state.graphs.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return Do("GraphExecDestroy", Needs::kDriver, [&](Call& call) {
    return call.state.executables.erase(executable) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
