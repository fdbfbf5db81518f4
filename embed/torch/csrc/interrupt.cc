#include "interrupt.h"

#include <pthread.h>
#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gil.h"

namespace rondo_torch {
namespace {

// Python's main thread is the main thread of the process. In a forked child it is the thread that forked, which is that
// child's main thread.
bool IsOnMainThread() { return syscall(SYS_gettid) == getpid() && Py_IsInitialized() != 0; }

// A call that runs in its own thread. That thread and the caller share this object.
struct Aside {
  std::function<void(const GivenUp&)> call;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;
  std::exception_ptr failure;
  GivenUp given_up{false};

  void Run() {
    std::exception_ptr thrown;
    try {
      call(given_up);
    } catch (...) {
      thrown = std::current_exception();
    }
    call = nullptr;  // frees what the call owns before the caller continues
    {
      const std::lock_guard<std::mutex> lock(mutex);
      failure = thrown;
      is_over = true;
    }
    ended.notify_all();
  }
};

}  // namespace

void CheckSignals() {
  if (!IsOnMainThread()) return;
  const pybind11::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

bool EndsBySignal() noexcept {
  try {
    CheckSignals();
    return false;
  } catch (pybind11::error_already_set& raised) {
    const pybind11::gil_scoped_acquire locked;
    if (raised.matches(PyExc_KeyboardInterrupt)) {
      PyErr_SetInterrupt();
    } else {
      raised.discard_as_unraisable("a signal handler that ran while a process group was ending");
    }
    return true;
  }
}

void RunInterruptibly(std::function<void(const GivenUp& given_up)> call) {
  if (!IsOnMainThread()) {
    call(GivenUp(false));
    return;
  }
  const WithoutGil free;
  const auto aside = std::make_shared<Aside>();
  aside->call = std::move(call);
  try {
    std::thread([aside] {
      pthread_setname_np(pthread_self(), "rondo-aside");
      aside->Run();
    }).detach();
  } catch (const std::system_error&) {  // the system cannot create a thread, so the call runs here
    aside->Run();
  }
  std::unique_lock<std::mutex> lock(aside->mutex);
  try {
    while (!aside->ended.wait_for(lock, kBetweenSignals, [&] { return aside->is_over; })) {
      lock.unlock();
      CheckSignals();
      lock.lock();
    }
  } catch (...) {
    aside->given_up = true;
    throw;
  }
  if (aside->failure) std::rethrow_exception(std::exchange(aside->failure, nullptr));
}

}  // namespace rondo_torch
