// Options of one call of a collective, in addition to its arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "collectives/engine/device_stream.h"
#include "collectives/schedule/collective.h"

namespace rondo {

// The kind of memory that holds the buffers of an operation; must be equal on all ranks.
enum class MemoryKind : std::uint8_t {
  kHost,
  kDevice,  // memory of a GPU (CommunicatorOptions::device)
};

struct OperationOptions {
  std::optional<Duration> timeout = {};     // nullopt: the communicator's
  std::optional<Algorithm> algorithm = {};  // nullopt: the fastest; must be equal on all ranks
  double scale = 1.0;                       // for kPremulSum: this rank's factor, applied in the element's type
  // If one of the next three fields is nullopt, the communicator's value applies. They must be equal on all ranks.
  std::optional<bool> reproducible = {};
  std::optional<bool> fp32_accumulate = {};
  std::optional<bool> compare_results = {};
  MemoryKind memory = MemoryKind::kHost;  // the kind of memory that holds all buffers
  DeviceStream stream = nullptr;          // for kDevice: the stream that orders the operation
  // true: later work of the stream waits for the operation, so the stream can continue only if the host works on the
  // operation. A driver call that waits for that stream, as loading a kernel may, can then block until the operation
  // has failed at its timeout (docs/GOTCHAS.md). false: the user must wait for the Work before using the result. If the
  // operation is captured, the stream waits in any case.
  bool stream_waits = true;
};

}  // namespace rondo
