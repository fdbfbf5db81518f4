#include "cuda/queue.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <new>
#include <utility>

#include "cuda/pinned.h"

namespace rondo::cuda {
namespace {

// The value of Words::left that releases every wait. The driver compares this value with a sequence by the sign of
// their difference modulo 2^64. So this is the largest value that is not below any sequence.
constexpr std::uint64_t kReleaseAll = std::numeric_limits<std::int64_t>::max();

// Host-to-device copies of at most this size may run on the compute engine. (On an H200 with driver 580, the measured
// limit is between 16 KiB and 64 KiB.)
constexpr std::size_t kShortBytes = (64 << 10) - 1;

std::size_t PageBytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// Says whose memory the byte is; "" if it belongs to GPU `ordinal`.
std::string OtherOwner(const Driver& driver, CUdeviceptr at, int ordinal) {
  unsigned type = 0;
  if (driver.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS ||
      type == CU_MEMORYTYPE_HOST)
    return "memory of the host";
  int owner = -1;
  if (driver.PointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) != CUDA_SUCCESS)
    return "no memory that the driver knows";
  return owner == ordinal ? "" : fmt::format("memory of GPU {}", owner);
}

}  // namespace

Result<std::unique_ptr<Queue>> Queue::Make(std::shared_ptr<const Gpu> gpu, std::size_t most_operations) {
  if (gpu->Attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) == 0)
    return Fail(ErrorCode::kUnsupported,
                "streams of {} cannot wait for a value in memory (CAN_USE_64_BIT_STREAM_MEM_OPS is 0)", gpu->name());
  std::unique_ptr<Queue> queue(new Queue(std::move(gpu), most_operations));
  RONDO_TRY(queue->Prepare());
  return queue;
}

Status Queue::Prepare() {
  const Gpu::Use use(*gpu_);
  is_time_sliced_ = gpu_->is_time_sliced();
  max_pitch_ = static_cast<std::size_t>(gpu_->Attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
  // The copies' streams have the highest priority, for which the driver uses separate channels: a user's stream that
  // waits for an operation must not block the copies that complete the operation.
  int lowest = 0, highest = 0;
  RONDO_TRY(driver_.Check(driver_.CtxGetStreamPriorityRange(&lowest, &highest), "getting the priorities of streams"));
  for (Way& way : ways_) {
    RONDO_TRY(driver_.Check(driver_.StreamCreateWithPriority(&way.stream, CU_STREAM_NON_BLOCKING, highest),
                            "creating a stream for copies"));
    for (CUevent& end : way.ends)
      RONDO_TRY(driver_.Check(driver_.EventCreate(&end, CU_EVENT_DISABLE_TIMING), "creating an event for copies"));
  }
  void* const page = mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return Fail(ErrorCode::kOutOfMemory, "memory ran out while allocating a page that is shared with {}", gpu_->name());
  if (Status pinned = driver_.Check(driver_.MemHostRegister(page, PageBytes(), kPinFlags),
                                    "pinning the page that streams wait for");
      !pinned) {
    munmap(page, PageBytes());
    return pinned;
  }
  words_ = new (page) Words;
  gpu_->Add(*this);
  return driver_.Check(driver_.MemHostGetDevicePointer(&words_there_, page, 0),
                       "getting the device address of the page that streams wait for");
}

Queue::~Queue() {
  gpu_->Remove(*this);
  const Gpu::Use use(*gpu_);
  for (const Way& way : ways_) {
    if (way.stream != nullptr) {
      driver_.StreamSynchronize(way.stream);
      driver_.StreamDestroy(way.stream);
    }
    for (CUevent end : way.ends)
      if (end != nullptr) driver_.EventDestroy(end);
  }
  for (CUevent arrival : arrivals_)
    if (arrival != nullptr) driver_.EventDestroy(arrival);
  if (peers_ != nullptr && words_->report.stop != 0) peers_->KeepBarrierState();
  if (words_ != nullptr) EndGraphs();  // the user guarantees that no graph is under way; this is a precaution
  peers_.reset();
  // After ReleaseAllStreams, streams may still reach their waits later, and then read words_->left. So words_ is not
  // freed.
  const bool is_waited_on = words_ != nullptr && HasReleasedAllStreams() && last_wait_ > 0;
  if (words_ != nullptr && !is_waited_on) {
    driver_.MemHostUnregister(words_);
    munmap(words_, PageBytes());
  }
}

Status Queue::Check(const void* memory, std::size_t bytes, std::string_view what) const {
  const Gpu::Use use(*gpu_);
  for (const CUdeviceptr at : {AddressOf(memory), AddressOf(memory) + bytes - 1}) {
    const std::string whose = OtherOwner(driver_, at, gpu_->ordinal());
    if (whose.empty()) continue;
    if (at == AddressOf(memory))
      return Fail(ErrorCode::kInvalidArgument, "{0} ({1}): expected memory of {3}, got {2}", what, memory, whose,
                  gpu_->name());
    return Fail(ErrorCode::kInvalidArgument,
                "{} ({}) is shorter than the expected {} bytes: its last byte would be in {}", what, memory, bytes,
                whose);
  }
  return {};
}

Result<std::unique_ptr<PinnedMemory>> Queue::Pin(MutableBytes memory) { return cuda::Pin(gpu_, memory); }

Result<bool> Queue::IsCaptured(DeviceStream stream) const {
  const Gpu::Use use(*gpu_);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  RONDO_TRY(driver_.Check(driver_.StreamIsCapturing(static_cast<CUstream>(stream), &capture),
                          "checking whether the user's stream is being captured"));
  if (capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    return Fail(ErrorCode::kInvalidArgument, "the capture of the user's stream was invalidated by an earlier call");
  return capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

Status Queue::Capture(DeviceStream stream, const DeviceProgram& program) {
  auto* const report = reinterpret_cast<BarrierReport*>(words_there_ + offsetof(Words, report));
  return peers_->Capture(static_cast<CUstream>(stream), program, report);
}

std::optional<GraphFailure> Queue::FindGraphFailure() const {
  const BarrierReport& report = words_->report;
  if (LoadOfAll(&report.over) == 0) return std::nullopt;
  GraphFailure failure{.operation = report.operation, .missing = {}, .strayed = {}};
  for (Rank r = 0; r < kMaxSources; ++r) {
    if (report.missing[r] != 0) failure.missing.push_back(r);
    if (const std::uint64_t other = report.strayed[r]; other != 0)
      failure.strayed.push_back({.rank = r, .operation = other == kSomeOther ? 0 : other});
  }
  return failure;
}

Status Queue::Enter(DeviceStream stream, Sequence sequence, bool waits) {
  const Gpu::Use use(*gpu_);
  auto* const own = static_cast<CUstream>(stream);
  CUevent& arrival = ArrivalOf(sequence);
  if (arrival == nullptr)
    RONDO_TRY(driver_.Check(driver_.EventCreate(&arrival, CU_EVENT_DISABLE_TIMING), "creating an event"));
  RONDO_TRY(driver_.Check(driver_.EventRecord(arrival, own), "recording an event on the user's stream"));
  if (!waits) return {};
  last_wait_.store(sequence);
  const CUdeviceptr left = words_there_ + offsetof(Words, left);
  return driver_.Check(driver_.StreamWaitValue64(own, left, sequence, CU_STREAM_WAIT_VALUE_GEQ),
                       "making the user's stream wait");
}

Result<bool> Queue::HasArrived(Sequence sequence) {
  const Gpu::Use use(*gpu_);
  const CUresult asked = driver_.EventQuery(ArrivalOf(sequence));
  if (asked == CUDA_ERROR_NOT_READY) return false;
  RONDO_TRY(driver_.Check(asked, "earlier work on the user's stream"));
  return true;
}

Status Queue::PutRows(CUstream stream, CopyDirection direction, const DeviceCopy& copy) const {
  RONDO_TRY(MayBegin());
  const bool to_host = direction == CopyDirection::kToHost;
  CUDA_MEMCPY2D rows{};
  rows.WidthInBytes = copy.row_bytes;
  rows.Height = copy.rows;
  (to_host ? rows.srcMemoryType : rows.dstMemoryType) = CU_MEMORYTYPE_DEVICE;
  (to_host ? rows.srcDevice : rows.dstDevice) = AddressOf(copy.device);
  (to_host ? rows.srcPitch : rows.dstPitch) = copy.device_pitch;
  (to_host ? rows.dstMemoryType : rows.srcMemoryType) = CU_MEMORYTYPE_HOST;
  if (to_host) rows.dstHost = copy.host;
  if (!to_host) rows.srcHost = copy.host;
  (to_host ? rows.dstPitch : rows.srcPitch) = copy.host_pitch;
  return driver_.Check(driver_.Memcpy2DAsync(&rows, stream), "copying rows");
}

Status Queue::PutRow(CUstream stream, CopyDirection direction, const DeviceCopy& copy) const {
  RONDO_TRY(MayBegin());
  const std::size_t bytes = copy.row_bytes;
  if (direction == CopyDirection::kToHost)
    return driver_.Check(driver_.MemcpyDtoHAsync(copy.host, AddressOf(copy.device), bytes, stream), "copying");
  if (!is_time_sliced_ || bytes < 2 || bytes > kShortBytes)
    return driver_.Check(driver_.MemcpyHtoDAsync(AddressOf(copy.device), copy.host, bytes, stream), "copying");
  // Copies the two halves of the row as two rows, so that a copy engine is used. If the size is odd, the last two bytes
  // are copied again as two rows of one byte.
  const auto halves = [&](std::size_t from, std::size_t half) {
    return PutRows(stream, direction,
                   {.host = copy.host + from,
                    .device = copy.device + from,
                    .row_bytes = half,
                    .rows = 2,
                    .host_pitch = half,
                    .device_pitch = half});
  };
  RONDO_TRY(halves(0, bytes / 2));
  return bytes % 2 == 0 ? Status{} : halves(bytes - 2, 1);
}

Status Queue::Put(const Way& way, CopyDirection direction, const DeviceCopy& copy) const {
  if (copy.rows > 1 && copy.host_pitch <= max_pitch_ && copy.device_pitch <= max_pitch_)
    return PutRows(way.stream, direction, copy);
  for (std::size_t row = 0; row < copy.rows; ++row)
    RONDO_TRY(PutRow(way.stream, direction,
                     {.host = copy.host + row * copy.host_pitch,
                      .device = copy.device + row * copy.device_pitch,
                      .row_bytes = copy.row_bytes}));
  return {};
}

bool Queue::DoStreamsWait() const {
  return std::atomic_ref(words_->left).load(std::memory_order_acquire) < last_wait_.load();
}

bool Queue::HasReleasedAllStreams() const {
  return std::atomic_ref(words_->left).load(std::memory_order_acquire) == kReleaseAll;
}

Status Queue::MayBegin() const {
  if (!HasReleasedAllStreams()) return {};
  return Fail(ErrorCode::kAborted, "{} begins no further copies: all waiting streams were released after a failure",
              gpu_->name());
}

Status Queue::Copy(CopyDirection direction, const DeviceCopy& copy) {
  const Gpu::Use use(*gpu_);
  Way& way = ways_[static_cast<std::size_t>(direction)];
  RONDO_TRY(Put(way, direction, copy));
  RONDO_TRY(driver_.Check(driver_.EventRecord(way.ends[way.begun % kMaxCopies], way.stream), "copying"));
  ++way.begun;
  return {};
}

Result<std::uint64_t> Queue::Copied(CopyDirection direction) {
  Way& way = ways_[static_cast<std::size_t>(direction)];
  if (way.ended == way.begun) return way.ended;
  const Gpu::Use use(*gpu_);
  while (way.ended < way.begun) {
    const CUresult asked = driver_.EventQuery(way.ends[way.ended % kMaxCopies]);
    if (asked == CUDA_ERROR_NOT_READY) break;
    RONDO_TRY(driver_.Check(asked, "copying"));
    ++way.ended;
  }
  return way.ended;
}

void Queue::Leave(Sequence sequence) noexcept {
  const std::atomic_ref left(words_->left);
  std::uint64_t last = left.load(std::memory_order_relaxed);
  while (last != kReleaseAll && !left.compare_exchange_weak(last, sequence, std::memory_order_release)) {
  }
}

void Queue::ReleaseAllStreams() noexcept {
  if (Peers* const peers = peers_seen_.load(); peers != nullptr) peers->BeginNothing();
  Leave(kReleaseAll);
}

DevicePeers* Queue::peers(std::string& why) {
  if (peers_ == nullptr && no_peers_.empty()) {
    auto made = Peers::Make(gpu_);
    if (made) {
      peers_ = *std::move(made);
      peers_seen_.store(peers_.get());
    } else {
      no_peers_ = made.error().message();
    }
  }
  why = no_peers_;
  return peers_.get();
}

void Queue::Drain() noexcept {
  const Gpu::Use use(*gpu_);
  for (const Way& way : ways_) driver_.StreamSynchronize(way.stream);
}

}  // namespace rondo::cuda
