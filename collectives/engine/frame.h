// The headers of collectives' frames, version 1 (docs/WIRE.md has the grammar; framing/frame_prefix.h what they share
// with those of messages). Every frame carries the descriptor of its operation, so that ranks that disagree can be told
// in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/reduce_op.h"
#include "collectives/framing/frame_prefix.h"
#include "collectives/schedule/step.h"

namespace rondo {

// What the ranks must agree on about one operation.
struct OperationDescriptor {
  Sequence sequence = 0;
  // Elements of one block (layout.h). Where the operation is `varying`: of all blocks together if every rank knows them
  // all (all_gather, reduce_scatter), else 0.
  std::uint64_t count = 0;
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // kSum where nothing is reduced
  Algorithm algorithm = Algorithm::kDissemination;
  Rank root = 0;
  bool varying = false;  // each block has a count of its own: all_gather_v, ...
  // The memory is a device's and goes in windows. All ranks must agree, because ranks whose memory is the host's would
  // cut the vector in another way.
  bool on_devices = false;
  bool in_graph = false;  // what the devices do is captured now, and done when the graphs are launched
  // The type of the users' elements, if `type`, which travels, is wider (WideTypeOf); otherwise kSameType.
  static constexpr DataType kSameType{};
  DataType user_type = kSameType;
  // Of every block, what is worked on now: a window; 0: all. It follows from the rest and from device_window_bytes,
  // which the ranks have compared (CommunicatorOptions), and so is on no wire.
  std::uint64_t window = 0;
  std::uint64_t elements() const { return window != 0 ? window : count; }
  // Of the vector, or of all its blocks; of what is worked on now. REQUIRES: not varying.
  std::uint64_t BytesOfAll(int world_size) const;
  // In what they must agree on.
  bool operator==(const OperationDescriptor& other) const;
  // "all_reduce float32 x 1000 sum by ring", "broadcast int8 x 3 from rank 2 by tree", "barrier by dissemination",
  // "all_to_all_v int32 by direct", "all_reduce float16 x 3 avg in float32 by ring"
  std::string ToString() const;
};

inline constexpr std::size_t kDescriptorBytes = 24;
void Encode(const OperationDescriptor& descriptor, std::span<std::byte, kDescriptorBytes> out);
OperationDescriptor DecodeDescriptor(std::span<const std::byte, kDescriptorBytes> in);

struct FrameHeader {
  OperationDescriptor operation;
  std::uint32_t transfer = 0;        // which transfer of the operation's schedule
  std::uint32_t payload_bytes = 0;   // of this frame
  std::uint64_t payload_offset = 0;  // within the transfer
  std::uint64_t transfer_bytes = 0;  // the transfer's length, so that ranks that disagree about it can be told both
  std::uint64_t stream_offset = 0;   // of this header, in its lane direction
  bool operator==(const FrameHeader&) const = default;
};

void Encode(const FrameHeader& header, FrameHeaderBytes out);
// The same for many frames of one operation, whose descriptor was encoded before; header.operation is not looked at.
void Encode(const FrameHeader& header, std::span<const std::byte, kDescriptorBytes> descriptor, FrameHeaderBytes out);
// Why the bytes are no header of this version, or nothing when they are one. Values out of their ranges (an unknown
// collective, say) are the caller's to compare; nothing is ever allocated by them.
std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, FrameHeader& out);

// For frames of an operation whose descriptor's bytes are at hand: whether this is a sound header of that operation.
// Then `out` has everything but the operation; else Decode tells what is wrong.
bool DecodeOf(std::span<const std::byte, kDescriptorBytes> descriptor, std::span<const std::byte, kFrameHeaderBytes> in,
              FrameHeader& out);

// The bytes of the stream that a transfer of `bytes` takes in frames of at most `frame_bytes` payload (a multiple of
// kLineBytes). An empty transfer still is one header.
constexpr std::uint64_t StreamBytes(std::uint64_t bytes, std::uint64_t frame_bytes) {
  const std::uint64_t frames = bytes == 0 ? 1 : DivCeil(bytes, frame_bytes);
  return frames * kFrameHeaderBytes + RoundUp(bytes, kLineBytes);
}

}  // namespace rondo
