// Releases Python's lock during a wait.
#pragma once

#include <Python.h>

namespace rondo_torch {

// A thread must not hold Python's lock while it waits for something that depends on Python code, because it would wait
// forever.
class WithoutGil {
 public:
  WithoutGil() : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace rondo_torch
