// Only the application's threads handle signals. Threads that Rondo starts, or that a library starts for it, have
// signals blocked.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace rondo {

// Blocks signals in the current thread until destruction. A thread that this thread creates before then inherits the
// mask and keeps signals blocked. Signals that a thread causes itself (SIGSEGV and the like) and a profiler's SIGPROF
// stay unblocked.
class ScopedSignalBlock {
 public:
  ScopedSignalBlock() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int unblocked : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      sigdelset(&blocked, unblocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ScopedSignalBlock(const ScopedSignalBlock&) = delete;
  ScopedSignalBlock& operator=(const ScopedSignalBlock&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rondo
