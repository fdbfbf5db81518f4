// The headers of collectives' frames, version 1. docs/WIRE.md defines their bytes. framing/frame_prefix.h defines the
// fields that headers of messages have, too. Every frame carries the descriptor of its operation, so that an error
// about ranks that disagree can name both operations.
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

// The properties of one operation on which the ranks must agree.
struct OperationDescriptor {
  Sequence sequence = 0;
  // Elements of one block (layout.h). If the operation is `varying`: the elements of all blocks together for all_gather
  // and reduce_scatter, where every rank knows all counts; 0 for the other collectives.
  std::uint64_t count = 0;
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // kSum if the collective does not reduce
  Algorithm algorithm = Algorithm::kDissemination;
  Rank root = 0;
  bool varying = false;  // each block has its own count (all_gather_v, ...)
  // The memory is device memory, and the vector is processed in windows. All ranks must agree, because ranks with host
  // memory would cut the vector differently.
  bool on_devices = false;
  bool in_graph = false;  // the devices' work is captured now and runs when the graphs are launched
  // The type of the user's elements if they are sent in a wider type (WideTypeOf), otherwise kSameType. `type` is the
  // type that is sent.
  static constexpr DataType kSameType{};
  DataType user_type = kSameType;
  // How many elements of each block the current window has; 0: the whole block. The value follows from the other fields
  // and from device_window_bytes, which the ranks have compared (CommunicatorOptions), so it is not sent.
  std::uint64_t window = 0;
  std::uint64_t elements() const { return window != 0 ? window : count; }
  // Bytes of a rank's largest buffer, or of its current window if there is one. REQUIRES: !varying.
  std::uint64_t BytesOfAll(int world_size) const;
  // Compares everything except `window`.
  bool operator==(const OperationDescriptor& other) const;
  // Examples: "all_reduce float32 x 1000 sum by ring", "broadcast int8 x 3 from rank 2 by tree", "barrier by
  // dissemination", "all_to_all_v int32 by direct", "all_reduce float16 x 3 avg in float32 by ring"
  std::string ToString() const;
};

inline constexpr std::size_t kDescriptorBytes = 24;
void Encode(const OperationDescriptor& descriptor, std::span<std::byte, kDescriptorBytes> out);
OperationDescriptor DecodeDescriptor(std::span<const std::byte, kDescriptorBytes> in);

struct FrameHeader {
  OperationDescriptor operation;
  std::uint32_t transfer = 0;        // number of the transfer in the operation's schedule
  std::uint32_t payload_bytes = 0;   // payload of this frame
  std::uint64_t payload_offset = 0;  // offset of the payload within the transfer
  // length of the transfer at the sender; sent so that an error can name the lengths at both ends
  std::uint64_t transfer_bytes = 0;
  std::uint64_t stream_offset = 0;  // offset of this header in the lane's stream
  bool operator==(const FrameHeader&) const = default;
};

void Encode(const FrameHeader& header, FrameHeaderBytes out);
// Encodes a header whose operation descriptor is already encoded. header.operation is ignored.
void Encode(const FrameHeader& header, std::span<const std::byte, kDescriptorBytes> descriptor, FrameHeaderBytes out);
// Returns nothing if the bytes are a header of this version, otherwise the reason why they are not. Decode does not
// check that values are in range (an unknown collective, for example): the caller compares them with its own operation.
// These values never determine how much memory is allocated.
std::optional<std::string_view> Decode(std::span<const std::byte, kFrameHeaderBytes> in, FrameHeader& out);

// Whether the bytes are a valid header of the operation whose encoded descriptor is given. If they are, `out` gets
// every field except `operation`. If they are not, Decode says why.
bool DecodeOf(std::span<const std::byte, kDescriptorBytes> descriptor, std::span<const std::byte, kFrameHeaderBytes> in,
              FrameHeader& out);

// The number of stream bytes that a transfer of `bytes` takes, in frames whose payload is at most `frame_bytes` (a
// multiple of kLineBytes). An empty transfer takes one header.
constexpr std::uint64_t StreamBytes(std::uint64_t bytes, std::uint64_t frame_bytes) {
  const std::uint64_t frames = bytes == 0 ? 1 : DivCeil(bytes, frame_bytes);
  return frames * kFrameHeaderBytes + RoundUp(bytes, kLineBytes);
}

}  // namespace rondo
