// Starts Rondo's own threads. They are named, so that top -H and gdb show whose they are, and have signals blocked.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

#include "base/deaf.h"

namespace rondo {

// `name` must be static and at most 15 characters long (pthread_setname_np). Throws what std::thread throws:
// std::system_error if the system cannot start a thread, and std::bad_alloc.
template <typename Body>
std::thread StartServiceThread(const char* name, Body body) {
  const DeafToSignals deaf;  // a new thread inherits the signal mask of its creator
  return std::thread([name, body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace rondo
