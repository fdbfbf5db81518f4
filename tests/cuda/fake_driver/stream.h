// A stream: a queue of work, and a thread that does the work in order, each piece a little late.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace rondo::cuda::fake {

class Call;
struct Captured;
struct Context;
struct State;

struct Work {
  // Whether the work may begin. The stream's thread calls this repeatedly, under the lock. An empty function means that
  // the work may begin. `polls`: the condition depends on memory, so no notification follows a change.
  std::function<bool()> ready;
  bool polls = false;
  // Runs without the lock. `salt` is random. False: the device touched memory that is not its own, which breaks the
  // context.
  std::function<bool(std::uint64_t salt)> run;
  bool repeats = false;  // whether a graph may contain the work
};

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // synchronizes with the legacy default stream
  bool destroyed = false;
  bool held = false;
  std::uint64_t steps = 0;             // pieces of work that the stream may do while it is held
  std::shared_ptr<Captured> captured;  // null: the stream does not capture
  std::deque<Work> queue;
  std::uint64_t queued = 0;
  std::uint64_t finished = 0;
  std::condition_variable wake;

  bool Idle() const { return finished == queued; }
};

// Makes a stream, starts its thread, and adds the stream to the list of its context.
std::shared_ptr<Stream> StartStream(State& state, Context* context, bool blocking);
// Makes the stream's thread end when its work is done.
void EndStream(Stream& stream);

// Returns the stream of the handle. NULL and CU_STREAM_LEGACY are handles of the default stream. Null: the handle is
// invalid. The caller holds the lock, as for all functions here.
std::shared_ptr<Stream> FindStream(Call& call, CUstream handle);

// Queues the work behind the stream's earlier work, and orders it with the default stream as CUDA specifies. If the
// stream captures, the work becomes part of the graph. `number` receives the work's number in the stream. Errors are
// those of the stream's context or of the capture.
CUresult Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::uint64_t* number = nullptr);

// Blocks the calling thread until the stream has done `number` pieces of work, or its context is broken.
CUresult WaitUntilFinished(Call& call, const Stream& stream, std::uint64_t number);
// Waits for all work that is queued on the context now.
void WaitForAll(Call& call, const Context& context);

// Marks the context as broken: a kernel has touched memory that it must not touch.
void Break(State& state, Context& context);

}  // namespace rondo::cuda::fake
