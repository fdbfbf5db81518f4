// One call of a collective, as a communicator keeps it until it has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "collectives/engine/device.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/frame.h"

namespace rondo {

class StagingMemory;
struct UserOperation;

// The checksums of all ranks' results of one operation; the next operation is the all_gather that fills `all`.
struct ResultComparison {
  Sequence sequence = 0;  // of that all_gather
  OperationDescriptor of;
  std::uint32_t own = 0;
  std::vector<std::uint32_t> all;  // by rank
};

// One call of the user. The first part is what was asked for; Check completes it.
struct OperationRequest {
  OperationDescriptor descriptor;  // sequence is filled in when it is issued
  const void* input = nullptr;
  void* output = nullptr;
  std::span<const std::uint64_t> input_counts, output_counts;  // of varying operations; lent until Issue has returned

  const UserOperation* user = nullptr;  // the function, if descriptor.op is a user's; lives as long as the communicator
  double scale = 1.0;
  Duration timeout{};
  std::uint64_t input_elements = 0;  // that this rank gives; output_elements: that it receives
  std::uint64_t output_elements = 0;
  bool is_in_place_for_user = false;    // the user's input and output are one memory; differs from in_place if wide()
  bool in_place = false;                // the memory that is reduced is one for input and output ...
  std::uint64_t own_at = 0;             // ... and the smaller of the two begins at this element of the larger
  DataType type = DataType::kUint8;     // of the user's elements; descriptor.type is that of the elements sent
  const BlockCounts* counts = nullptr;  // of varying operations: a copy of the counts, kept by the queue

  // How the algorithm was chosen.
  bool reproducible = false;
  bool algorithm_is_asked = false;

  // If descriptor.on_devices:
  DeviceStream stream = nullptr;     // the operation begins after the work that this stream already has
  bool stream_waits = true;          // later work of the stream waits for the operation's end
  StagingMemory* staging = nullptr;  // host memory through which the data goes; null in a window's own request
  // Of an operation in a graph (descriptor.in_graph): running it records here what the devices will do at each launch.
  // Belongs to the issuer, who waits meanwhile.
  DeviceProgram* program = nullptr;
  bool adapters_know_input = false;  // network adapters can read the input on the device, so lanes need no copy of it

  bool compares = false;  // the ranks compare their results: an all_gather of checksums follows
  // Set when issued. For an operation that compares: where its checksum goes. For the all_gather: where the checksums
  // of all ranks go.
  ResultComparison* comparison = nullptr;

  bool wide() const { return type != descriptor.type; }  // reduced in a wider type than the user's
  // Whether devices give the same result from the user's elements alone: they widen averages on the way.
  bool devices_serve_type() const {
    return !wide() || (descriptor.op == ReduceOp::kAvg && descriptor.type == AverageTypeOf(type));
  }
  // The descriptor of the same operation on devices. REQUIRES: devices_serve_type().
  OperationDescriptor on_user_elements() const {
    OperationDescriptor own = descriptor;
    own.type = type;
    own.user_type = OperationDescriptor::kSameType;
    return own;
  }
};

}  // namespace rondo
