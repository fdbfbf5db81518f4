// All that the fake driver knows, behind one lock: its calls are few and short, and one lock cannot be taken in a wrong
// order. Copies, kernels and host functions run without it.
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

inline constexpr int kMostDevices = 16;

// The primary context of a device, which is the only one that it can have here.
struct Context {
  CUdevice device = 0;
  std::uint64_t retains = 0;
  CUresult error = CUDA_SUCCESS;  // that every call gives, once a kernel has faulted
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> of_threads;
  std::vector<std::shared_ptr<Stream>> streams;  // every one that may have work, destroyed ones too
  std::uint64_t memory_bytes = 0;
  bool loading = false;  // a kernel, on some thread: all other calls on the context wait meanwhile
};

struct Module {
  Context* context = nullptr;
};
struct Function {
  Module* module = nullptr;
  const Kernel* kernel = nullptr;
  bool loaded = false;
};

// What a test has set, or the environment: FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY, FAKE_CUDA_DELAY_US, FAKE_CUDA_SEED,
// FAKE_CUDA_DMA_BUF, FAKE_CUDA_MPS, FAKE_CUDA_COMPUTE_MODE (told, not kept to), FAKE_CUDA_INIT_MS (that cuInit takes),
// and CUDA_VISIBLE_DEVICES as for real. FAKE_CUDA_FAULT says what goes wrong, once, and stderr then that it did:
// "kernel:40", the 40th kernel faults; "MemcpyHtoDAsync:3", the third such call is refused.
struct Settings {
  std::vector<int> devices{0};  // which of the machine's, by ordinal
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
  std::condition_variable finished;  // some work has been, or a context broke

  pid_t initialized_in = 0;  // the process that called cuInit; one that it forks has no driver
  Settings settings = Settings::FromEnvironment();
  Random random{settings.seed};

  Context contexts[kMostDevices];
  MemoryMap memory;
  std::map<CUstream, std::shared_ptr<Stream>> streams;
  std::map<CUevent, std::shared_ptr<Event>> events;
  std::map<CUmodule, std::unique_ptr<Module>> modules;
  std::map<CUfunction, std::unique_ptr<Function>> functions;
  std::map<CUgraph, std::unique_ptr<Graph>> graphs;
  std::map<CUgraphExec, std::unique_ptr<Graph>> executables;

  struct Failure {
    std::string function;
    std::uint64_t in = 0;  // calls
    CUresult result = CUDA_SUCCESS;
  };
  std::vector<Failure> failures;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::uint64_t kernel_faults_in = 0;  // kernels; 0: none does
  bool says_faults = false;
  std::uint64_t kernels = 0;
  BytesCopied copied;

  void TakeFaultFromEnvironment();
  void SayFault(const char* what) const;

  // Never destroyed: streams' threads may outlive main().
  static State& Get();
};

// What a call needs, or does, before it is itself.
enum class Needs {
  kNothing,
  kDriver,   // cuInit has been called
  kContext,  // a context is current, and whole
  kGiveBack  // a context is current; a broken one gives back what it had, and then says that it is broken
};

// Of every call the first thing: it is counted, fails if a test wants so, and holds the lock until its end.
class Call {
 public:
  Call(const char* function, Needs needs);

  State& state;
  std::unique_lock<std::mutex> lock;
  Context* context = nullptr;  // the current one
  CUresult refusal = CUDA_SUCCESS;
};

template <class Body>
CUresult Do(const char* function, Needs needs, Body&& body) {
  Call call(function, needs);
  if (call.refusal != CUDA_SUCCESS) return call.refusal;
  const CUresult result = std::forward<Body>(body)(call);
  const bool told = needs == Needs::kContext || needs == Needs::kGiveBack;
  return told && call.context->error != CUDA_SUCCESS ? call.context->error : result;
}

// The contexts that a thread has pushed. Without a destructor: that of a thread's data in a library that was loaded
// late runs where ThreadSanitizer does not see it.
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

// While it lives, this thread runs a host function, which may not call CUDA.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

}  // namespace rondo::cuda::fake
