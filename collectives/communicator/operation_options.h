// What a call of a collective may say beside its arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "collectives/engine/device_stream.h"
#include "collectives/schedule/collective.h"

namespace rondo {

// Where the buffers of an operation lie; equal on all ranks.
enum class MemoryKind : std::uint8_t {
  kHost,
  kDevice,  // a GPU's (Devices, above)
};

struct OperationOptions {
  std::optional<Duration> timeout = {};     // nullopt: the communicator's
  std::optional<Algorithm> algorithm = {};  // nullopt: the fastest; must be equal on all ranks
  double scale = 1.0;                       // of kPremulSum: this rank's factor, applied in the element's type
  // nullopt: the communicator's; must be equal on all ranks.
  std::optional<bool> reproducible = {};
  std::optional<bool> wide_partials = {};
  std::optional<bool> compare_results = {};
  MemoryKind memory = MemoryKind::kHost;  // of all its buffers
  DeviceStream stream = nullptr;          // of kDevice: where the operation has its place
  // Whether what is put on the stream after the call waits for the operation; else who wants its result waits for the
  // Work. A stream that waits needs the host, and so what the driver does on a thread of this process while it waits
  // itself for that stream, as when it loads a kernel, perhaps ends only when the operation has failed at its timeout
  // (docs/GOTCHAS.md). Captured operations wait.
  bool stream_waits = true;
};

}  // namespace rondo
