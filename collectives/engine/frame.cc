#include "collectives/engine/frame.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <tuple>

#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// The type of the frame, and byte offsets in its header, as in docs/WIRE.md.
constexpr std::uint8_t kData = 1;
constexpr std::size_t kTransferAt = frame_prefix::kEnd, kDescriptorAt = 32, kTransferBytesAt = 56;
static_assert(kTransferAt + 4 == kDescriptorAt && kDescriptorAt + kDescriptorBytes == kTransferBytesAt &&
              kTransferBytesAt + 8 == kFrameHeaderBytes);
// Byte offsets within the descriptor.
constexpr std::size_t kSequenceAt = 0, kCountAt = 8, kRootAt = 16, kCollectiveAt = 20, kDataTypeAt = 21, kOpAt = 22,
                      kAlgorithmAt = 23;
static_assert(kAlgorithmAt + 1 == kDescriptorBytes);
constexpr std::byte kVarying{0x80}, kOnDevices{0x40}, kInGraph{0x20};  // flags in the byte of the collective
// The byte of the data type holds the sent type in its lower half and user_type in its upper half.
constexpr int kUserTypeShift = 4;
constexpr std::byte kTypeMask{0x0F};

}  // namespace

bool OperationDescriptor::operator==(const OperationDescriptor& other) const {
  // The fields are listed by name, so that the compiler rejects a new field until a developer decides whether ranks
  // compare it. `window` is not compared, because a decoded descriptor has none.
  const auto& [sequence, count, collective, type, op, algorithm, root, varying, on_devices, in_graph, user_type,
               window] = *this;
  static_cast<void>(window);
  return std::tie(sequence, count, collective, type, op, algorithm, root, varying, on_devices, in_graph, user_type) ==
         std::tie(other.sequence, other.count, other.collective, other.type, other.op, other.algorithm, other.root,
                  other.varying, other.on_devices, other.in_graph, other.user_type);
}

std::uint64_t OperationDescriptor::BytesOfAll(int world_size) const {
  const std::uint64_t bytes = elements() * SizeOf(type);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return bytes;
    default: return bytes * static_cast<std::uint64_t>(world_size);
  }
}

std::string OperationDescriptor::ToString() const {
  if (!ParseCollective(Name(collective))) return fmt::format("unknown collective {}", static_cast<int>(collective));
  std::string text = fmt::format("{}{}", Name(collective), varying ? "_v" : "");
  const bool is_widened = user_type != kSameType;
  if (collective != Collective::kBarrier) text += fmt::format(" {}", Name(is_widened ? user_type : type));
  if (collective != Collective::kBarrier && !(varying && count == 0)) text += fmt::format(" x {}", count);
  if (Reduces(collective)) text += fmt::format(" {}", Name(op));
  if (is_widened) text += fmt::format(" in {}", Name(type));
  const bool from_root = collective == Collective::kBroadcast || collective == Collective::kScatter;
  if (HasRoot(collective)) text += fmt::format(" {} rank {}", from_root ? "from" : "to", root);
  if (on_devices) text += in_graph ? " in a graph" : " on devices";
  return text + fmt::format(" by {}", Name(algorithm));
}

void Encode(const OperationDescriptor& descriptor, std::span<std::byte, kDescriptorBytes> out) {
  std::byte* to = out.data();
  StoreLittle<std::uint64_t>(to + kSequenceAt, descriptor.sequence);
  StoreLittle<std::uint64_t>(to + kCountAt, descriptor.count);
  StoreLittle<std::uint32_t>(to + kRootAt, static_cast<std::uint32_t>(descriptor.root));
  to[kCollectiveAt] = static_cast<std::byte>(descriptor.collective) | (descriptor.varying ? kVarying : std::byte{}) |
                      (descriptor.on_devices ? kOnDevices : std::byte{}) |
                      (descriptor.in_graph ? kInGraph : std::byte{});
  to[kDataTypeAt] = static_cast<std::byte>(descriptor.type) | static_cast<std::byte>(descriptor.user_type)
                                                                  << kUserTypeShift;
  to[kOpAt] = static_cast<std::byte>(descriptor.op);
  to[kAlgorithmAt] = static_cast<std::byte>(descriptor.algorithm);
}

OperationDescriptor DecodeDescriptor(std::span<const std::byte, kDescriptorBytes> in) {
  const std::byte* from = in.data();
  OperationDescriptor descriptor;
  descriptor.sequence = LoadLittle<std::uint64_t>(from + kSequenceAt);
  descriptor.count = LoadLittle<std::uint64_t>(from + kCountAt);
  descriptor.root = static_cast<Rank>(LoadLittle<std::uint32_t>(from + kRootAt));
  descriptor.collective = static_cast<Collective>(from[kCollectiveAt] & ~(kVarying | kOnDevices | kInGraph));
  descriptor.varying = (from[kCollectiveAt] & kVarying) != std::byte{};
  descriptor.on_devices = (from[kCollectiveAt] & kOnDevices) != std::byte{};
  descriptor.in_graph = (from[kCollectiveAt] & kInGraph) != std::byte{};
  descriptor.type = static_cast<DataType>(from[kDataTypeAt] & kTypeMask);
  descriptor.user_type = static_cast<DataType>(from[kDataTypeAt] >> kUserTypeShift);
  descriptor.op = static_cast<ReduceOp>(from[kOpAt]);
  descriptor.algorithm = static_cast<Algorithm>(from[kAlgorithmAt]);
  return descriptor;
}

void Encode(const FrameHeader& header, FrameHeaderBytes out) {
  std::array<std::byte, kDescriptorBytes> descriptor;
  Encode(header.operation, descriptor);
  Encode(header, descriptor, out);
}

void Encode(const FrameHeader& header, std::span<const std::byte, kDescriptorBytes> descriptor, FrameHeaderBytes out) {
  std::byte* to = out.data();
  frame_prefix::Encode(kData, header, to);
  StoreLittle<std::uint32_t>(to + kTransferAt, header.transfer);
  StoreLittle<std::uint64_t>(to + kTransferBytesAt, header.transfer_bytes);
  std::memcpy(to + kDescriptorAt, descriptor.data(), kDescriptorBytes);
}

namespace {

// Decodes the fields that differ from frame to frame.
void DecodePlace(const std::byte* from, FrameHeader& out) {
  frame_prefix::Decode(from, out);
  out.transfer = LoadLittle<std::uint32_t>(from + kTransferAt);
  out.transfer_bytes = LoadLittle<std::uint64_t>(from + kTransferBytesAt);
}

}  // namespace

bool DecodeOf(std::span<const std::byte, kDescriptorBytes> descriptor, std::span<const std::byte, kFrameHeaderBytes> in,
              FrameHeader& out) {
  const std::byte* from = in.data();
  if (LoadLittle<std::uint64_t>(from) != frame_prefix::BeginningOf(kData)) return false;
  if (std::memcmp(from + kDescriptorAt, descriptor.data(), kDescriptorBytes) != 0) return false;
  DecodePlace(from, out);
  return true;
}

std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, FrameHeader& out) {
  const std::byte* from = in.data();
  if (const auto fault = frame_prefix::FindFault(from)) return fault;
  if (frame_prefix::TypeOf(from) != kData) return "a frame of unknown type";
  DecodePlace(from, out);
  out.operation =
      DecodeDescriptor(std::span<const std::byte, kDescriptorBytes>(from + kDescriptorAt, kDescriptorBytes));
  return std::nullopt;
}

}  // namespace rondo
