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

  const UserOperation* user = nullptr;  // what descriptor.op means, where it is a user's; lives as long as the core
  double scale = 1.0;
  Duration timeout{};
  std::uint64_t input_elements = 0;  // what this rank brings and gets
  std::uint64_t output_elements = 0;
  bool is_in_place_for_user = false;    // as the call was made; differs from the next only if wide()
  bool in_place = false;                // input and output are one memory ...
  std::uint64_t own_at = 0;             // ... in which the smaller begins at this element
  DataType type = DataType::kUint8;     // of the user's elements; descriptor.type is of what travels
  const BlockCounts* counts = nullptr;  // of varying operations: in the queue

  // How the algorithm was chosen.
  bool reproducible = false;
  bool algorithm_is_asked = false;

  // Where descriptor.on_devices: the stream on which the operation has its place, and the memory of the host by way of
  // which it goes; null: that of a window, which lies there.
  DeviceStream stream = nullptr;
  bool stream_waits = true;  // for the operation's end
  StagingMemory* staging = nullptr;
  // Of an operation in a graph (descriptor.in_graph): what the devices do, which is filled in by running it. The
  // issuer's, who waits meanwhile.
  DeviceProgram* program = nullptr;
  bool adapters_know_input = false;  // so that lanes may send it from where it lies, on a device

  bool compares = false;  // its result is to be compared among the ranks
  // Once issued: of an operation that compares where its checksum goes, of the all_gather behind it what that fills.
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
