#include "work.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <c10/core/StreamGuard.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "gil.h"
#include "interrupt.h"
#include "on_device.h"

namespace rondo_torch {

std::string TextOf(rondo_code code, const rondo_error* error) {
  const bool late = code == RONDO_TIMEOUT || code == RONDO_RENDEZVOUS_TIMEOUT || code == RONDO_STORE_TIMEOUT;
  return std::string(late ? "rondo: Timed out : " : "rondo: ") +
         (error != nullptr ? error->text : rondo_code_name(code));
}

void Throw(rondo_code code, rondo_error* error) {
  const std::string text = TextOf(code, error);
  rondo_error_free(error);
  throw std::runtime_error(text);
}

namespace {

// Whether this thread is in wait(), so that it may run continuations of a future itself.
thread_local bool waits = false;

std::vector<c10::Device> DevicesOf(const RondoWork::Parts& parts) {
  return parts.side == nullptr ? std::vector<c10::Device>{} : std::vector<c10::Device>{parts.side->stream().device()};
}

}  // namespace

void Await(rondo_work* work, std::shared_ptr<const void> lent) {
  const std::unique_ptr<rondo_work, void (*)(rondo_work*)> held(work, rondo_work_free);
  while (true) {
    rondo_error* error = nullptr;
    const rondo_code code = rondo_work_wait_for(work, static_cast<uint64_t>(kBetweenSignals.count()), &error);
    if (code == RONDO_OK) return;
    if (code != RONDO_NOT_READY) Throw(code, error);
    rondo_error_free(error);
    try {
      CheckSignals();
    } catch (...) {
      if (lent == nullptr) throw;
      using Kept = std::shared_ptr<const void>;
      const auto let_go = [](void* kept, const rondo_error*) { delete static_cast<Kept*>(kept); };
      rondo_work_then(work, let_go, new Kept(std::move(lent)), nullptr);
      throw;
    }
  }
}

HangsElsewhere::HangsElsewhere() : before_(std::exchange(waits, false)) {}
HangsElsewhere::~HangsElsewhere() { waits = before_; }

c10::optional<c10::Device> RondoWork::DeviceOf(const RondoWork& work) {
  if (work.parts_.side == nullptr) return c10::nullopt;
  return work.parts_.side->stream().device();
}

RondoWork::RondoWork(int rank, const std::string& backend, Parts parts, rondo_work* work, Shared& shared)
    : Work(rank, parts.type, (backend + ":" + parts.title).c_str(),
           parts.inputs.empty() ? parts.outputs : parts.inputs),
      parts_(std::move(parts)),
      work_(work),
      shared_(shared),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), DevicesOf(parts_))) {}

c10::intrusive_ptr<RondoWork> RondoWork::Follow(int rank, const std::string& backend, Parts parts, rondo_work* work,
                                                Shared& shared) {
  auto made = c10::make_intrusive<RondoWork>(rank, backend, std::move(parts), work, shared);
  if (made->parts_.queued) {
    made->failed_to_queue_ = made->Finish();
    made->CompleteFuture(made->failed_to_queue_);
  }
  if (work == nullptr) {
    End(made, nullptr);
    return made;
  }
  // Keeps the work alive until its operation has ended.
  auto* const kept = new c10::intrusive_ptr<RondoWork>(made);
  if (!made->parts_.receives) ++shared.owed;
  const auto ended = [](void* user, const rondo_error* error) {
    const std::unique_ptr<c10::intrusive_ptr<RondoWork>> self(static_cast<c10::intrusive_ptr<RondoWork>*>(user));
    if (!(*self)->parts_.receives) --(*self)->shared_.owed;
    const OnDevice on_device(DeviceOf(**self));
    End(std::move(*self), error);
  };
  rondo_error* error = nullptr;
  if (const rondo_code code = rondo_work_then(work, ended, kept, &error); code != RONDO_OK) {
    if (!made->parts_.receives) --shared.owed;
    delete kept;
    Throw(code, error);
  }
  return made;
}

void RondoWork::End(c10::intrusive_ptr<RondoWork> self, const rondo_error* error) {
  std::exception_ptr failure;
  if (error != nullptr) failure = std::make_exception_ptr(std::runtime_error(TextOf(error->code, error)));
  if (self->parts_.queued) {
    self->finish(failure ? failure : self->failed_to_queue_);
    // Memory is freed under the allocator's lock. The owner of that lock may wait for streams, and the streams may wait
    // for operations that this thread must advance. So another thread releases the work, because that may free memory.
    Executor& executor = self->shared_.executor;
    return executor.RunInTurn(Task(std::move(self), [](RondoWork& work) { work.LetGo(); }));
  }
  const auto finish = [failure](RondoWork& work) {
    const std::exception_ptr ended = failure ? failure : work.Finish();
    work.LetGo();
    return ended;
  };
  // A copy from host memory may wait for the caller's streams, and these may wait for operations that this thread
  // advances. So another thread makes the copy.
  if (self->parts_.side != nullptr && self->parts_.receives)
    return self->shared_.executor.Run(Task(self, [finish](RondoWork& work) { work.Complete(finish(work)); }));
  // Copies that need no other thread are made here, so they happen in the order of the operations.
  const std::exception_ptr ended = finish(*self);
  Future ours = Future::kOurs;
  if (waits || self->state_.compare_exchange_strong(ours, Future::kEnding)) return self->Complete(ended);
  self->shared_.executor.Run(Task(self, [ended](RondoWork& work) { work.Complete(ended); }));
}

std::function<void()> RondoWork::Task(c10::intrusive_ptr<RondoWork> self, std::function<void(RondoWork&)> task) {
  return [self = std::move(self), task = std::move(task)]() mutable {
    const OnDevice on_device(DeviceOf(*self));
    task(*self);
    self.reset();  // this may release the last reference to the work
  };
}

void RondoWork::LetGo() {
  parts_.held.clear();
  parts_.finish = nullptr;
}

std::exception_ptr RondoWork::Finish() noexcept {
  try {
    // Autograd does not see these copies, just as it does not see results that Rondo writes directly. So autograd's
    // rules for the tensors do not matter.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    c10::OptionalStreamGuard on_side;
    if (parts_.side != nullptr) on_side.reset_stream(parts_.side->stream());
    const bool copies = parts_.finish != nullptr;
    if (copies) parts_.finish();
    // True if the results are complete, so that no stream has to wait for them.
    const bool is_there = work_ != nullptr && !copies && !parts_.queued;
    if (parts_.side != nullptr && !is_there) end_ = parts_.side->Mark();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void RondoWork::CompleteFuture(const std::exception_ptr& failure) {
  if (failure) return future_->setError(failure);
  // The side stream is current here, so that a stream that uses the future's value waits for the work on the side
  // stream.
  c10::OptionalStreamGuard on_side;
  if (parts_.side != nullptr) on_side.reset_stream(parts_.side->stream());
  future_->markCompleted(c10::IValue(parts_.outputs));
}

void RondoWork::Complete(const std::exception_ptr& failure) {
  CompleteFuture(failure);
  finish(failure);
}

c10::intrusive_ptr<c10::ivalue::Future> RondoWork::getFuture() {
  Future ours = Future::kOurs;
  if (!state_.compare_exchange_strong(ours, Future::kShared) && ours == Future::kEnding) {
    // Another thread is completing the future, and would run continuations that are added now. It must not run any, so
    // this thread waits until the future is complete.
    const WithoutGil free;
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [this] { return completed_; });
  }
  return future_;
}

bool RondoWork::isCompleted() {
  if (work_ != nullptr) rondo_work_test(work_, nullptr);  // advances the operation once
  const std::lock_guard<std::mutex> lock(mutex_);
  return completed_ && (!end_ || end_->query());
}

void RondoWork::synchronize() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (parts_.queued || completed_) FollowEnd();
}

void RondoWork::FollowEnd() {
  if (end_) parts_.side->LetCurrentFollow(*end_);
}

bool RondoWork::wait(std::chrono::milliseconds timeout) {
  const bool for_stream = parts_.queued && timeout == kNoTimeout;
  if (!for_stream) WaitInHost(timeout);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (exception_) std::rethrow_exception(exception_);
  }
  if (failed_to_queue_) std::rethrow_exception(failed_to_queue_);
  FollowEnd();
  if (end_ && parts_.queued && !for_stream) SideStream::WaitFor(*end_);
  return true;
}

void RondoWork::WaitInHost(std::chrono::milliseconds timeout) {
  // Counts the slices of the wait instead of reading a clock, because most waits end in their first slice.
  auto left = timeout == kNoTimeout ? kLongest : LimitOf(timeout, "wait");
  try {
    while (work_ != nullptr) {
      const auto slice = std::min(left, kBetweenSignals);
      const bool before = std::exchange(waits, true);
      const rondo_code code = rondo_work_wait_for(work_, static_cast<uint64_t>(slice.count()), nullptr);
      waits = before;
      if (code != RONDO_NOT_READY) break;  // End receives the error
      left -= slice;
      if (left.count() == 0)
        throw std::runtime_error("rondo: the operation did not end within " + std::to_string(timeout.count()) +
                                 " ms; it continues");
      CheckSignals();
    }
    // Another thread may have detected the end of the operation, and may not have reported it yet.
    std::unique_lock<std::mutex> lock(mutex_);
    while (!cv_.wait_for(lock, kBetweenSignals, [this] { return completed_; })) {
      lock.unlock();
      CheckSignals();
      lock.lock();
    }
  } catch (const pybind11::error_already_set&) {
    if (!parts_.receives) shared_.interrupted = true;
    throw;
  }
}

int RondoWork::sourceRank() const {
  rondo_message message{};
  if (!parts_.receives || rondo_work_message(work_, &message) != RONDO_OK) return -1;
  return message.source;
}

}  // namespace rondo_torch
