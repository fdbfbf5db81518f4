// A stream: a queue of work, and the thread that does it in order, each piece a little late.
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
  // Whether it may begin, asked under the lock, again and again; empty: it may. `polls`: nobody tells when it may,
  // since it is memory that decides.
  std::function<bool()> ready;
  bool polls = false;
  // Without the lock. `salt` is random. False: the device touched what is not its own, which breaks the context.
  std::function<bool(std::uint64_t salt)> run;
  bool repeats = false;  // so a graph may have it
};

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // for the legacy default stream, and it for us
  bool destroyed = false;
  bool held = false;
  std::uint64_t steps = 0;             // that it may take while it is held
  std::shared_ptr<Captured> captured;  // null: it does not capture
  std::deque<Work> queue;
  std::uint64_t queued = 0;
  std::uint64_t finished = 0;
  std::condition_variable wake;

  bool Idle() const { return finished == queued; }
};

// With its thread running, and in the list of its context.
std::shared_ptr<Stream> StartStream(State& state, Context* context, bool blocking);
// Lets the thread end once the work is done.
void EndStream(Stream& stream);

// The stream of the handle, NULL and CU_STREAM_LEGACY are the default one; null: there is none. Under the lock, as all
// here.
std::shared_ptr<Stream> FindStream(Call& call, CUstream handle);

// Queues it behind what is there, and with respect to the default stream as CUDA says; where the stream captures, puts
// it into what will be a graph. Which number it has in the stream. An error: of the stream's context, or of the
// capture.
CUresult Enqueue(const std::shared_ptr<Stream>& stream, Work work, std::uint64_t* number = nullptr);

// Blocks the calling thread until the stream has done so many, or its context is broken.
CUresult WaitUntilFinished(Call& call, const Stream& stream, std::uint64_t number);
// All that is queued now on the context.
void WaitForAll(Call& call, const Context& context);

// A kernel has touched what it must not.
void Break(State& state, Context& context);

}  // namespace rondo::cuda::fake
