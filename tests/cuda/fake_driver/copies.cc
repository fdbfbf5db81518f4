// Copies and fills. They are made in pieces, from the front or from the back, so that code which reads the result too
// early sees half of it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

enum class Kind { kDevice, kRegistered, kPageable };

struct Side {
  CUdeviceptr address = 0;  // address of the first byte that is copied
  std::size_t pitch = 0;    // bytes from one row to the next
  Kind kind = Kind::kDevice;
};

struct Copy {
  Side to;
  Side from;
  std::size_t width = 0;
  std::size_t height = 1;

  std::size_t Extent(const Side& side) const {
    return width == 0 || height == 0 ? 0 : (height - 1) * side.pitch + width;
  }
};

// What the caller claims about one side of a copy.
enum class Said { kHost, kDevice, kAny };

// Determines the kind of memory of one side of a copy. False: the memory is not what the caller claims.
bool Classify(const State& state, Side& side, std::size_t bytes, Said said) {
  if (bytes == 0) return true;
  const auto place = state.memory.Resolve(side.address, bytes);
  if (place) {
    side.kind = place->memory != nullptr ? Kind::kDevice : Kind::kRegistered;
    return said != Said::kHost || side.kind != Kind::kDevice;
  }
  side.kind = Kind::kPageable;
  return said != Said::kDevice && side.address != 0 && state.memory.Find(side.address) == nullptr &&
         state.memory.Registered(side.address) == nullptr;
}

std::optional<Place> Resolve(const State& state, const Side& side, std::size_t bytes) {
  if (side.kind == Kind::kPageable) return Place{.at = reinterpret_cast<std::byte*>(side.address), .memory = nullptr};
  return state.memory.Resolve(side.address, bytes);
}

// Calls piece(begin, end) for consecutive parts of [0, count), at most eight, with a pause in the middle.
template <class Piece>
void InPieces(std::size_t count, std::size_t least, std::uint64_t salt, std::uint64_t pause_us, Piece&& piece) {
  const std::size_t size = std::max(least, (count + 7) / 8);
  const std::size_t pieces = (count + size - 1) / size;
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t which = (salt & 1) != 0 ? pieces - 1 - i : i;
    if (i == pieces / 2 && pieces > 1 && pause_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds((salt >> 1) % (pause_us + 1)));
    piece(which * size, std::min(count, (which + 1) * size));
    std::this_thread::yield();
  }
}

bool Run(State& state, const Copy& copy, std::uint64_t salt) {
  std::optional<Place> to;
  std::optional<Place> from;
  std::uint64_t pause_us = 0;
  {
    const std::unique_lock lock(state.mutex);
    to = Resolve(state, copy.to, copy.Extent(copy.to));
    from = Resolve(state, copy.from, copy.Extent(copy.from));
    pause_us = state.settings.delay_us;
  }
  if (!to || !from) return false;
  if (copy.height == 1) {
    InPieces(copy.width, 64, salt, pause_us,
             [&](std::size_t begin, std::size_t end) { std::memmove(to->at + begin, from->at + begin, end - begin); });
  } else {
    InPieces(copy.height, 1, salt, pause_us, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        std::memmove(to->at + row * copy.to.pitch, from->at + row * copy.from.pitch, copy.width);
    });
  }
  const std::unique_lock lock(state.mutex);
  const std::uint64_t bytes = std::uint64_t{copy.width} * copy.height;
  const bool to_device = copy.to.kind == Kind::kDevice;
  const bool from_device = copy.from.kind == Kind::kDevice;
  if (to_device && from_device) state.copied.within_devices += bytes;
  if (to_device && !from_device) state.copied.to_device += bytes;
  if (!to_device && from_device) state.copied.to_host += bytes;
  return true;
}

CUresult Queue(Call& call, CUstream handle, Copy copy, Said to, Said from) {
  const auto stream = FindStream(call, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!Classify(call.state, copy.to, copy.Extent(copy.to), to) ||
      !Classify(call.state, copy.from, copy.Extent(copy.from), from))
    return CUDA_ERROR_INVALID_VALUE;
  if (copy.width == 0 || copy.height == 0) return CUDA_SUCCESS;
  State& state = call.state;
  Work work;
  work.repeats = true;
  work.run = [&state, copy](std::uint64_t salt) { return Run(state, copy, salt); };
  std::uint64_t number = 0;
  if (const CUresult queued = Enqueue(stream, std::move(work), &number); queued != CUDA_SUCCESS) return queued;
  // A device cannot reach memory that is not registered: the driver copies it, and the calling thread waits.
  const bool pageable = copy.to.kind == Kind::kPageable || copy.from.kind == Kind::kPageable;
  return pageable ? WaitUntilFinished(call, *stream, number) : CUDA_SUCCESS;
}

CUdeviceptr AddressOf(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

CUresult QueueLine(const char* function, CUdeviceptr to, Said to_said, CUdeviceptr from, Said from_said,
                   std::size_t bytes, CUstream stream) {
  return Do(function, Needs::kContext, [&](Call& call) {
    return Queue(call, stream, {.to = {.address = to}, .from = {.address = from}, .width = bytes}, to_said, from_said);
  });
}

// Fills in one side of a two-dimensional copy; false: its arguments are invalid.
bool MakeSide(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x, std::size_t y, std::size_t pitch,
              const CUDA_MEMCPY2D& copy, Side& side, Said& said) {
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return false;
  if (pitch == 0 && copy.Height <= 1) pitch = x + copy.WidthInBytes;
  if (pitch < x + copy.WidthInBytes) return false;
  said = type == CU_MEMORYTYPE_HOST ? Said::kHost : type == CU_MEMORYTYPE_DEVICE ? Said::kDevice : Said::kAny;
  side.address = (said == Said::kHost ? AddressOf(host) : device) + y * pitch + x;
  side.pitch = pitch;
  return true;
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return QueueLine("MemcpyHtoDAsync", to, Said::kDevice, AddressOf(from), Said::kHost, bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return QueueLine("MemcpyDtoHAsync", AddressOf(to), Said::kHost, from, Said::kDevice, bytes, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return QueueLine("MemcpyDtoDAsync", to, Said::kDevice, from, Said::kDevice, bytes, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* asked, CUstream stream) {
  return Do("Memcpy2DAsync", Needs::kContext, [&](Call& call) {
    if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY2D& a = *asked;
    Copy copy{.to = {}, .from = {}, .width = a.WidthInBytes, .height = a.Height};
    Said to = Said::kAny;
    Said from = Said::kAny;
    if (!MakeSide(a.dstMemoryType, a.dstHost, a.dstDevice, a.dstXInBytes, a.dstY, a.dstPitch, a, copy.to, to) ||
        !MakeSide(a.srcMemoryType, a.srcHost, a.srcDevice, a.srcXInBytes, a.srcY, a.srcPitch, a, copy.from, from))
      return CUDA_ERROR_INVALID_VALUE;
    return Queue(call, stream, copy, to, from);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream handle) {
  return Do("MemsetD8Async", Needs::kContext, [&](Call& call) {
    const auto stream = FindStream(call, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!call.state.memory.Resolve(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    State& state = call.state;
    Work work;
    work.repeats = true;
    work.run = [&state, to, value, bytes](std::uint64_t salt) {
      std::unique_lock lock(state.mutex);
      const auto place = state.memory.Resolve(to, bytes);
      const std::uint64_t pause_us = state.settings.delay_us;
      lock.unlock();
      if (!place) return false;
      InPieces(bytes, 64, salt, pause_us,
               [&](std::size_t begin, std::size_t end) { std::memset(place->at + begin, value, end - begin); });
      return true;
    };
    return Enqueue(stream, std::move(work));
  });
}
