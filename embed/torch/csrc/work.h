// An operation of Rondo's as c10d sees it.
#pragma once

#include <rondo.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "executor.h"
#include "side_stream.h"
#include "times.h"

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

// Waits for an operation until it is final, and throws what it failed of. A handler of signals that raises (Ctrl-C)
// ends the wait; then the operation goes on, and `lent` is kept until its end. Takes `work` over.
void Await(rondo_work* work, std::shared_ptr<const void> lent);
// The same for what `start` starts: start(rondo_work** work, rondo_error** error).
template <typename Start>
void RunAndAwait(Start&& start, std::shared_ptr<const void> lent = nullptr) {
  rondo_work* work = nullptr;
  Must([&](rondo_error** error) { return start(&work, error); });
  Await(work, std::move(lent));
}

// What the operations of a group share. It outlives them.
struct Shared {
  Executor executor;
  // Operations under way that other ranks may need this rank for: all but receives.
  std::atomic<int> owed{0};
  // Ctrl-C has ended the wait for one of them, so nothing waits for it any more.
  std::atomic<bool> interrupted{false};
};

// While it lives, what hangs on futures is not run by this thread, though it is in wait().
class HangsElsewhere {
 public:
  HangsElsewhere();
  ~HangsElsewhere();
  HangsElsewhere(const HangsElsewhere&) = delete;
  HangsElsewhere& operator=(const HangsElsewhere&) = delete;

 private:
  const bool before_;
};

// It ends on whichever thread drives: the one in wait(), or Rondo's progress thread. There `finish` puts results where
// the caller wants them, then the future is completed, then waiters go on. Nothing is held meanwhile, and where
// somebody has the future the progress thread hands over to another one: what hangs on a future may use the same group,
// and may wait for its futures, as powerSGD's hook does.
//
// An operation on memory of a device is one like others, but for its copies, which are put on a stream beside the
// caller's, and that one follows. One that is `queued` there is over for the caller as soon as it is there, as with
// NCCL: `finish` puts its copies behind it, the future is complete, and wait() lets the caller's stream wait, and not
// the caller. Rondo's thread drives it. What it fails of is told to who waits with a timeout or asks later, and by
// every operation after it.
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
    // Of outputs on a device: where `finish` copies. Null: all is in the host's memory.
    std::shared_ptr<const SideStream> side{};
    bool captured = false;  // it becomes part of a graph
    bool queued = false;    // that stream waits for the operation
  };

  // Takes `work` over; null is an operation that has ended already.
  static c10::intrusive_ptr<RondoWork> Follow(int rank, const std::string& backend, Parts parts, rondo_work* work,
                                              Shared& shared);
  RondoWork(int rank, const std::string& backend, Parts parts, rondo_work* work, Shared& shared);
  ~RondoWork() override { rondo_work_free(work_); }

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return parts_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  enum class Future { kOurs, kShared, kEnding };

  static void End(c10::intrusive_ptr<RondoWork> self, const rondo_error* error);
  // For another thread, which may be the last to have it.
  static std::function<void()> Task(c10::intrusive_ptr<RondoWork> self, std::function<void(RondoWork&)> task);
  static c10::optional<c10::Device> DeviceOf(const RondoWork& work);  // none: the host
  void LetGo();
  // Puts the results where they belong; what that failed of.
  std::exception_ptr Finish() noexcept;
  void CompleteFuture(const std::exception_ptr& failure);
  void Complete(const std::exception_ptr& failure);
  // What the caller puts on its stream comes after the results.
  void FollowEnd();
  void WaitInHost(std::chrono::milliseconds timeout);

  Parts parts_;
  rondo_work* const work_;
  Shared& shared_;
  std::atomic<Future> state_{Future::kOurs};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::exception_ptr failed_to_queue_;
  std::optional<c10::Event> end_;  // on the side stream; set before anybody has the work, or by who completes it
};

}  // namespace rondo_torch
