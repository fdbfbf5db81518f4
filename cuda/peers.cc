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
static_assert(sizeof(MeetingPlace) <= kBlockBytes);

// The id of this process combined with the inode of its pid namespace: processes in two containers of a host may have
// the same id and even the same start time.
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
  // The second field is a name in parentheses that may contain any character; the start time is field 22.
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

FoldArguments ArgumentsOf(const DeviceFold& fold) {
  static_assert(DeviceFold::kMostOperands == kMostSources);
  FoldArguments arguments;
  arguments.destination = fold.destination;
  arguments.elements = fold.elements;
  arguments.count = static_cast<std::int32_t>(fold.count);
  arguments.divisor = fold.divisor;
  for (std::size_t i = 0; i < fold.count; ++i) {
    arguments.sources[i] = fold.operands[i];
    arguments.scales[i] = fold.scales[i];
  }
  return arguments;
}

ReduceOp OperationOf(const DeviceFold& fold) {
  return fold.op == ReduceOp::kAvg && fold.divisor == 0 ? ReduceOp::kSum : fold.op;
}

// A copy expressed as the fold of one vector, with the largest element type that fits. Unlike a copy, a fold can skip
// its work if the graph's operations have failed (FoldArguments::over).
DeviceFold AsFold(const DeviceProgram::Copy& copy) {
  DeviceFold fold{.destination = copy.destination, .count = 1};
  fold.operands[0] = copy.source;
  const std::uint64_t places = AddressOf(copy.destination) | AddressOf(copy.source) | copy.bytes;
  for (const DataType type : {DataType::kUint64, DataType::kUint32, DataType::kUint8}) {
    fold.type = type;
    if (places % SizeOf(type) == 0) break;
  }
  fold.elements = copy.bytes / SizeOf(fold.type);
  return fold;
}

// Changes the code of a driver error to kUnsupported, so that the caller uses another way.
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
  RONDO_ASSIGN(kernels_, FoldKernels::Load(gpu_));
  const Gpu::Use use(*gpu_);
  int lowest = 0, highest = 0;
  RONDO_TRY(driver_.Check(driver_.CtxGetStreamPriorityRange(&lowest, &highest), "asking for priorities of streams"));
  RONDO_TRY(driver_.Check(driver_.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, highest),
                          "making a stream for peers' memory"));
  for (CUevent& end : ends_)
    RONDO_TRY(driver_.Check(driver_.EventCreate(&end, CU_EVENT_DISABLE_TIMING), "making an event"));
  own_.process = NumberOfProcess();
  own_.start = StartOfProcess();
  CUuuid uuid{};
  RONDO_TRY(driver_.Check(driver_.DeviceGetUuid(&uuid, gpu_->device()), "asking for the GPU's UUID"));
  std::memcpy(own_.device.data(), uuid.bytes, sizeof uuid.bytes);
  if (gpu_->takes_turns()) server_.device = own_.device;
  server_.process = {own_.process, own_.start};
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
  if (place_ != 0 && !others_may_come_) driver_.MemFree(place_);
}

Result<DevicePeers::Place> Peers::Show(const std::byte* memory, std::uint64_t shown_bytes) {
  Place place{};
  Shown shown{.of = own_};
  if (memory != nullptr) {
    const Gpu::Use use(*gpu_);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const auto shows = [&](CUresult result, std::string_view doing) -> Status {
      const Status done = driver_.Check(result, doing);
      return done ? done : Status(Fail(AsUnsupported(done.error())));
    };
    RONDO_TRY(shows(driver_.MemGetAddressRange(&base, &bytes, AddressOf(memory)), "finding an allocation"));
    shown.offset = AddressOf(memory) - base;
    // Adjacent allocations may look like one piece of memory to the program, but peers would only reach the first.
    if (shown_bytes > bytes - shown.offset)
      return Fail(ErrorCode::kUnsupported, "{} bytes at {}, where an allocation ends after {}", shown_bytes,
                  static_cast<const void*>(memory), bytes - shown.offset);
    std::uint64_t identity = 0;
    RONDO_TRY(shows(driver_.PointerGetAttribute(&identity, CU_POINTER_ATTRIBUTE_BUFFER_ID, base),
                    "asking for an allocation's identity"));
    auto known = std::find_if(shown_.begin(), shown_.end(), [&](const PeerAllocation& one) {
      return one.address == base && one.identity == identity;
    });
    if (known == shown_.end()) {
      PeerAllocation made = own_;
      made.identity = identity;
      made.address = base;
      made.bytes = bytes;
      RONDO_TRY(shows(driver_.IpcGetMemHandle(&made.handle, base), "showing memory to other processes"));
      if (shown_.size() == kMostOpened) shown_.erase(shown_.begin());
      known = shown_.insert(shown_.end(), made);
    }
    shown.of = *known;
  }
  std::memcpy(place.data(), &shown, sizeof shown);
  return place;
}

Result<std::byte*> Peers::Find(const Place& place, bool may_wait) {
  Shown shown;
  std::memcpy(&shown, place.data(), sizeof shown);
  if (shown.of.IsOfProcess(own_.process, own_.start)) {
    if (shown.of.address == 0) return nullptr;
    const Gpu::Use use(*gpu_);
    const CUdeviceptr at = shown.of.address + shown.offset;
    int ordinal = -1;
    const CUresult asked = driver_.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    if (const Status done = driver_.Check(asked, "asking where a peer's memory lies"); !done)
      return Fail(AsUnsupported(done.error()));
    if (ordinal != gpu_->ordinal())
      return Fail(ErrorCode::kUnsupported, "memory of GPU {} in the same process, which {} may not reach", ordinal,
                  gpu_->name());
    return MemoryAt(at);
  }
  auto wanted = std::find_if(opened_.begin(), opened_.end(),
                             [&](const Wanted& one) { return one.opened->is_there && one.opened->what == shown.of; });
  if (wanted == opened_.end()) {
    const Gpu::Use use(*gpu_);
    const auto opened = gpu_->opened().Open(driver_, shown.of, gpu_->name(), may_wait);
    if (!opened) return Fail(AsUnsupported(opened.error()));
    wanted = opened_.insert(opened_.end(), {.opened = *opened});
  }
  wanted->last_use = ++uses_;
  return MemoryAt(wanted->opened->base + shown.offset);
}

void Peers::CloseUnwanted() {
  const Gpu::Use use(*gpu_);
  gpu_->opened().CloseFreed(driver_);
  const auto is_there = [](const Wanted& one) { return one.opened->is_there.load(); };
  const auto gone = std::partition(opened_.begin(), opened_.end(), is_there);
  std::for_each(gone, opened_.end(), [&](const Wanted& one) { Close(one); });
  opened_.erase(gone, opened_.end());
  if (opened_.size() <= kMostOpened) return;
  const auto kept = std::partition(opened_.begin(), opened_.end(), [](const Wanted& one) { return one.in_graph; });
  const std::size_t most = static_cast<std::size_t>(kept - opened_.begin()) + kMostOpened;
  std::sort(kept, opened_.end(), [](const Wanted& a, const Wanted& b) { return a.last_use > b.last_use; });
  for (; opened_.size() > most; opened_.pop_back()) Close(opened_.back());
}

// Counts the work that was just put on the stream.
Status Peers::Note() {
  RONDO_TRY(driver_.Check(driver_.EventRecord(ends_[begun_ % kEvents], stream_), "recording an event"));
  ++begun_;
  return {};
}

Status Peers::MayBegin() const {
  RONDO_CHECK(begun_ - ended_ < kEvents, "{} at once", begun_ - ended_);
  if (over_.load()) return Fail(ErrorCode::kAborted, "streams no longer wait for what {} does", gpu_->name());
  return {};
}

Status Peers::Fold(const DeviceFold& fold) {
  const Gpu::Use use(*gpu_);
  RONDO_TRY(MayBegin());
  RONDO_TRY(kernels_->Launch(stream_, fold.type, OperationOf(fold), ArgumentsOf(fold)));
  return Note();
}

Status Peers::CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  const Gpu::Use use(*gpu_);
  RONDO_TRY(MayBegin());
  RONDO_TRY(driver_.Check(driver_.MemcpyDtoDAsync(AddressOf(destination), AddressOf(source), bytes, stream_),
                          "copying on the GPU"));
  return Note();
}

Result<const std::byte*> Peers::MeetingPlace() {
  if (gpu_->Attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) != 0)
    return Fail(ErrorCode::kUnsupported, "{} serves a display: kernels that take seconds are ended, as those that wait",
                gpu_->name());
  if (place_ == 0) {
    const Gpu::Use use(*gpu_);
    CUdeviceptr place = 0;
    RONDO_TRY(driver_.Check(driver_.MemAlloc(&place, kBlockBytes), "allocating a place for meetings"));
    Status cleared = driver_.Check(driver_.MemsetD8Async(place, 0, sizeof(cuda::MeetingPlace), stream_),
                                   "clearing a place for meetings");
    if (cleared) cleared = driver_.Check(driver_.StreamSynchronize(stream_), "clearing a place for meetings");
    if (!cleared) {
      driver_.MemFree(place);
      return Fail(cleared.error());
    }
    place_ = place;
  }
  return MemoryAt(place_);
}

Status Peers::Capture(CUstream stream, const DeviceProgram& program, MeetingReport* report) {
  const Gpu::Use use(*gpu_);
  KeepOpen(program);
  MeetArguments meet{.report = report,
                     .timeout_ns = static_cast<std::uint64_t>(program.timeout.count()),
                     .operation = program.operation,
                     .rank = program.rank,
                     .count = static_cast<std::int32_t>(program.places.size())};
  for (std::size_t r = 0; r < program.places.size(); ++r)
    meet.places[r] = reinterpret_cast<cuda::MeetingPlace*>(program.places[r]);
  const auto put = [&](const DeviceFold& fold) -> Status {
    FoldArguments arguments = ArgumentsOf(fold);
    arguments.over = &reinterpret_cast<const cuda::MeetingPlace*>(place_)->over;
    return kernels_->Launch(stream, fold.type, OperationOf(fold), arguments);
  };
  const auto put_meeting = [&]() -> Status {
    return meet.count > 1 ? kernels_->Launch(stream, meet) : Status{};  // a single rank needs no barrier
  };
  RONDO_TRY(kernels_->Launch(stream, meet));  // also for a single rank: the kernel checks MeetingReport::stop
  for (const DeviceFold& fold : program.folds) RONDO_TRY(put(fold));
  if (program.meets_between) RONDO_TRY(put_meeting());
  for (const DeviceProgram::Copy& copy : program.copies) RONDO_TRY(put(AsFold(copy)));
  return put_meeting();
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
  for (const std::byte* const place : program.places) keep(place);
  for (const DeviceFold& fold : program.folds)
    for (std::size_t i = 0; i < fold.count; ++i) keep(fold.operands[i]);
  for (const DeviceProgram::Copy& copy : program.copies) keep(copy.source);
}

Result<std::uint64_t> Peers::Ended() {
  if (ended_ == begun_) return ended_;
  const Gpu::Use use(*gpu_);
  while (ended_ < begun_) {
    const CUresult asked = driver_.EventQuery(ends_[ended_ % kEvents]);
    if (asked == CUDA_ERROR_NOT_READY) break;
    RONDO_TRY(driver_.Check(asked, "working on ranks' memory"));
    ++ended_;
  }
  return ended_;
}

void Peers::Drain() noexcept {
  const Gpu::Use use(*gpu_);
  driver_.StreamSynchronize(stream_);
}

}  // namespace rondo::cuda
