#include "transport/shm/segment.h"

#include <bit>
#include <new>

#include "base/check.h"

namespace rondo::shm {
namespace {

constexpr std::uint64_t kSegmentMagic = 0x6d68732d6f646e72;  // "rndo-shm"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMaxRingBytes = std::size_t{1} << 30;

std::size_t SizeFor(std::size_t ring_bytes) { return kSegmentHeadBytes + 2 * ring_bytes; }

}  // namespace

Result<Segment> Segment::Make(std::size_t ring_bytes) {
  RONDO_CHECK(std::has_single_bit(ring_bytes) && ring_bytes >= kPageBytes && ring_bytes <= kMaxRingBytes,
              "ring_bytes {}", ring_bytes);
  RONDO_ASSIGN(SharedMemory memory, SharedMemory::Make("a lane", SizeFor(ring_bytes)));
  auto* const head = new (memory.bytes().data()) SegmentHead{};
  head->magic = kSegmentMagic;
  head->version = kVersion;
  head->ring_bytes = static_cast<std::uint32_t>(ring_bytes);
  return Segment(std::move(memory), ring_bytes);
}

Result<Segment> Segment::Map(Fd fd) {
  RONDO_ASSIGN(SharedMemory memory, SharedMemory::Map(std::move(fd), SizeFor(kPageBytes), SizeFor(kMaxRingBytes)));
  const auto* const head = reinterpret_cast<const SegmentHead*>(memory.bytes().data());
  const std::size_t ring_bytes = head->ring_bytes;  // read only once, because a peer may change it
  if (head->magic != kSegmentMagic || head->version != kVersion || !std::has_single_bit(ring_bytes) ||
      SizeFor(ring_bytes) != memory.bytes().size())
    return Fail(ErrorCode::kProtocol, "the shared memory that was received for a lane is not a segment of version {}",
                kVersion);
  return Segment(std::move(memory), ring_bytes);
}

}  // namespace rondo::shm
