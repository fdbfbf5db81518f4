#include "side_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <torch/version.h>

#include <chrono>
#include <thread>
#include <tuple>

#include "interrupt.h"

namespace rondo_torch {

c10::Device DeviceOf(std::initializer_list<const std::vector<at::Tensor>*> all, const char* what) {
  c10::optional<c10::Device> device;
  for (const std::vector<at::Tensor>* const tensors : all)
    for (const at::Tensor& tensor : *tensors) {
      if (!device.has_value()) device = tensor.device();
      TORCH_CHECK(tensor.device() == *device, what, ": expected all tensors on one device, got tensors on ", *device,
                  " and on ", tensor.device());
    }
  return device.value_or(c10::Device(c10::kCPU));
}

// Gets the stream from Python, because Python returns its handle to any caller. c10 returns handles only to code that
// is built for CUDA.
std::shared_ptr<const SideStream> SideStream::Make(c10::Device device) {
  const pybind11::gil_scoped_acquire locked;
  const auto [number, handle] = pybind11::module_::import("rondo_torch")
                                    .attr("_new_stream")(static_cast<int>(device.index()))
                                    .cast<std::tuple<uint64_t, uint64_t>>();
#if TORCH_VERSION_MAJOR >= 2
  const c10::Stream stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(number));
#else
  const c10::Stream stream = c10::Stream::unpack(number);
#endif
  return std::make_shared<const SideStream>(stream, reinterpret_cast<void*>(handle));
}

c10::Stream SideStream::Current() const {
  return c10::impl::VirtualGuardImpl(stream_.device_type()).getStream(stream_.device());
}

void SideStream::FollowCurrent() const {
  c10::Event here(stream_.device_type());
  here.record(Current());
  here.block(stream_);
}

c10::Event SideStream::Mark() const {
  c10::Event here(stream_.device_type());
  here.record(stream_);
  return here;
}

void SideStream::LetCurrentFollow(const c10::Event& mark) const { mark.block(Current()); }

// Polls, because not every version of torch has events on which a thread can sleep.
void SideStream::WaitFor(const c10::Event& mark) {
  constexpr auto kPause = std::chrono::microseconds(20);
  for (int pauses = 1; !mark.query(); ++pauses) {
    std::this_thread::sleep_for(kPause);
    if (pauses % (kBetweenSignals / kPause) == 0) CheckSignals();
  }
}

bool SideStream::IsCurrentCaptured(c10::Device device) {
  const c10::OptionalDeviceGuard on_device(device);
  const pybind11::gil_scoped_acquire locked;
  return pybind11::module_::import("torch.cuda").attr("is_current_stream_capturing")().cast<bool>();
}

void SideStream::Keep(const std::vector<at::Tensor>& tensors) const {
  const c10::impl::VirtualGuardImpl device(stream_.device_type());
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.device() == stream_.device())
      device.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
}

}  // namespace rondo_torch
