// A second stream beside the caller's, for operations on memory of a device. Later work on the caller's stream does not
// wait for these operations until the caller asks for that. This file uses only c10's device-independent interface, so
// one build works on hosts with and without CUDA.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <initializer_list>
#include <memory>
#include <vector>

namespace rondo_torch {

// The device that holds all of the tensors. Throws if they are on different devices; `what` names the operation in the
// error.
c10::Device DeviceOf(std::initializer_list<const std::vector<at::Tensor>*> all, const char* what);

// Thread rule: any thread.
class SideStream {
 public:
  // Gets a stream from torch.cuda; takes Python's lock for that.
  static std::shared_ptr<const SideStream> Make(c10::Device device);
  SideStream(c10::Stream stream, void* handle) : stream_(stream), handle_(handle) {}

  const c10::Stream& stream() const { return stream_; }
  void* handle() const { return handle_; }  // a cudaStream_t

  // Makes later work on this stream wait for all work on the caller's current stream.
  void FollowCurrent() const;
  // Records an event behind all work that is on this stream now.
  c10::Event Mark() const;
  // Makes later work on the caller's current stream wait for `mark`.
  void LetCurrentFollow(const c10::Event& mark) const;
  // Returns when the stream has reached the event. Throws if a signal handler raises an exception during the wait.
  static void WaitFor(const c10::Event& mark);
  // Whether the caller's current stream on the device is being captured into a graph. Takes Python's lock.
  static bool IsCurrentCaptured(c10::Device device);
  // The tensors' memory is not reused before all work that is now on this stream has ended, even if the tensors are
  // freed.
  void Keep(const std::vector<at::Tensor>& tensors) const;

 private:
  c10::Stream Current() const;

  const c10::Stream stream_;
  void* const handle_;
};

}  // namespace rondo_torch
