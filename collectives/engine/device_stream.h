// The type that names a stream of a device.
#pragma once

namespace rondo {

// A cudaStream_t or CUstream; null is the device's default stream.
using DeviceStream = void*;

}  // namespace rondo
