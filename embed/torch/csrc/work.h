// An operation of Rondo's as c10d sees it.
#pragma once

#include <rondo.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "executor.h"

namespace rondo_torch {

// In torch's manner: who looks for "Timed out" finds it.
std::string TextOf(rondo_code code, const rondo_error* error);
// Throws what a call failed of, with all of its words.
[[noreturn]] void Throw(rondo_code code, rondo_error* error);
template <typename Call>
void Must(Call&& call) {
  rondo_error* error = nullptr;
  if (const rondo_code code = call(&error); code != RONDO_OK) Throw(code, error);
}

// It ends on whichever thread drives: the one in wait(), or Rondo's progress thread. There `finish` puts results where
// the caller wants them, then the future is completed, then waiters go on. Nothing is held meanwhile, and where
// somebody has the future the progress thread hands over to another one: what hangs on a future may use the same group,
// and may wait for its futures, as powerSGD's hook does.
class RondoWork final : public c10d::Work {
 public:
  struct Parts {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = "";           // behind the backend's name, for torch's profiler
    std::vector<at::Tensor> outputs;  // result() and the future's value
    std::vector<at::Tensor> held;     // what Rondo reads and writes until the end
    std::function<void()> finish;     // after success, before anybody is told
    bool receives = false;
    std::vector<at::Tensor> inputs{};  // for the profiler; empty: the outputs are
  };

  // Takes `work` over; null is an operation that has ended already.
  // `executor` outlives the operation.
  static c10::intrusive_ptr<RondoWork> Follow(int rank, const std::string& backend, Parts parts, rondo_work* work,
                                              Executor& executor);
  RondoWork(int rank, const std::string& backend, Parts parts, rondo_work* work, Executor& executor);
  ~RondoWork() override { rondo_work_free(work_); }

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return parts_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  enum class Future { kOurs, kShared, kEnding };

  static void End(const c10::intrusive_ptr<RondoWork>& self, const rondo_error* error);
  void Complete(const std::exception_ptr& failure);

  Parts parts_;
  rondo_work* const work_;
  Executor& executor_;
  std::atomic<Future> state_{Future::kOurs};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace rondo_torch
