// Threads of Rondo's own: named, so that top -H and gdb say whose they are, and deaf to signals, which belong to the
// application's threads. What a thread brings upon itself (SIGSEGV and its like) and a profiler's SIGPROF still reach
// it.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace rondo {

// `name` is static and at most 15 characters long (pthread_setname_np). Throws what std::thread throws:
// std::system_error where the system gives no thread, std::bad_alloc.
template <typename Body>
std::thread StartServiceThread(const char* name, Body body) {
  struct Deaf {
    sigset_t before;
    Deaf() {
      sigset_t deaf;
      sigfillset(&deaf);
      for (const int heard : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
        sigdelset(&deaf, heard);
      pthread_sigmask(SIG_BLOCK, &deaf, &before);
    }
    ~Deaf() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  };
  const Deaf deaf;  // a new thread takes its mask from who makes it
  return std::thread([name, body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace rondo
