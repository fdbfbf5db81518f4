// Graphs: what was put on a stream while it captured, to be done again and again.
#pragma once

#include <cuda.h>

#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/cuda/fake_driver/stream.h"

namespace rondo::cuda::fake {

struct Context;
struct State;

// Of a stream, while it captures.
struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::vector<Work> work;
  bool broken = false;
};

struct Graph {
  Context* context = nullptr;
  std::vector<Work> work;
};

// How the calling thread takes it that streams capture.
CUstreamCaptureMode& CaptureModeOfThread();
// Whether the call may be unsafe while a stream captures, and is forbidden to this thread now. Such a call breaks the
// captures that forbid it. Under the lock.
bool IsForbiddenByCapture(State& state, std::string_view function);

}  // namespace rondo::cuda::fake
