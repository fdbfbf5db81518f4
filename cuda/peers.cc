#include "cuda/peers.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "base/check.h"

namespace rondo::cuda {
namespace {

std::byte* MemoryAt(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

// CUDA takes smaller allocations from such blocks, and IPC exports the whole block with everything in it. So the
// barrier state gets a block of its own.
constexpr std::size_t kBlockBytes = std::size_t{2} << 20;
static_assert(sizeof(BarrierState) <= kBlockBytes);

// The id of this process combined with the inode of its pid namespace. The id alone is not enough, because processes in
// two containers of a host may have the same id and even the same start time.
std::uint64_t NumberOfProcess() {
  struct stat names = {};
  const bool found = stat("/proc/self/ns/pid", &names) == 0;
  return (found ? std::uint64_t{names.st_ino} << 32 : 0) | static_cast<std::uint32_t>(getpid());
}

// The start time of this process in kernel clock ticks. It distinguishes processes that get the same id one after the
// other.
std::uint64_t StartOfProcess() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The second field of the file is a name in parentheses that may contain any character. Field 22 is the start time.
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

ReduceArguments ArgumentsOf(const DeviceReduce& reduction) {
  static_assert(DeviceReduce::kMaxOperands == kMaxSources);
  ReduceArguments arguments;
  arguments.destination = reduction.destination;
  arguments.elements = reduction.elements;
  arguments.count = static_cast<std::int32_t>(reduction.count);
  arguments.divisor = reduction.divisor;
  for (std::size_t i = 0; i < reduction.count; ++i) {
    arguments.sources[i] = reduction.operands[i];
    arguments.scales[i] = reduction.scales[i];
  }
  return arguments;
}

ReduceOp OperationOf(const DeviceReduce& reduction) {
  return reduction.op == ReduceOp::kAvg && reduction.divisor == 0 ? ReduceOp::kSum : reduction.op;
}

// Expresses a copy as the reduction of one vector. The element type is the largest one that divides both addresses and
// the size. Unlike a copy, a reduction can skip its work if the graph's operations have failed (ReduceArguments::over).
DeviceReduce AsReduction(const DeviceProgram::Copy& copy) {
  DeviceReduce reduction{.destination = copy.destination, .count = 1};
  reduction.operands[0] = copy.source;
  const std::uint64_t addresses = AddressOf(copy.destination) | AddressOf(copy.source) | copy.bytes;
  for (const DataType type : {DataType::kUint64, DataType::kUint32, DataType::kUint8}) {
    reduction.type = type;
    if (addresses % SizeOf(type) == 0) break;
  }
  reduction.elements = copy.bytes / SizeOf(reduction.type);
  return reduction;
}

// Changes the code of a driver error to kUnsupported, so that the caller uses another path.
Error AsUnsupported(const Error& error) {
  return error.With([](ErrorDetails& d) { d.code = ErrorCode::kUnsupported; });
}

}  // namespace

Result<std::unique_ptr<Peers>> Peers::Make(std::shared_ptr<const Gpu> gpu) {
  std::unique_ptr<Peers> peers(new Peers(std::move(gpu)));
  RONDO_TRY(peers->Prepare());
  return peers;
}

Status Peers::Prepare() {
  RONDO_ASSIGN(kernels_, ReduceKernels::Load(gpu_));
  const Gpu::Use use(*gpu_);
  int lowest = 0, highest = 0;
  RONDO_TRY(driver_.Check(driver_.CtxGetStreamPriorityRange(&lowest, &highest), "getting the priorities of streams"));
  RONDO_TRY(driver_.Check(driver_.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, highest),
                          "creating a stream for peers' memory"));
  for (CUevent& end : ends_)
    RONDO_TRY(driver_.Check(driver_.EventCreate(&end, CU_EVENT_DISABLE_TIMING), "creating an event"));
  own_.process = NumberOfProcess();
  own_.start = StartOfProcess();
  CUuuid uuid{};
  RONDO_TRY(driver_.Check(driver_.DeviceGetUuid(&uuid, gpu_->device()), "getting the GPU's UUID"));
  std::memcpy(own_.device.data(), uuid.bytes, sizeof uuid.bytes);
  if (gpu_->is_time_sliced()) time_sliced_gpu_.device = own_.device;
  time_sliced_gpu_.process = {own_.process, own_.start};
  return {};
}

Peers::~Peers() {
  const Gpu::Use use(*gpu_);
  if (stream_ != nullptr) {
    driver_.StreamSynchronize(stream_);
    driver_.StreamDestroy(stream_);
  }
  for (CUevent end : ends_)
    if (end != nullptr) driver_.EventDestroy(end);
  for (const Wanted& opened : opened_) Close(opened);
  if (barrier_state_ != 0 && !keeps_barrier_state_) driver_.MemFree(barrier_state_);
}

Result<DevicePeers::MemoryHandle> Peers::Export(const std::byte* memory, std::uint64_t exported_bytes) {
  MemoryHandle handle{};
  Exported exported{.of = own_};
  if (memory != nullptr) {
    const Gpu::Use use(*gpu_);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const auto check = [&](CUresult result, std::string_view doing) -> Status {
      const Status done = driver_.Check(result, doing);
      return done ? done : Status(Fail(AsUnsupported(done.error())));
    };
    RONDO_TRY(check(driver_.MemGetAddressRange(&base, &bytes, AddressOf(memory)), "finding an allocation"));
    exported.offset = AddressOf(memory) - base;
    // Adjacent allocations may look like one piece of memory to the program, but peers would reach only the first
    // allocation.
    if (exported_bytes > bytes - exported.offset)
      return Fail(ErrorCode::kUnsupported,
                  "cannot export {} bytes at {}: the allocation ends {} bytes after that address, but buffers that "
                  "peers read must lie in one allocation",
                  exported_bytes, static_cast<const void*>(memory), bytes - exported.offset);
    std::uint64_t identity = 0;
    RONDO_TRY(check(driver_.PointerGetAttribute(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, base),
                    "getting an allocation's identity"));
    auto known = std::find_if(exported_.begin(), exported_.end(), [&](const PeerAllocation& one) {
      return one.address == base && one.identity == identity;
    });
    if (known == exported_.end()) {
      PeerAllocation made = own_;
      made.identity = identity;
      made.address = base;
      made.bytes = bytes;
      RONDO_TRY(check(driver_.IpcGetMemHandle(&made.handle, base), "exporting memory to other processes"));
      if (exported_.size() == kMaxOpened) exported_.erase(exported_.begin());
      known = exported_.insert(exported_.end(), made);
    }
    exported.of = *known;
  }
  std::memcpy(handle.data(), &exported, sizeof exported);
  return handle;
}

Result<std::byte*> Peers::Open(const MemoryHandle& handle, bool may_wait) {
  Exported exported;
  std::memcpy(&exported, handle.data(), sizeof exported);
  if (exported.of.IsOfProcess(own_.process, own_.start)) {
    if (exported.of.address == 0) return nullptr;
    const Gpu::Use use(*gpu_);
    const CUdeviceptr at = exported.of.address + exported.offset;
    int ordinal = -1;
    const CUresult asked = driver_.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    if (const Status done = driver_.Check(asked, "getting the address of a peer's memory"); !done)
      return Fail(AsUnsupported(done.error()));
    if (ordinal != gpu_->ordinal())
      return Fail(ErrorCode::kUnsupported,
                  "a peer in this process uses memory of GPU {}, which {} cannot read directly", ordinal, gpu_->name());
    return MemoryAt(at);
  }
  auto wanted = std::find_if(opened_.begin(), opened_.end(), [&](const Wanted& one) {
    return one.opened->is_there && one.opened->what == exported.of;
  });
  if (wanted == opened_.end()) {
    const Gpu::Use use(*gpu_);
    const auto opened = gpu_->ipc_memory().Open(driver_, exported.of, gpu_->name(), may_wait);
    if (!opened) return Fail(AsUnsupported(opened.error()));
    wanted = opened_.insert(opened_.end(), {.opened = *opened});
  }
  wanted->last_use = ++uses_;
  return MemoryAt(wanted->opened->base + exported.offset);
}

void Peers::CloseUnwanted() {
  const Gpu::Use use(*gpu_);
  gpu_->ipc_memory().CloseFreed(driver_);
  const auto is_there = [](const Wanted& one) { return one.opened->is_there.load(); };
  const auto gone = std::partition(opened_.begin(), opened_.end(), is_there);
  std::for_each(gone, opened_.end(), [&](const Wanted& one) { Close(one); });
  opened_.erase(gone, opened_.end());
  if (opened_.size() <= kMaxOpened) return;
  const auto kept = std::partition(opened_.begin(), opened_.end(), [](const Wanted& one) { return one.in_graph; });
  const std::size_t most = static_cast<std::size_t>(kept - opened_.begin()) + kMaxOpened;
  std::sort(kept, opened_.end(), [](const Wanted& a, const Wanted& b) { return a.last_use > b.last_use; });
  for (; opened_.size() > most; opened_.pop_back()) Close(opened_.back());
}

// Records an event after the work that was just put on the stream, and counts this work.
Status Peers::Note() {
  RONDO_TRY(driver_.Check(driver_.EventRecord(ends_[begun_ % kEvents], stream_), "recording an event"));
  ++begun_;
  return {};
}

Status Peers::MayBegin() const {
  RONDO_CHECK(begun_ - ended_ < kEvents, "{} at once", begun_ - ended_);
  if (over_.load())
    return Fail(ErrorCode::kAborted, "{} begins no further work: all waiting streams were released after a failure",
                gpu_->name());
  return {};
}

Status Peers::Reduce(const DeviceReduce& reduction) {
  const Gpu::Use use(*gpu_);
  RONDO_TRY(MayBegin());
  RONDO_TRY(kernels_->Launch(stream_, reduction.type, OperationOf(reduction), ArgumentsOf(reduction)));
  return Note();
}

Status Peers::CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  const Gpu::Use use(*gpu_);
  RONDO_TRY(MayBegin());
  RONDO_TRY(driver_.Check(driver_.MemcpyDtoDAsync(AddressOf(destination), AddressOf(source), bytes, stream_),
                          "copying on the GPU"));
  return Note();
}

Result<const std::byte*> Peers::BarrierState() {
  if (gpu_->Attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) != 0)
    return Fail(ErrorCode::kUnsupported,
                "{} drives a display, so its driver ends kernels that run for seconds. A kernel that waits for other "
                "ranks may run that long",
                gpu_->name());
  if (barrier_state_ == 0) {
    const Gpu::Use use(*gpu_);
    CUdeviceptr state = 0;
    RONDO_TRY(driver_.Check(driver_.MemAlloc(&state, kBlockBytes), "allocating the barrier state"));
    Status cleared = driver_.Check(driver_.MemsetD8Async(state, 0, sizeof(cuda::BarrierState), stream_),
                                   "clearing the barrier state");
    if (cleared) cleared = driver_.Check(driver_.StreamSynchronize(stream_), "clearing the barrier state");
    if (!cleared) {
      driver_.MemFree(state);
      return Fail(cleared.error());
    }
    barrier_state_ = state;
  }
  return MemoryAt(barrier_state_);
}

Status Peers::Capture(CUstream stream, const DeviceProgram& program, BarrierReport* report) {
  const Gpu::Use use(*gpu_);
  KeepOpen(program);
  BarrierArguments barrier{.report = report,
                           .timeout_ns = static_cast<std::uint64_t>(program.timeout.count()),
                           .operation = program.operation,
                           .rank = program.rank,
                           .count = static_cast<std::int32_t>(program.barrier_states.size())};
  for (std::size_t r = 0; r < program.barrier_states.size(); ++r)
    barrier.states[r] = reinterpret_cast<cuda::BarrierState*>(program.barrier_states[r]);
  const auto put = [&](const DeviceReduce& reduction) -> Status {
    ReduceArguments arguments = ArgumentsOf(reduction);
    arguments.over = &reinterpret_cast<const cuda::BarrierState*>(barrier_state_)->over;
    return kernels_->Launch(stream, reduction.type, OperationOf(reduction), arguments);
  };
  const auto put_barrier = [&]() -> Status {
    return barrier.count > 1 ? kernels_->Launch(stream, barrier) : Status{};  // a single rank needs no barrier
  };
  // Even a single rank needs this barrier kernel, because the kernel checks BarrierReport::stop.
  RONDO_TRY(kernels_->Launch(stream, barrier));
  for (const DeviceReduce& reduction : program.reductions) RONDO_TRY(put(reduction));
  if (program.has_middle_barrier) RONDO_TRY(put_barrier());
  for (const DeviceProgram::Copy& copy : program.copies) RONDO_TRY(put(AsReduction(copy)));
  return put_barrier();
}

// Marks the opened memory that the program uses, so that it stays open.
void Peers::KeepOpen(const DeviceProgram& program) {
  const auto keep = [&](const std::byte* memory) {
    const CUdeviceptr at = AddressOf(memory);
    for (Wanted& one : opened_) {
      const CUdeviceptr base = one.opened->base;
      if (one.opened->is_there && base <= at && at - base < one.opened->what.bytes) one.in_graph = true;
    }
  };
  for (const std::byte* const state : program.barrier_states) keep(state);
  for (const DeviceReduce& reduction : program.reductions)
    for (std::size_t i = 0; i < reduction.count; ++i) keep(reduction.operands[i]);
  for (const DeviceProgram::Copy& copy : program.copies) keep(copy.source);
}

Result<std::uint64_t> Peers::Ended() {
  if (ended_ == begun_) return ended_;
  const Gpu::Use use(*gpu_);
  while (ended_ < begun_) {
    const CUresult asked = driver_.EventQuery(ends_[ended_ % kEvents]);
    if (asked == CUDA_ERROR_NOT_READY) break;
    RONDO_TRY(driver_.Check(asked, "work on the ranks' memory"));
    ++ended_;
  }
  return ended_;
}

void Peers::Drain() noexcept {
  const Gpu::Use use(*gpu_);
  driver_.StreamSynchronize(stream_);
}

}  // namespace rondo::cuda
