// How a test controls and observes the fake driver outside the interface of CUDA. The library exports one symbol for
// this, `fake_cuda_control`, of the type Control. Tests use it through FakeDriver (fake_driver.h).
//
// Thread rule: any thread, at any time. Functions are named as in RONDO_CUDA_DRIVER_FUNCTIONS: "MemAlloc".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace rondo::cuda::fake {

// Counts of objects that were made and not yet released. `streams` counts created streams, not the default ones.
struct Live {
  std::uint64_t memory = 0;        // allocations
  std::uint64_t memory_bytes = 0;  // bytes in all allocations
  std::uint64_t streams = 0;
  std::uint64_t events = 0;  // includes opened events of other processes
  std::uint64_t registrations = 0;
  std::uint64_t opened = 0;  // opened allocations of other processes; one that was opened twice counts twice
  std::uint64_t modules = 0;
  std::uint64_t graphs = 0;    // graphs and executable graphs
  std::uint64_t contexts = 0;  // retains of primary contexts

  bool operator==(const Live&) const = default;
};

// Bytes that copies moved, by the kind of their source and destination. Registered memory counts as the host's.
struct BytesCopied {
  std::uint64_t to_device = 0;
  std::uint64_t to_host = 0;
  std::uint64_t within_devices = 0;  // includes copies between two devices

  bool operator==(const BytesCopied&) const = default;
};

struct Control {
  // `hold` stops the stream from taking more work from its queue; work that has begun is finished. NULL is the default
  // stream of the current context.
  void (*hold)(CUstream stream);
  void (*release)(CUstream stream);
  void (*step)(CUstream stream);              // lets a held stream do one more piece of work
  std::uint64_t (*pending)(CUstream stream);  // pieces of work that the stream has not finished

  // Makes the nth call of the function from now on do nothing and return `result`; 1 is the next call.
  void (*fail_call)(const char* function, std::uint64_t nth, CUresult result);
  std::uint64_t (*calls)(const char* function);  // calls since the last reset, refused ones included
  // Makes the nth kernel that begins from now on fail with a fault. Its context then stays broken until the context is
  // reset.
  void (*fault_kernel)(std::uint64_t nth);

  // Delays the start of each piece of queued work at random, with this seed, by at most `most_us` us.
  void (*set_delay)(std::uint64_t most_us, std::uint64_t seed);
  void (*set_devices)(int count);                // 0 to 16
  void (*set_memory)(std::uint64_t bytes);       // memory of each device
  void (*set_dma_buf)(bool supported);           // default: false
  void (*set_mps)(bool enabled);                 // true: processes share a GPU without time slicing; default: false
  void (*set_compute_mode)(CUcomputemode mode);  // reported for every GPU, but not enforced
  void (*set_ipc_capable)(bool capable);         // false: memory behaves like cuMemCreate's, which has no IPC handles
  void (*set_version)(int version);              // the driver's version; default: CUDA_VERSION
  // true: GPUs report that a display uses them (real drivers then end kernels that run for seconds); default: false
  void (*set_display)(bool serves);

  Live (*live)();
  BytesCopied (*copied)();
  std::uint64_t (*kernels)();  // kernels that have run since the last reset

  // Read and write device memory or registered memory at this moment, without waiting for any stream. False: part of
  // the range is neither.
  bool (*read)(CUdeviceptr from, void* to, std::size_t bytes);
  bool (*write)(CUdeviceptr to, const void* from, std::size_t bytes);

  // Restores the settings that the environment gives, sets counters to 0, repairs broken contexts, and releases held
  // streams. Existing objects stay.
  void (*reset)();
};

}  // namespace rondo::cuda::fake
