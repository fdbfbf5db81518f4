// One call of a collective. The communicator keeps it until the operation has ended.
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

// The checksums of all ranks' results of one operation. The next operation is the all_gather that fills `all`.
struct ResultComparison {
  Sequence sequence = 0;           // number of that all_gather
  OperationDescriptor of;          // the operation whose results are compared
  std::uint32_t own = 0;           // this rank's checksum
  std::vector<std::uint32_t> all;  // indexed by rank
};

// One call of the user. The first fields hold the user's arguments; Check fills in the rest.
struct OperationRequest {
  OperationDescriptor descriptor;  // its sequence is set when the operation is issued
  const void* input = nullptr;
  void* output = nullptr;
  std::span<const std::uint64_t> input_counts, output_counts;  // if varying: element counts, valid until Issue returns

  const UserOperation* user = nullptr;  // set if descriptor.op is user-defined; lives as long as the communicator
  double scale = 1.0;
  Duration timeout{};
  std::uint64_t input_elements = 0;     // elements that this rank contributes
  std::uint64_t output_elements = 0;    // elements that this rank receives
  bool is_in_place_for_user = false;    // the user's input and output share memory; may differ from in_place if wide()
  bool in_place = false;                // the memory that is reduced is both input and output
  std::uint64_t own_at = 0;             // if in_place: element of the larger buffer at which the smaller one begins
  DataType type = DataType::kUint8;     // type of the user's elements; descriptor.type is the type that is sent
  const BlockCounts* counts = nullptr;  // if varying: a copy of the counts, kept by the queue

  // Two limits on the choice of the algorithm: results must be reproducible; the user has named an algorithm.
  bool reproducible = false;
  bool algorithm_is_asked = false;

  // If descriptor.on_devices:
  DeviceStream stream = nullptr;     // the operation begins after the work that this stream already has
  bool stream_waits = true;          // later work of the stream waits for the operation's end
  StagingMemory* staging = nullptr;  // staging buffer for the data; null in the request of a single window
  // If descriptor.in_graph: running the operation records here what the devices will do at each launch of the graph.
  // The object belongs to the issuer, which waits while the operation runs.
  DeviceProgram* program = nullptr;
  bool adapters_know_input = false;  // network adapters can read the input on the device, so lanes need no copy of it

  bool compares = false;  // the ranks compare their results: an all_gather of checksums follows
  // Set when the operation is issued. An operation that compares stores its checksum in this object; the all_gather
  // that follows stores the checksums of all ranks in it.
  ResultComparison* comparison = nullptr;

  // Whether elements are reduced in a wider type than the user's.
  bool wide() const { return type != descriptor.type; }
  // Whether devices compute the same result directly from the user's elements. They do if the elements are not widened,
  // and also if averages are computed in AverageTypeOf(type), because devices then widen the elements themselves.
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
