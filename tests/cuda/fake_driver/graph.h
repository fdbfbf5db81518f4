// Graphs: what was put on a stream while it captured, to be done again and again.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/cuda/fake_driver/stream.h"

namespace rondo::cuda::fake {

struct Context;
struct State;

// Of a stream that captures, and of those that have come into it by waiting for its events.
struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  const Stream* origin = nullptr;
  std::vector<Work> work;  // in the order of the calls, in which a launch does it; a GPU may do it in another
  bool broken = false;
  bool ended = false;
};

// A place in a capture, of a stream or an event: how much of what each stream has put there comes before.
struct Captured {
  std::shared_ptr<Capture> capture;
  std::map<const Stream*, std::size_t> before;
};

struct Graph {
  Context* context = nullptr;
  std::vector<Work> work;
};

// The stream waits for what is captured, and comes into that capture if it is in none. Under the lock, as what follows.
CUresult WaitFor(Stream& stream, const Captured& event);
// How the calling thread takes it that streams capture.
CUstreamCaptureMode& CaptureModeOfThread();
// Whether the call may be unsafe while a stream captures, and is forbidden to this thread now. Such a call breaks the
// captures that forbid it.
bool IsForbiddenByCapture(State& state, std::string_view function);

}  // namespace rondo::cuda::fake
