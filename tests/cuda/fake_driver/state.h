// The whole state of the fake driver, behind one lock: calls are few and short, and a single lock cannot be taken in a
// wrong order. Copies, kernels and host functions run without the lock.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/cuda/fake_driver/control.h"
#include "tests/cuda/fake_driver/event.h"
#include "tests/cuda/fake_driver/graph.h"
#include "tests/cuda/fake_driver/kernels.h"
#include "tests/cuda/fake_driver/memory.h"
#include "tests/cuda/fake_driver/stream.h"

namespace rondo::cuda::fake {

inline constexpr int kMaxDevices = 16;

// The primary context of a device. The fake driver has no other contexts.
struct Context {
  CUdevice device = 0;
  std::uint64_t retains = 0;
  CUresult error = CUDA_SUCCESS;  // the result of every call once a kernel has faulted
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> of_threads;
  std::vector<std::shared_ptr<Stream>> streams;  // every stream that may have work, destroyed ones included
  std::uint64_t memory_bytes = 0;
  bool loading = false;  // true while a thread loads a kernel; meanwhile all other calls on the context wait
};

struct Module {
  Context* context = nullptr;
};
struct Function {
  Module* module = nullptr;
  const Kernel* kernel = nullptr;
  bool loaded = false;
};

// Settings, which come from a test or from environment variables: FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY,
// FAKE_CUDA_DELAY_US, FAKE_CUDA_SEED, FAKE_CUDA_DMA_BUF, FAKE_CUDA_MPS, FAKE_CUDA_COMPUTE_MODE (reported, not
// enforced), FAKE_CUDA_INIT_MS (how long cuInit takes), and CUDA_VISIBLE_DEVICES as for a real driver. FAKE_CUDA_FAULT
// makes one thing fail once, and stderr then says so: with "kernel:40" the 40th kernel faults; with "MemcpyHtoDAsync:3"
// the third such call is refused.
struct Settings {
  std::vector<int> devices{0};  // ordinals among the machine's devices
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  std::uint64_t delay_us = 20;
  std::uint64_t seed = 1;
  bool dma_buf = false;
  bool mps = false;
  std::uint64_t init_ms = 0;
  int compute_mode = CU_COMPUTEMODE_DEFAULT;
  bool ipc_capable = true;
  bool display = false;
  int version = CUDA_VERSION;

  static Settings FromEnvironment();
};

struct State {
  std::mutex mutex;
  std::condition_variable finished;  // notified when work has finished or a context has broken

  pid_t initialized_in = 0;  // the process that called cuInit; its children by fork() have no driver
  Settings settings = Settings::FromEnvironment();
  Random random{settings.seed};

  Context contexts[kMaxDevices];
  MemoryMap memory;
  std::map<CUstream, std::shared_ptr<Stream>> streams;
  std::map<CUevent, std::shared_ptr<Event>> events;
  std::map<CUmodule, std::unique_ptr<Module>> modules;
  std::map<CUfunction, std::unique_ptr<Function>> functions;
  std::map<CUgraph, std::unique_ptr<Graph>> graphs;
  std::map<CUgraphExec, std::unique_ptr<Graph>> executables;

  struct Failure {
    std::string function;
    std::uint64_t in = 0;  // calls until the failure
    CUresult result = CUDA_SUCCESS;
  };
  std::vector<Failure> failures;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::uint64_t kernel_faults_in = 0;  // n: the n-th of the following kernels faults; 0: none faults
  bool says_faults = false;
  std::uint64_t kernels = 0;
  BytesCopied copied;

  void TakeFaultFromEnvironment();
  void SayFault(const char* what) const;

  // Never destroyed: threads of streams may run longer than main().
  static State& Get();
};

// What a call needs before its own work begins.
enum class Needs {
  kNothing,
  kDriver,   // cuInit has been called
  kContext,  // a context is current and not broken
  kGiveBack  // a context is current; if it is broken, the call still releases the object, and then returns the error
};

// The first statement of every call: counts the call, makes it fail if a test wants that, and holds the lock until the
// call ends.
class Call {
 public:
  Call(const char* function, Needs needs);

  State& state;
  std::unique_lock<std::mutex> lock;
  Context* context = nullptr;  // the current context
  CUresult refusal = CUDA_SUCCESS;
};

template <class Body>
CUresult Do(const char* function, Needs needs, Body&& body) {
  Call call(function, needs);
  if (call.refusal != CUDA_SUCCESS) return call.refusal;
  const CUresult result = std::forward<Body>(body)(call);
  const bool shows_errors = needs == Needs::kContext || needs == Needs::kGiveBack;
  return shows_errors && call.context->error != CUDA_SUCCESS ? call.context->error : result;
}

// The contexts that a thread has pushed. It has no destructor: ThreadSanitizer does not see destructors of thread-local
// data in a library that was loaded late.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == std::size(contexts_); }
  Context* back() const { return contexts_[size_ - 1]; }
  void push_back(Context* context) { contexts_[size_++] = context; }
  void pop_back() { --size_; }

 private:
  Context* contexts_[64] = {};
  std::size_t size_ = 0;
};
ContextStack& ContextsOfThread();

// While this object exists, the calling thread runs a host function, which must not call CUDA.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

}  // namespace rondo::cuda::fake
