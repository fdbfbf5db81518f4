#include "tests/fuzz/checked_frame.h"

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "collectives/framing/frame_check.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz {
namespace {

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

constexpr std::size_t kPayloadBytesAt = 24;

HeaderBytes HeaderOf(std::string_view text) {
  HeaderBytes header;
  std::copy_n(AsBytes(text).begin(), header.size(), header.begin());
  return header;
}

std::string Turned(std::string_view text) {
  std::string turned(text);
  const std::uint64_t bit = HashOf(text) % (8 * text.size());
  turned[bit / 8] = static_cast<char>(turned[bit / 8] ^ (1 << bit % 8));
  return turned;
}

// A lane may return a piece as two views, split at the end of the lane's ring.
Sums VerifyTail(std::string_view tail, Cut cut, std::uint32_t sum) {
  IncomingTail incoming;
  incoming.Begin();
  std::size_t due = tail.size();
  for (const std::string_view piece : Pieces(tail, cut)) {
    const Bytes bytes = AsBytes(piece);
    const std::size_t first = HashOf(piece) % (bytes.size() + 1);
    const std::size_t taken = incoming.Take({.first = bytes.first(first), .second = bytes.subspan(first)}, due);
    RONDO_HOLDS(taken == bytes.size());
    due -= taken;
  }
  return incoming.Verify(sum);
}

std::string TailOf(std::string_view payload, std::uint32_t header_sum) {
  OutgoingTail tail;
  tail.Seal(payload.size(), Crc32c(AsBytes(payload), header_sum));
  return ToText(tail.Last(CheckedTailOf(payload.size())));
}

}  // namespace

std::string CheckedFrame(std::string_view header, std::string_view payload) {
  HeaderBytes bytes = HeaderOf(header);
  SealHeader(bytes);
  const std::string frame = ToText(bytes) + std::string(payload);
  return payload.empty() ? frame : frame + TailOf(payload, SumOfHeader(bytes));
}

void CheckCheckedFrame(std::string_view input) {
  if (input.size() < kFrameHeaderBytes) return;
  const std::string_view text = input.substr(0, kFrameHeaderBytes);
  HeaderBytes opened = HeaderOf(text);
  const Sums sums = OpenHeader(opened);
  HeaderBytes sealed = opened;
  SealHeader(sealed);
  RONDO_HOLDS(sums.match() == (ToText(sealed) == text), "a header matches that no sender has sealed");
  RONDO_HOLDS(SumOfHeader(sealed) == sums.found);
  HeaderBytes damaged = HeaderOf(Turned(ToText(sealed)));
  RONDO_HOLDS(!OpenHeader(damaged).match(), "a turned bit of a header was not found");

  const std::string_view rest = input.substr(kFrameHeaderBytes);
  const std::uint64_t payload_bytes = LoadLittle<std::uint32_t>(opened.data() + kPayloadBytesAt);
  if (payload_bytes == 0 || payload_bytes + CheckedTailOf(payload_bytes) > rest.size()) return;
  const std::string_view payload = rest.substr(0, payload_bytes);
  const std::string_view tail = rest.substr(payload_bytes, CheckedTailOf(payload_bytes));
  const std::uint32_t sum = Crc32c(AsBytes(payload), sums.found);
  const std::string made = TailOf(payload, sums.found);
  const bool matches = VerifyTail(tail, Cut::kWhole, sum).match();
  RONDO_HOLDS(matches || made != tail);
  for (const Cut cut : kCuts) {
    RONDO_HOLDS(VerifyTail(tail, cut, sum).match() == matches, "the verdict depends on how the stream is cut");
    RONDO_HOLDS(VerifyTail(made, cut, sum).match());
    RONDO_HOLDS(!VerifyTail(Turned(made), cut, sum).match(), "a turned bit behind the payload was not found");
  }
  RONDO_HOLDS(!VerifyTail(made, Cut::kWhole, Crc32c(AsBytes(Turned(payload)), sums.found)).match(),
              "a turned bit of the payload was not found");
}

}  // namespace rondo::fuzz
