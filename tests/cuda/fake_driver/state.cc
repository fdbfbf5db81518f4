#include "tests/cuda/fake_driver/state.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace rondo::cuda::fake {
namespace {

thread_local bool t_in_host_function = false;

std::uint64_t Number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 0);
}

}  // namespace

Settings Settings::FromEnvironment() {
  Settings settings;
  const int installed = static_cast<int>(std::min<std::uint64_t>(Number("FAKE_CUDA_DEVICES", 1), kMaxDevices));
  settings.devices.clear();
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream list(visible);
    // As with a real driver, entries of CUDA_VISIBLE_DEVICES after an invalid one are ignored.
    for (std::string one; std::getline(list, one, ',');) {
      char* end = nullptr;
      const long ordinal = std::strtol(one.c_str(), &end, 10);
      if (end == one.c_str() || ordinal < 0 || ordinal >= installed) break;
      settings.devices.push_back(static_cast<int>(ordinal));
    }
  } else {
    for (int i = 0; i < installed; ++i) settings.devices.push_back(i);
  }
  settings.memory_bytes = Number("FAKE_CUDA_MEMORY", settings.memory_bytes);
  settings.delay_us = Number("FAKE_CUDA_DELAY_US", settings.delay_us);
  settings.seed = Number("FAKE_CUDA_SEED", settings.seed);
  settings.dma_buf = Number("FAKE_CUDA_DMA_BUF", 0) != 0;
  settings.mps = Number("FAKE_CUDA_MPS", 0) != 0;
  settings.init_ms = Number("FAKE_CUDA_INIT_MS", 0);
  settings.compute_mode = static_cast<int>(Number("FAKE_CUDA_COMPUTE_MODE", CU_COMPUTEMODE_DEFAULT));
  return settings;
}

void State::TakeFaultFromEnvironment() {
  const char* const fault = std::getenv("FAKE_CUDA_FAULT");
  const std::string text = fault == nullptr ? "" : fault;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return;
  const std::string what = text.substr(0, colon);
  const std::uint64_t nth = std::strtoull(text.c_str() + colon + 1, nullptr, 10);
  says_faults = true;
  if (what == "kernel") {
    kernel_faults_in = nth;
  } else {
    failures.push_back({what, nth, CUDA_ERROR_LAUNCH_FAILED});
  }
}

void State::SayFault(const char* what) const {
  if (says_faults) std::fprintf(stderr, "fake GPU: %s faults\n", what);
}

State& State::Get() {
  static State* const state = [] {
    auto* const made = new State;
    for (int i = 0; i < kMaxDevices; ++i) made->contexts[i].device = i;
    made->TakeFaultFromEnvironment();
    // A child by fork() finds the lock free; its calls then report that the driver is not initialized.
    pthread_atfork([] { Get().mutex.lock(); }, [] { Get().mutex.unlock(); }, [] { Get().mutex.unlock(); });
    return made;
  }();
  return *state;
}

Call::Call(const char* function, Needs needs) : state(State::Get()), lock(state.mutex) {
  ++state.calls[function];
  for (auto failure = state.failures.begin(); failure != state.failures.end(); ++failure) {
    if (failure->function != function || --failure->in != 0) continue;
    refusal = failure->result;
    state.SayFault(function);
    state.failures.erase(failure);
    return;
  }
  if (t_in_host_function && needs != Needs::kNothing) {
    refusal = CUDA_ERROR_NOT_PERMITTED;
  } else if (needs != Needs::kNothing && state.initialized_in != getpid()) {
    refusal = CUDA_ERROR_NOT_INITIALIZED;
  } else if (needs == Needs::kContext || needs == Needs::kGiveBack) {
    const auto& current = ContextsOfThread();
    if (current.empty()) {
      refusal = CUDA_ERROR_INVALID_CONTEXT;
    } else if (current.back()->retains == 0) {
      refusal = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else {
      context = current.back();
      state.finished.wait(lock, [this] { return !context->loading; });
      if (needs == Needs::kContext) refusal = context->error;
    }
    if (refusal == CUDA_SUCCESS && IsForbiddenByCapture(state, function))
      refusal = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
}

ContextStack& ContextsOfThread() {
  thread_local ContextStack contexts;
  return contexts;
}

InHostFunction::InHostFunction() { t_in_host_function = true; }
InHostFunction::~InHostFunction() { t_in_host_function = false; }

}  // namespace rondo::cuda::fake
