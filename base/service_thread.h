// Starts Rondo's own threads. They have names, so that top -H and gdb show that they are Rondo's. They also have
// signals blocked.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

#include "base/scoped_signal_block.h"

namespace rondo {

// `name` must be a static string of at most 15 characters (pthread_setname_np). Throws what std::thread throws:
// std::system_error if the system cannot start a thread, and std::bad_alloc.
template <typename Body>
std::thread StartServiceThread(const char* name, Body body) {
  const ScopedSignalBlock block;  // a new thread inherits the signal mask of its creator
  return std::thread([name, body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace rondo
