// The name of a stream of a device.
#pragma once

namespace rondo {

// A stream of the device's: a cudaStream_t or CUstream; null is its default stream.
using DeviceStream = void*;

}  // namespace rondo
