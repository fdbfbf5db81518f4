// Graphs: work that was put on a stream while the stream captured. A graph can be launched any number of times.
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

// The capture of the stream that began it, and of the streams that joined it by waiting for its events.
struct Capture {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  const Stream* origin = nullptr;
  // The captured work in the order of the calls. A launch keeps this order, whereas a GPU may choose another.
  std::vector<Work> work;
  bool broken = false;
  bool ended = false;
};

// A position of a stream or an event in a capture: how much of each stream's captured work comes before it.
struct Captured {
  std::shared_ptr<Capture> capture;
  std::map<const Stream*, std::size_t> before;
};

struct Graph {
  Context* context = nullptr;
  std::vector<Work> work;
};

// The stream waits for the event's captured work. If the stream is in no capture, it joins the event's capture. The
// caller holds the lock, for this function and for those below.
CUresult WaitFor(Stream& stream, const Captured& event);
// The capture mode of the calling thread. It determines which calls of the thread are forbidden while a stream
// captures.
CUstreamCaptureMode& CaptureModeOfThread();
// Whether the call may be unsafe while a stream captures and is now forbidden to this thread. A forbidden call breaks
// the captures that forbid it.
bool IsForbiddenByCapture(State& state, std::string_view function);

}  // namespace rondo::cuda::fake
