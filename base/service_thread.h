// Threads of Rondo's own: named, so that top -H and gdb say whose they are, and deaf to signals.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

#include "base/deaf.h"

namespace rondo {

// `name` is static and at most 15 characters long (pthread_setname_np). Throws what std::thread throws:
// std::system_error where the system gives no thread, std::bad_alloc.
template <typename Body>
std::thread StartServiceThread(const char* name, Body body) {
  const DeafToSignals deaf;  // a new thread takes its mask from who makes it
  return std::thread([name, body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

}  // namespace rondo
