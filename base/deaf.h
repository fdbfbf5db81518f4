// Signals belong to the application's threads: those that Rondo makes, or has a library make, do not hear them.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace rondo {

// While it lives the thread that made it hears no signals, and a thread that it makes meanwhile never does. What a
// thread brings upon itself (SIGSEGV and its like) and a profiler's SIGPROF still reach it.
class DeafToSignals {
 public:
  DeafToSignals() {
    sigset_t deaf;
    sigfillset(&deaf);
    for (const int heard : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      sigdelset(&deaf, heard);
    pthread_sigmask(SIG_BLOCK, &deaf, &before_);
  }
  ~DeafToSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  DeafToSignals(const DeafToSignals&) = delete;
  DeafToSignals& operator=(const DeafToSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rondo
