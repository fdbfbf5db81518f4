// Implements torch's CUDA device with the fake driver of tests/cuda, for a torch that was built without CUDA. Tensors
// on "cuda:0" use memory of a fake GPU, streams of the fake GPU order the work on them, and the CPU does torch's
// computations. Copies are as asynchronous as on a GPU, for any layout. Freed memory is reused immediately, as by
// torch's own allocator. So if code uses a tensor on a second stream without declaring it, the memory may already
// contain another tensor.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda.h>
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/cuda/fake_driver/control.h"

namespace {

const c10::Device kGpu(c10::kCUDA, 0);

void Check(CUresult result) { TORCH_CHECK(result == CUDA_SUCCESS, "the fake driver says ", static_cast<int>(result)); }

// Makes the GPU's primary context current in the calling thread.
void Use() {
  static const CUcontext context = [] {
    Check(cuInit(0));
    CUcontext made = nullptr;
    Check(cuDevicePrimaryCtxRetain(&made, 0));
    return made;
  }();
  thread_local bool used = false;
  if (!std::exchange(used, true)) Check(cuCtxPushCurrent(context));
}

const rondo::cuda::fake::Control& Control() {
  static const auto* const control =
      static_cast<const rondo::cuda::fake::Control*>(dlsym(RTLD_DEFAULT, "fake_cuda_control"));
  TORCH_CHECK(control != nullptr, "libcuda.so.1 is not the fake driver");
  return *control;
}

// The streams, indexed by torch's numbers. Number 0 is the default stream.
class Streams {
 public:
  CUstream Of(const c10::Stream& stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_.at(static_cast<size_t>(stream.id()));
  }
  c10::Stream New() {
    Use();
    CUstream made = nullptr;
    Check(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(made);
    return c10::Stream(c10::Stream::UNSAFE, kGpu, static_cast<c10::StreamId>(all_.size() - 1));
  }

 private:
  std::mutex mutex_;
  std::vector<CUstream> all_{nullptr};
};
Streams& AllStreams() {
  static auto* const streams = new Streams;
  return *streams;
}
thread_local c10::StreamId current = 0;
c10::Stream CurrentStream() { return c10::Stream(c10::Stream::UNSAFE, kGpu, current); }
CUstream Current() {
  Use();
  return AllStreams().Of(CurrentStream());
}

// Allocates memory of the fake GPU. The next allocation of the same size reuses a freed block. If other streams have
// used the block, it is reused only after the work that was on these streams when it was freed.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    Use();
    if (bytes == 0) return {nullptr, nullptr, &Free, kGpu};
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto block = waiting_.begin(); block != waiting_.end();) {
      bool over = true;
      for (const CUevent event : block->second) over = over && cuEventQuery(event) == CUDA_SUCCESS;
      if (over) free_[sizes_.at(block->first)].push_back(block->first);
      block = over ? waiting_.erase(block) : std::next(block);
    }
    CUdeviceptr address = 0;
    if (auto& same = free_[bytes]; !same.empty()) {
      address = same.back();
      same.pop_back();
    } else {
      Check(cuMemAlloc(&address, bytes));
      sizes_[address] = bytes;
    }
    void* const memory = reinterpret_cast<void*>(address);
    return {memory, memory, &Free, kGpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void Record(CUdeviceptr address, CUstream stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    used_by_[address].insert(stream);
  }

 private:
  static void Free(void* memory);

  mutable std::mutex mutex_;
  mutable std::map<CUdeviceptr, size_t> sizes_;
  mutable std::map<size_t, std::vector<CUdeviceptr>> free_;
  mutable std::map<CUdeviceptr, std::set<CUstream>> used_by_;
  mutable std::vector<std::pair<CUdeviceptr, std::vector<CUevent>>> waiting_;
};
Memory& AllMemory() {
  static auto* const memory = new Memory;
  return *memory;
}
void Memory::Free(void* memory) {
  if (memory == nullptr) return;
  Use();
  Memory& all = AllMemory();
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const std::lock_guard<std::mutex> lock(all.mutex_);
  std::vector<CUevent> until;
  for (const CUstream stream : all.used_by_[address]) {
    CUevent event = nullptr;
    Check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    Check(cuEventRecord(event, stream));
    until.push_back(event);
  }
  all.used_by_.erase(address);
  if (until.empty()) return all.free_[all.sizes_.at(address)].push_back(address);
  all.waiting_.emplace_back(address, std::move(until));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kGpu; }
  c10::Device getDevice() const override { return kGpu; }
  void setDevice(c10::Device) const override { Use(); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const noexcept override { return CurrentStream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kGpu); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return AllStreams().New(); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, kGpu, std::exchange(current, stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    return cuStreamQuery(AllStreams().Of(stream)) == CUDA_SUCCESS;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Use();
    Check(cuStreamSynchronize(AllStreams().Of(stream)));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    Use();
    if (*event == nullptr) {
      CUevent made = nullptr;
      Check(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
      *event = made;
    }
    Check(cuEventRecord(static_cast<CUevent>(*event), AllStreams().Of(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    Use();
    if (event != nullptr) Check(cuStreamWaitEvent(AllStreams().Of(stream), static_cast<CUevent>(event), 0));
  }
  bool queryEvent(void* event) const override {
    Use();
    return event == nullptr || cuEventQuery(static_cast<CUevent>(event)) == CUDA_SUCCESS;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) cuEventDestroy(static_cast<CUevent>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    if (memory.get() != nullptr)
      AllMemory().Record(reinterpret_cast<CUdeviceptr>(memory.get()), AllStreams().Of(stream));
  }
};

at::Tensor Empty(c10::IntArrayRef size, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<at::Device>, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &AllMemory(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor EmptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride, c10::optional<at::ScalarType> type,
                        c10::optional<at::Layout>, c10::optional<at::Device>, c10::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &AllMemory(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type.value_or(at::kFloat));
}

// The source or destination of a copy. It does not keep the GPU's memory allocated, because a copy on a real GPU does
// not do that either.
class Operand {
 public:
  explicit Operand(const at::Tensor& tensor) : sizes_(tensor.sizes().vec()), strides_(tensor.strides().vec()) {
    if (tensor.is_cpu()) host_ = tensor.detach();
    type_ = tensor.scalar_type();
    memory_ = reinterpret_cast<CUdeviceptr>(tensor.data_ptr());
    if (tensor.numel() == 0) return;
    int64_t last = 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
    bytes_ = static_cast<size_t>(last + 1) * tensor.element_size();
  }
  // Returns the tensor on the host with the same layout. If the tensor is on the GPU, its current contents are copied.
  at::Tensor Read() const {
    if (host_.defined()) return host_;
    const at::Tensor bytes = at::empty({static_cast<int64_t>(bytes_)}, at::kByte);
    if (bytes_ != 0) TORCH_CHECK(Control().read(memory_, bytes.data_ptr(), bytes_));
    return at::from_blob(
        bytes.data_ptr(), sizes_, strides_, [bytes](void*) {}, at::TensorOptions(type_));
  }
  void Write(const at::Tensor& values) const {
    at::Tensor all = Read();
    all.copy_(values);
    if (!host_.defined() && bytes_ != 0) TORCH_CHECK(Control().write(memory_, all.data_ptr(), bytes_));
  }

 private:
  at::Tensor host_;
  at::ScalarType type_ = at::kByte;
  std::vector<int64_t> sizes_, strides_;
  CUdeviceptr memory_ = 0;
  size_t bytes_ = 0;  // number of bytes from the first element to the last
};

at::Tensor& Copy(at::Tensor& to, const at::Tensor& from, bool) {
  const CUstream stream = Current();
  auto* const copy = new std::pair<Operand, Operand>(to, from.expand(to.sizes()));
  Check(cuLaunchHostFunc(
      stream,
      [](void* argument) {
        const std::unique_ptr<std::pair<Operand, Operand>> both(static_cast<std::pair<Operand, Operand>*>(argument));
        both->first.Write(both->second.Read());
      },
      copy));
  // As on a GPU, a copy from or to unpinned host memory is synchronous.
  if (to.is_cpu() || from.is_cpu()) Check(cuStreamSynchronize(stream));
  return to;
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool) {
  at::Tensor written = to;
  Copy(written, from, false);
  return to;
}

void OnCpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

}  // namespace

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(CUDA, Guard);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&OnCpu>()); }
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("copy_", &Copy);
  library.impl("_copy_from", &CopyFrom);
  library.impl("_copy_from_and_resize", [](const at::Tensor& from, const at::Tensor& to) {
    if (from.sizes() != to.sizes()) {  // `to` is a new result, which does not have its size yet
      const at::Tensor room = at::empty(from.sizes(), to.options());
      to.unsafeGetTensorImpl()->set_storage_keep_dtype(room.storage());
      to.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
    }
    return CopyFrom(from, to, false);
  });
  library.impl("as_strided", [](const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                                c10::optional<int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, size, stride, offset);
  });
  library.impl("view", [](const at::Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); });
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("view_as_real", &at::native::view_as_real);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  c10::SetAllocator(c10::kCUDA, &AllMemory());
  module.def("new_stream", [] {
    const c10::Stream made = AllStreams().New();
    return std::make_pair(made.pack(), reinterpret_cast<uint64_t>(AllStreams().Of(made)));
  });
  module.def("exchange_stream", [](uint64_t packed) {
    return c10::Stream{c10::Stream::UNSAFE, kGpu, std::exchange(current, c10::Stream::unpack(packed).id())}.pack();
  });
  const auto of = [](uint64_t packed) {
    Use();
    return AllStreams().Of(c10::Stream::unpack(packed));
  };
  module.def("current_stream", [] { return CurrentStream().pack(); });
  // Functions of control.h.
  module.def("hold", [of](uint64_t stream) { Control().hold(of(stream)); });
  module.def("release", [of](uint64_t stream) { Control().release(of(stream)); });
  module.def("step", [of](uint64_t stream) { Control().step(of(stream)); });
  module.def("pending", [of](uint64_t stream) { return Control().pending(of(stream)); });
  // Captures the current stream. A graph exists until the process ends. It cannot contain the copies that this file
  // makes.
  module.def("begin_capture", [] { Check(cuStreamBeginCapture(Current(), CU_STREAM_CAPTURE_MODE_GLOBAL)); });
  module.def("end_capture", [] {
    CUgraph graph = nullptr;
    CUgraphExec made = nullptr;
    Check(cuStreamEndCapture(Current(), &graph));
    Check(cuGraphInstantiate(&made, graph, 0));
    return reinterpret_cast<uint64_t>(made);
  });
  module.def("launch", [](uint64_t graph) { Check(cuGraphLaunch(reinterpret_cast<CUgraphExec>(graph), Current())); });
  module.def("synchronize", [] {
    const pybind11::gil_scoped_release free;
    Check(cuStreamSynchronize(Current()));
  });
}
