// transport/shm: the address that a rank publishes, and what processes of one host pass to each other: setup messages,
// and memory that claims to be a lane's segment.
//
// Each of these parsers gets the input in turn. For a segment, the input is the beginning of the memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/printable.h"
#include "tests/fuzz/harness.h"
#include "transport/shm/address.h"
#include "transport/shm/segment.h"
#include "transport/shm/setup_message.h"

namespace rondo::fuzz::shm_fd_passing_fuzz {
void CheckAddress(std::string_view input) {
  const auto address = shm::DecodeShmAddress(input);
  CheckError(address);
  if (address) RONDO_HOLDS(Encode(*address) == input);
}

void CheckWord(std::string_view input) {
  shm::SetupMessage message;
  std::memcpy(&message, input.data(), std::min(input.size(), sizeof message));
  const std::string why = message.Why();
  RONDO_HOLDS(why.size() <= message.why.size());
  const shm::SetupMessage again = shm::SetupMessage::Of(shm::SetupKind::kCannot, why);
  RONDO_HOLDS(why.starts_with(again.Why()) && again.Why().size() + 1 >= why.size());
}

// Sealed memory of a segment's minimum size, or of a larger size that depends on the input. Null: the system could not
// make it.
Fd Sealed(std::string_view input) {
  constexpr std::size_t kSmall = 4096 + 2 * 4096, kBigger = 4096 + 2 * 8192;
  const std::size_t bytes = HashOf(input) % 4 == 0 ? kBigger : kSmall;
  Fd fd(memfd_create("rondo-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool ready = fd && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 &&
                     pwrite(fd.get(), input.data(), std::min(input.size(), bytes), 0) >= 0 &&
                     fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  return ready ? std::move(fd) : Fd();
}

void CheckSegment(std::string_view input) {
  Fd fd = Sealed(input);
  if (!fd) return;
  const auto segment = shm::Segment::Map(std::move(fd));
  CheckError(segment);
  if (!segment) return;
  // The header of the segment matches its memory: both rings end within the memory.
  RONDO_HOLDS(std::has_single_bit(segment->ring_bytes()));
  RONDO_HOLDS(segment->ring(1) == segment->ring(0) + segment->ring_bytes());
  const_cast<volatile std::byte*>(segment->ring(1))[segment->ring_bytes() - 1] = std::byte{1};
}

Corpus HarnessCorpus() {
  Corpus corpus;
  corpus.seeds.push_back(
      Encode(shm::ShmAddress{.host_id = "boot-net", .instance = "0123456789abcdef", .base = "base"}));
  const shm::SetupMessage cannot = shm::SetupMessage::Of(shm::SetupKind::kCannot, "no memory");
  corpus.seeds.emplace_back(reinterpret_cast<const char*>(&cannot), sizeof cannot);
  if (const auto segment = shm::Segment::Make(4096)) {
    corpus.seeds.emplace_back(reinterpret_cast<const char*>(&segment->head()), 64);
  }
  corpus.words = {"shm1", std::string("\x00\x10\x00\x00", 4), std::string("\x00\x20\x00\x00", 4)};
  return corpus;
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  CheckAddress(input);
  CheckWord(input);
  CheckSegment(input);
  allocations.CheckLargest(8192 + 64 * input.size());
}

}  // namespace rondo::fuzz::shm_fd_passing_fuzz
