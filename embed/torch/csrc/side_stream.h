// A stream of a device beside the caller's, on which operations on that device's memory take their turn: what the
// caller goes on to put on its own stream does not wait for them until it says so. By c10's own words for devices, so
// that one build of this serves hosts with CUDA and without.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <initializer_list>
#include <memory>
#include <vector>

namespace rondo_torch {

// The one device that all of them are on. Throws where there are two; `what` says whose.
c10::Device DeviceOf(std::initializer_list<const std::vector<at::Tensor>*> all, const char* what);

// Thread rule: any.
class SideStream {
 public:
  // Asks torch.cuda for one; takes Python's lock for that.
  static std::shared_ptr<const SideStream> Make(c10::Device device);
  SideStream(c10::Stream stream, void* handle) : stream_(stream), handle_(handle) {}

  const c10::Stream& stream() const { return stream_; }
  void* handle() const { return handle_; }  // a cudaStream_t

  // What is put on it from now on comes after all that is on the caller's current stream.
  void FollowCurrent() const;
  // A mark behind all that is on it.
  c10::Event Mark() const;
  // What the caller puts on its current stream from now on comes after the mark.
  void LetCurrentFollow(const c10::Event& mark) const;
  // Returns when the stream has come to the mark. Throws what a handler of signals raises meanwhile.
  static void WaitFor(const c10::Event& mark);
  // Whether the caller's current stream on the device is being captured into a graph. Takes Python's lock.
  static bool IsCurrentCaptured(c10::Device device);
  // Their memory is given to nobody else before what is on this stream now has ended, whoever forgets them.
  void Keep(const std::vector<at::Tensor>& tensors) const;

 private:
  c10::Stream Current() const;

  const c10::Stream stream_;
  void* const handle_;
};

}  // namespace rondo_torch
