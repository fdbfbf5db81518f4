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
  // For each of these, nullopt: the communicator's. They must be equal on all ranks.
  std::optional<bool> reproducible = {};
  std::optional<bool> wide_partials = {};
  std::optional<bool> compare_results = {};
  MemoryKind memory = MemoryKind::kHost;  // the kind of all its buffers
  DeviceStream stream = nullptr;          // for kDevice: the stream on which the operation takes its place
  // Whether later work of the stream waits for the operation; if not, the user waits for the Work before using the
  // result. Such a stream can go on only if the host works on the operation. So a call of the driver that waits for
  // that stream, as loading a kernel may, can block until the operation has failed at its timeout (docs/GOTCHAS.md). If
  // the operation is captured, the stream waits in any case.
  bool stream_waits = true;
};

}  // namespace rondo
