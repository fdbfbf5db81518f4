// RondoWork represents an operation of Rondo as a c10d::Work.
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

// The error's text. For a timeout it contains "Timed out", which users of torch expect.
std::string TextOf(rondo_code code, const rondo_error* error);
// Throws the error of a failed call, with its complete text.
[[noreturn]] void Throw(rondo_code code, rondo_error* error);
template <typename Call>
void Must(Call&& call) {
  rondo_error* error = nullptr;
  if (const rondo_code code = call(&error); code != RONDO_OK) Throw(code, error);
}

// Waits until an operation is final, and throws if it has failed. If a signal handler raises an exception (Ctrl-C), the
// wait ends, but the operation continues. `lent` stays alive until the operation ends. Takes ownership of `work`.
void Await(rondo_work* work, std::shared_ptr<const void> lent);
// Calls start(rondo_work** work, rondo_error** error), which starts an operation, and waits for it like Await.
template <typename Start>
void RunAndAwait(Start&& start, std::shared_ptr<const void> lent = nullptr) {
  rondo_work* work = nullptr;
  Must([&](rondo_error** error) { return start(&work, error); });
  Await(work, std::move(lent));
}

// State that the operations of a group share. It outlives them.
struct Shared {
  Executor executor;
  // The number of operations in flight for which other ranks may need this rank. Receives are not counted.
  std::atomic<int> owed{0};
  // Whether Ctrl-C has ended the wait for an operation that `owed` counts, so that no thread waits for it any more.
  std::atomic<bool> interrupted{false};
};

// During the lifetime of this object, the thread does not run continuations of futures, even if it is in wait().
class HangsElsewhere {
 public:
  HangsElsewhere();
  ~HangsElsewhere();
  HangsElsewhere(const HangsElsewhere&) = delete;
  HangsElsewhere& operator=(const HangsElsewhere&) = delete;

 private:
  const bool before_;
};

// An operation ends on the thread that advances it: the one in wait(), or Rondo's progress thread. On that thread
// `finish` copies results to their destination. After that the future is completed, and waiters continue. No lock is
// held during these steps. If getFuture() has returned the future to a caller, the progress thread leaves the future's
// completion to another thread. So a continuation of the future may use the same group and may wait for its futures, as
// PowerSGD's hook does.
//
// An operation on memory of a device is like any other, except for its copies. The copies are put on a side stream, and
// the caller's stream waits for the side stream. A `queued` operation is complete for the caller as soon as it is on
// the side stream, as with NCCL. `finish` puts its copies on the side stream, behind the operation. The future is then
// complete, and wait() makes the caller's stream wait instead of the caller. Rondo's thread advances the operation. If
// the operation fails, callers get the error when they wait with a timeout or ask for the status later. Every later
// operation also returns this error.
class RondoWork final : public c10d::Work {
 public:
  struct Parts {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = "";           // the operation's name in torch's profiler; the name of the backend precedes it
    std::vector<at::Tensor> outputs;  // the value of result() and of the future
    std::vector<at::Tensor> held;     // the tensors that Rondo reads and writes until the operation ends
    std::function<void()> finish;     // called after success, before the operation is reported complete
    bool receives = false;
    std::vector<at::Tensor> inputs{};  // the tensors that the profiler shows; empty: the outputs
    // The stream for the copies of `finish`, if outputs are on a device. Null: all tensors are in host memory.
    std::shared_ptr<const SideStream> side{};
    bool captured = false;  // the operation becomes part of a graph
    bool queued = false;    // the side stream waits for the operation
  };

  // Takes ownership of `work`; null is an operation that has already ended.
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
  // A task for another thread, which may release the last reference to the work.
  static std::function<void()> Task(c10::intrusive_ptr<RondoWork> self, std::function<void(RondoWork&)> task);
  static c10::optional<c10::Device> DeviceOf(const RondoWork& work);  // nullopt: the host
  void LetGo();
  // Copies the results to their destination. Returns the exception if that failed.
  std::exception_ptr Finish() noexcept;
  void CompleteFuture(const std::exception_ptr& failure);
  void Complete(const std::exception_ptr& failure);
  // Makes the caller's current stream wait for the results.
  void FollowEnd();
  void WaitInHost(std::chrono::milliseconds timeout);

  Parts parts_;
  rondo_work* const work_;
  Shared& shared_;
  std::atomic<Future> state_{Future::kOurs};
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::exception_ptr failed_to_queue_;
  // An event on the side stream behind the operation. It is set before the work is returned to the caller, or by the
  // thread that completes the work.
  std::optional<c10::Event> end_;
};

}  // namespace rondo_torch
