// A device simulated in host memory, for tests of device support. An access to its addresses crashes, its copies
// proceed late and in pieces, and its streams run only when they are polled.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/net/fd.h"
#include "base/random.h"
#include "collectives/engine/device.h"
#include "collectives/kernels/reduce.h"
#include "tests/support/host_fold.h"

namespace rondo {

// Memory of the device. An access to its device address crashes. The real bytes are at another address, between guard
// bytes. Both addresses map the same pages, so code that works on pages, such as an adapter, finds the bytes at the
// device address.
class PlainDeviceMemory {
 public:
  static constexpr std::size_t kGuardBytes = 64;
  static constexpr std::size_t kAroundBytes = 3 * kGuardBytes;
  static constexpr std::byte kGuard{0xA5};

  // `place` is the result of KeepPlace for memory of the same size, or null for any address.
  explicit PlainDeviceMemory(std::size_t bytes, std::size_t misalignment = 0, void* place = nullptr)
      : begin_(kGuardBytes + misalignment % kGuardBytes), bytes_(bytes), all_bytes_(bytes + kAroundBytes) {
    const Fd pages(memfd_create("plain device", MFD_CLOEXEC));
    RONDO_CHECK(pages && ftruncate(pages.get(), static_cast<off_t>(all_bytes_)) == 0, "no memory");
    trap_ = mmap(place, all_bytes_, PROT_NONE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), pages.get(), 0);
    void* const shadow = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, pages.get(), 0);
    RONDO_CHECK(trap_ != MAP_FAILED && shadow != MAP_FAILED, "no address space");
    shadow_ = static_cast<std::byte*>(shadow);
    std::fill_n(shadow_, all_bytes_, kGuard);
    std::fill_n(shadow_ + begin_, bytes_, std::byte{0xEE});
  }
  ~PlainDeviceMemory() {
    if (trap_ != nullptr) munmap(trap_, all_bytes_);
    munmap(shadow_, all_bytes_);
  }
  PlainDeviceMemory(const PlainDeviceMemory&) = delete;
  PlainDeviceMemory& operator=(const PlainDeviceMemory&) = delete;

  // The address to pass to operations.
  std::byte* address() const { return static_cast<std::byte*>(trap_) + begin_; }
  std::size_t size() const { return bytes_; }
  std::uint64_t identity() const { return identity_; }
  // The real bytes. Tests fill and read them directly, instead of running work on the device.
  MutableBytes bytes() { return {shadow_ + begin_, bytes_}; }
  bool GuardsIntact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(shadow_, shadow_ + begin_, is_guard) &&
           std::all_of(shadow_ + begin_ + bytes_, shadow_ + all_bytes_, is_guard);
  }

 private:
  friend class PlainDevice;
  // Keeps this object's addresses reserved, for memory of the same size. Call it before this object is destroyed.
  void* KeepPlace() {
    void* const kept = mmap(trap_, all_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    RONDO_CHECK(kept == trap_, "no address space");
    return std::exchange(trap_, nullptr);
  }
  // The real address of the bytes at a device address; null: they are not in this memory.
  std::byte* Find(const void* device, std::size_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(device) - reinterpret_cast<std::uintptr_t>(trap_);
    if (at >= all_bytes_ || bytes > all_bytes_ - at) return nullptr;
    return shadow_ + at;
  }

  static std::uint64_t NextIdentity() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  const std::uint64_t identity_ = NextIdentity();
  const std::size_t begin_, bytes_, all_bytes_;
  std::byte* shadow_;
  void* trap_;
};

// A stream: work that runs in order. The work runs when the stream is polled, unless the stream is held. An operation
// that waits for the stream polls it.
class PlainStream {
 public:
  void Put(std::function<void()> work) {
    PutStep([work = std::move(work)] {
      work();
      return true;
    });
  }
  // Adds a step. The step is repeated until it returns true.
  void PutStep(std::function<bool()> step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  // Runs the work. Returns true if no work remains.
  bool Run() {
    const std::lock_guard lock(mutex_);
    if (held_) ++held_looks_;
    while (!held_ && !steps_.empty() && steps_.front()()) steps_.pop_front();
    return steps_.empty();
  }
  // The number of times that the stream was polled while it was held.
  std::uint64_t held_looks() const { return held_looks_; }

 private:
  std::mutex mutex_;
  std::deque<std::function<bool()>> steps_;
  bool held_ = false;
  std::atomic<std::uint64_t> held_looks_{0};
};

class PlainDevice final : public Device {
 public:
  explicit PlainDevice(std::uint64_t seed) : random_(seed) {}
  ~PlainDevice() override {
    if (freed_ != nullptr) munmap(freed_, freed_bytes_ + PlainDeviceMemory::kAroundBytes);
  }

  PlainDeviceMemory& Allocate(std::size_t bytes, std::size_t misalignment = 0) {
    const std::lock_guard lock(mutex_);
    void* place = nullptr;
    if (freed_bytes_ == bytes) place = std::exchange(freed_, nullptr);
    return *memory_.emplace_back(std::make_unique<PlainDeviceMemory>(bytes, misalignment, place));
  }
  bool GuardsIntact() {
    const std::lock_guard lock(mutex_);
    return std::all_of(memory_.begin(), memory_.end(), [](const auto& memory) { return memory->GuardsIntact(); });
  }
  // Makes a copy fail, as on a faulty device, after `copies` further copies.
  void FailCopyAfter(std::uint64_t copies) { copies_left_ = copies; }
  // `held`: true stops the progress of all copies, false continues it.
  void HoldCopies(bool held) { held_ = held; }
  // Simulates a driver that waits for streams. A call that checks an operation returns only when the operation's stream
  // continues, and all other calls wait meanwhile.
  void HoldUpCalls(bool held_up) { held_up_ = held_up; }
  // Sets whether the device can access other ranks' memory and exports its own.
  void SetPeers(bool has_peers) { has_peers_ = has_peers; }
  // Sets whether other ranks can open the memory that the device exports.
  void SetReachable(bool reachable) { reachable_ = reachable; }
  // Makes the device time-sliced between processes. `number` identifies the device; 0: it is not time-sliced. `process`
  // identifies the process that the device serves.
  void SetTimeSlicedGpu(unsigned char number, std::uint64_t process) {
    time_sliced_gpu_.device[0] = std::byte{number};
    time_sliced_gpu_.process[0] = process;
  }
  std::uint64_t reductions() const { return reductions_; }
  std::uint64_t faults() const { return faults_; }  // number of failed copies
  // The number of calls that waited until a stream continued.
  std::uint64_t held_calls() const { return held_calls_; }
  // The number of bytes that copies have moved to the host.
  std::uint64_t bytes_to_host() const { return bytes_to_host_; }
  // The real address of the bytes whose device addresses are `memory`, for a simulated adapter; null: not all of
  // `memory` belongs to this device.
  const std::byte* Behind(Bytes memory) { return Find(memory.data(), memory.size()); }
  // The identity of the memory at this address; 0: the device has no memory there.
  std::uint64_t IdentityOf(const std::byte* memory) {
    const std::lock_guard lock(mutex_);
    for (const auto& one : memory_)
      if (one->Find(memory, 1) != nullptr) return one->identity();
    return 0;
  }
  // Frees the memory. The next allocation of the same size gets the same address.
  void Free(PlainDeviceMemory& memory) {
    const std::lock_guard lock(mutex_);
    if (freed_ != nullptr) munmap(freed_, freed_bytes_ + PlainDeviceMemory::kAroundBytes);
    freed_bytes_ = memory.size();
    freed_ = memory.KeepPlace();
    std::erase_if(memory_, [&](const auto& one) { return one.get() == &memory; });
  }
  std::uint64_t pinned_bytes() const { return pinned_bytes_; }

  Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, DeviceStream, std::size_t) override {
    if (memory != nullptr && Find(memory, 1) == nullptr)
      return Fail(ErrorCode::kInvalidArgument, "{} is no memory of a device", memory);
    const std::lock_guard lock(mutex_);
    return std::unique_ptr<DeviceQueue>(new Queue(*this, random_.Next()));
  }

 private:
  // Serializes work on the memory of several devices. Only ThreadSanitizer needs it. Ranks order the work of their
  // devices through a shared segment, which each rank maps at another address. ThreadSanitizer does not see that these
  // mappings are the same memory.
  static std::mutex& Bus() {
    static std::mutex bus;
    return bus;
  }

  class Pinned final : public PinnedMemory {
   public:
    Pinned(std::atomic<std::uint64_t>& all, std::uint64_t bytes) : all_(all), bytes_(bytes) { all_ += bytes_; }
    ~Pinned() override { all_ -= bytes_; }

   private:
    std::atomic<std::uint64_t>& all_;
    std::uint64_t bytes_;
  };

  // Gives access to the memory of other devices. Runs the issued work late and in order. Ranks exchange a
  // MemoryHandle, which contains a device and an address of that device.
  class Peers final : public DevicePeers {
   public:
    Peers(PlainDevice& device, std::uint64_t seed) : device_(device), random_(seed) {}

    Result<MemoryHandle> Export(const std::byte* memory, std::uint64_t) override {
      MemoryHandle handle{};
      const std::lock_guard lock(Bus());
      const Exported exported{&device_, const_cast<std::byte*>(memory)};
      std::memcpy(handle.data(), &exported, sizeof exported);
      return handle;
    }
    Result<std::byte*> Open(const MemoryHandle& handle, bool) override {
      Exported exported;
      std::memcpy(&exported, handle.data(), sizeof exported);
      const auto [other, memory] = exported;
      if (!other->reachable_) return Fail(ErrorCode::kUnsupported, "a plain device that cannot be reached");
      if (std::find(others_.begin(), others_.end(), other) == others_.end()) others_.push_back(other);
      return memory;
    }
    TimeSlicedGpu time_sliced_gpu() const override { return device_.time_sliced_gpu_; }
    Result<const std::byte*> BarrierState() override {
      return Fail(ErrorCode::kUnsupported, "the plain device has no graphs");
    }
    Status Reduce(const DeviceReduce& reduction) override {
      ++device_.reductions_;
      begun_.push_back([this, reduction] { Do(reduction); });
      return {};
    }
    Status CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) override {
      begun_.push_back([=, this] { std::memcpy(At(destination, bytes), At(source, bytes), bytes); });
      return {};
    }
    std::uint64_t begun() const override { return ended_ + begun_.size(); }
    Result<std::uint64_t> Ended() override {
      if (!begun_.empty() && random_.Chance(0.3)) DoNext();
      return ended_;
    }
    void Drain() noexcept override {
      while (!begun_.empty()) DoNext();
    }

   private:
    struct Exported {
      PlainDevice* device = nullptr;
      std::byte* memory = nullptr;
    };
    void DoNext() {
      const std::lock_guard lock(Bus());
      begun_.front()();
      begun_.pop_front();
      ++ended_;
    }
    // The real address of memory of this device, or of memory that was opened from another device.
    std::byte* At(const std::byte* memory, std::uint64_t bytes) {
      std::byte* found = device_.Find(memory, bytes);
      for (PlainDevice* const other : others_)
        if (found == nullptr) found = other->Find(memory, bytes);
      RONDO_CHECK(found != nullptr, "memory of no device");
      return found;
    }
    void Do(const DeviceReduce& reduction) {
      const std::uint64_t bytes = reduction.elements * SizeOf(reduction.type);
      std::vector<std::vector<std::byte>> operands;
      for (std::size_t i = 0; i < reduction.count; ++i) {
        const std::byte* const from = At(reduction.operands[i], bytes);
        operands.emplace_back(from, from + bytes);
      }
      const std::vector<std::byte> result = FoldOnHost(reduction.type, reduction.op, std::move(operands),
                                                       reduction.elements, reduction.scales, reduction.divisor);
      std::memcpy(At(reduction.destination, bytes), result.data(), bytes);
    }

    PlainDevice& device_;
    Random random_;
    std::vector<PlainDevice*> others_;
    std::deque<std::function<void()>> begun_;
    std::uint64_t ended_ = 0;
  };

  class Queue final : public DeviceQueue {
   public:
    Queue(PlainDevice& device, std::uint64_t seed) : device_(device), random_(seed) {}
    ~Queue() override { RONDO_CHECK(ways_[0].empty() && ways_[1].empty(), "copies under way"); }

    std::string_view name() const override { return "the plain device"; }
    Status Check(const void* memory, std::size_t bytes, std::string_view what) const override {
      if (device_.Find(memory, bytes) != nullptr) return {};
      return Fail(ErrorCode::kInvalidArgument, "{} is no memory of the plain device", what);
    }
    Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) override {
      return std::unique_ptr<PinnedMemory>(new Pinned(device_.pinned_bytes_, memory.size()));
    }
    Result<ExportedMemory> Export(const std::byte* memory) override {
      const std::lock_guard lock(device_.mutex_);
      for (const auto& one : device_.memory_)
        if (one->Find(memory, 1) != nullptr)
          return ExportedMemory{.memory = {.bytes = {one->address(), one->size()}, .device = "the plain device"},
                                .dma_buf = {},
                                .identity = one->identity()};
      return Fail(ErrorCode::kUnsupported, "no memory of the plain device");
    }
    std::uint64_t IdentityOf(const std::byte* memory) const override { return device_.IdentityOf(memory); }
    Result<bool> IsCaptured(DeviceStream) const override { return false; }
    Status Capture(DeviceStream, const DeviceProgram&) override {
      return Fail(ErrorCode::kUnsupported, "the plain device has no graphs");
    }
    std::optional<GraphFailure> FindGraphFailure() const override { return std::nullopt; }
    void EndGraphs() noexcept override {}
    Status Enter(DeviceStream stream, Sequence sequence, bool waits) override {
      if (stream == nullptr) return Fail(ErrorCode::kUnsupported, "the plain device has no default stream");
      auto* const own = static_cast<PlainStream*>(stream);
      auto arrived = std::make_shared<std::atomic<bool>>(false);
      {
        const std::lock_guard lock(mutex_);
        entered_.push_back({sequence, own, arrived});
      }
      own->Put([arrived] { arrived->store(true); });
      if (waits) own->PutStep([left = left_, sequence] { return left->load() >= sequence; });
      return {};
    }
    Result<bool> HasArrived(Sequence sequence) override {
      if (device_.held_up_) HoldUp(sequence);
      const std::lock_guard lock(mutex_);
      while (!entered_.empty() && entered_.front().sequence < sequence) entered_.pop_front();
      RONDO_CHECK(!entered_.empty() && entered_.front().sequence == sequence, "#{} has not entered", sequence);
      entered_.front().stream->Run();
      return entered_.front().arrived->load();
    }
    Status Copy(CopyDirection direction, const DeviceCopy& copy) override {
      if (left_->load() == kReleaseAll) return Fail(ErrorCode::kAborted, "the streams have been released");
      if (device_.copies_left_-- == 0) {
        ++device_.faults_;
        return Fail(ErrorCode::kDevice, "the copy has faulted");
      }
      auto& way = ways_[static_cast<std::size_t>(direction)];
      RONDO_CHECK(way.size() < kMaxCopies, "{} copies one way", way.size());
      way.push_back({direction, copy});
      return {};
    }
    Result<std::uint64_t> Copied(CopyDirection direction) override {
      auto& way = ways_[static_cast<std::size_t>(direction)];
      if (!way.empty() && !device_.held_ && random_.Chance(0.5))
        Move(way, 1 + random_.Below(std::uint64_t{1} << random_.Below(18)));
      return ended_[static_cast<std::size_t>(direction)];
    }
    void Leave(Sequence sequence) noexcept override {
      Sequence last = left_->load();
      while (last != kReleaseAll && !left_->compare_exchange_weak(last, sequence)) {
      }
    }
    void ReleaseAllStreams() noexcept override { left_->store(kReleaseAll); }
    void Drain() noexcept override {
      for (auto& way : ways_)
        while (!way.empty()) Move(way, std::numeric_limits<std::uint64_t>::max());
    }

    void RunIdleCleanup() override { RONDO_CHECK(ways_[0].empty() && ways_[1].empty(), "copies under way"); }
    DevicePeers* peers(std::string& why) override {
      if (!device_.has_peers_) why = "the plain device has no peers";
      return device_.has_peers_ ? &peers_ : nullptr;
    }

   private:
    static constexpr Sequence kReleaseAll = std::numeric_limits<Sequence>::max();
    struct Entered {
      Sequence sequence;
      PlainStream* stream;
      std::shared_ptr<std::atomic<bool>> arrived;
    };
    struct UnderWay {
      CopyDirection direction;
      DeviceCopy copy;
      std::size_t row = 0, at = 0;
    };
    void HoldUp(Sequence sequence) {
      ++device_.held_calls_;
      while (left_->load() < sequence) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void Move(std::deque<UnderWay>& way, std::uint64_t bytes) {
      const std::lock_guard lock(Bus());
      UnderWay& first = way.front();
      const DeviceCopy& copy = first.copy;
      while (bytes > 0 && first.row < copy.rows) {
        const std::size_t piece = std::min<std::uint64_t>(bytes, copy.row_bytes - first.at);
        std::byte* const host = copy.host + first.row * copy.host_pitch + first.at;
        std::byte* const device =
            device_.Find(copy.device + first.row * copy.device_pitch + first.at, std::max<std::size_t>(piece, 1));
        RONDO_CHECK(device != nullptr, "a copy beyond the device's memory");
        if (first.direction == CopyDirection::kToHost) {
          std::memcpy(host, device, piece);
          device_.bytes_to_host_ += piece;
        }
        if (first.direction == CopyDirection::kToDevice) std::memcpy(device, host, piece);
        bytes -= piece;
        if ((first.at += piece) == copy.row_bytes) {
          ++first.row;
          first.at = 0;
        }
      }
      if (first.row < copy.rows) return;
      ++ended_[static_cast<std::size_t>(first.direction)];
      way.pop_front();
    }

    PlainDevice& device_;
    Random random_;
    Peers peers_{device_, random_.Next()};
    std::mutex mutex_;
    std::deque<Entered> entered_;
    std::array<std::deque<UnderWay>, 2> ways_;
    std::array<std::uint64_t, 2> ended_{};
    // Shared, because streams may still poll this number after the queue is destroyed.
    const std::shared_ptr<std::atomic<Sequence>> left_ = std::make_shared<std::atomic<Sequence>>(0);
  };

  std::byte* Find(const void* device, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (const auto& memory : memory_)
      if (std::byte* const found = memory->Find(device, bytes)) return found;
    return nullptr;
  }

  std::mutex mutex_;
  Random random_;
  std::vector<std::unique_ptr<PlainDeviceMemory>> memory_;
  void* freed_ = nullptr;  // the reserved addresses of freed memory; their size is freed_bytes_
  std::size_t freed_bytes_ = 0;
  std::atomic<std::uint64_t> copies_left_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<bool> held_{false}, held_up_{false}, has_peers_{true}, reachable_{true};
  DevicePeers::TimeSlicedGpu time_sliced_gpu_;
  std::atomic<std::uint64_t> reductions_{0}, faults_{0}, held_calls_{0};
  std::atomic<std::uint64_t> pinned_bytes_{0}, bytes_to_host_{0};
};

}  // namespace rondo
