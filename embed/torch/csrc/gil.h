// Python's lock, for those who wait.
#pragma once

#include <Python.h>

namespace rondo_torch {

// Whoever may hold it while it waits for what Python code hangs on would wait for good.
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
