// What a test does to the fake driver, and sees of it, past the interface of CUDA: the library shows one symbol,
// `fake_cuda_control`, of this type. Tests use it through FakeDriver (fake_driver.h).
//
// Thread rule: any thread, at any time. Functions are named as in RONDO_CUDA_DRIVER_FUNCTIONS: "MemAlloc".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace rondo::cuda::fake {

// What was made and not yet given back. Streams are those that were created, not the default ones.
struct Live {
  std::uint64_t memory = 0;        // allocations
  std::uint64_t memory_bytes = 0;  // in them
  std::uint64_t streams = 0;
  std::uint64_t events = 0;  // opened ones of others too
  std::uint64_t registrations = 0;
  std::uint64_t opened = 0;  // other processes' allocations; one that was opened twice counts twice
  std::uint64_t modules = 0;
  std::uint64_t graphs = 0;    // and what they were made into
  std::uint64_t contexts = 0;  // retains of primary ones

  bool operator==(const Live&) const = default;
};

// Bytes that copies moved, by where they came from and went to. Memory that is registered is the host's.
struct BytesCopied {
  std::uint64_t to_device = 0;
  std::uint64_t to_host = 0;
  std::uint64_t within_devices = 0;  // between two of them, too

  bool operator==(const BytesCopied&) const = default;
};

struct Control {
  // The stream takes no more from its queue. What it has begun it finishes. NULL is the default stream of the current
  // context.
  void (*hold)(CUstream stream);
  void (*release)(CUstream stream);
  void (*step)(CUstream stream);              // a held one takes one piece more
  std::uint64_t (*pending)(CUstream stream);  // pieces that it has not finished

  // The nth call from now on, 1 is the next, does nothing and returns `result`.
  void (*fail_call)(const char* function, std::uint64_t nth, CUresult result);
  std::uint64_t (*calls)(const char* function);  // since the last reset, refused ones too
  // The nth kernel that begins from now on faults: its context is broken until it is reset.
  void (*fault_kernel)(std::uint64_t nth);

  // Every piece of queued work begins up to `most_us` late, by a generator that starts from `seed`.
  void (*set_delay)(std::uint64_t most_us, std::uint64_t seed);
  void (*set_devices)(int count);                // 0 to 16
  void (*set_memory)(std::uint64_t bytes);       // of each device
  void (*set_dma_buf)(bool supported);           // default: not
  void (*set_mps)(bool enabled);                 // clients of it share a GPU without turns; default: not
  void (*set_compute_mode)(CUcomputemode mode);  // told of every GPU, and not kept to
  void (*set_ipc_capable)(bool capable);         // false: memory as of cuMemCreate, which has no handles
  void (*set_version)(int version);              // of the driver; default: that of the header
  void (*set_display)(bool serves);              // kernels that take seconds would be ended; default: not

  Live (*live)();
  BytesCopied (*copied)();
  std::uint64_t (*kernels)();  // that have run since the last reset

  // Device memory or registered memory, past all streams: what is there at this moment. False: not all of it is such
  // memory.
  bool (*read)(CUdeviceptr from, void* to, std::size_t bytes);
  bool (*write)(CUdeviceptr to, const void* from, std::size_t bytes);

  // Settings are again those that the environment says, counters 0, broken contexts whole, held streams released. What
  // lives goes on living.
  void (*reset)();
};

}  // namespace rondo::cuda::fake
