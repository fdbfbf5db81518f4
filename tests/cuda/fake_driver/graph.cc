#include "tests/cuda/fake_driver/graph.h"

#include <algorithm>
#include <utility>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

// Those that may wait for work of a stream that captures, or allocate: cuThreadExchangeStreamCaptureMode's words are
// "potentially unsafe".
constexpr std::string_view kUnsafe[] = {"CtxSynchronize",    "EventQuery",     "EventSynchronize", "IpcCloseMemHandle",
                                        "IpcOpenMemHandle",  "MemAlloc",       "MemFree",          "MemHostRegister",
                                        "MemHostUnregister", "ModuleLoadData", "ModuleUnload",     "StreamQuery",
                                        "StreamSynchronize"};

}  // namespace

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
      if (stream->capture == nullptr || stream->capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
      const bool by_this_thread = stream->capture->thread == std::this_thread::get_id();
      const bool by_any =
          own == CU_STREAM_CAPTURE_MODE_GLOBAL && stream->capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
      if (!by_this_thread && !by_any) continue;
      forbidden = stream->capture->broken = true;
    }
  return forbidden;
}

}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): what follows is the driver's

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
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = mode;
    stream->capture->thread = std::this_thread::get_id();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return Do("StreamEndCapture", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    const auto capture = std::exchange(stream->capture, nullptr);
    *graph = nullptr;
    if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    auto made = std::make_unique<Graph>();
    made->context = call.context;
    made->work = std::move(capture->work);
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
    if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
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
