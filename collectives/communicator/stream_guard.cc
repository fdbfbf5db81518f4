#include "collectives/communicator/stream_guard.h"

#include <fmt/core.h>

#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/out_of_memory.h"
#include "base/service_thread.h"
#include "base/tasks.h"
#include "collectives/communicator/peer_errors.h"

namespace rondo {

// Operations that were issued before this call are watched, too, because a later operation, for which a stream waits,
// runs only after them.
Status StreamGuard::Begin() {
  try {
    watch_ = std::make_unique<StreamWatchdog>(*this, near_.clock, near_.queue.capacity());
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the thread that watches streams cannot be started: {}",
                TaskWords(error.code().value()));
  }
  for (Sequence s = near_.queue.completed() + 1; s <= near_.queue.issued(); ++s) OnIssued(near_.queue.At(s));
  return {};
}

void StreamGuard::OnIssued(const OperationQueue::Operation& pending) {
  const OperationRequest& request = pending.request;
  const bool on_device = request.staging != nullptr;
  watch_->Issued(request.descriptor.sequence,
                 // Does not read pending.deadline, because the owner may be extending it now.
                 {.deadline = Later(pending.issued, request.timeout),
                  .on_device = on_device,
                  .stream_waits = on_device && request.stream_waits});
}

// Logs on a thread of its own: a logger may wait for a lock that the blocked thread holds, such as an interpreter's.
// While a report is being written, later reports are dropped.
void StreamGuard::OnDriverBlocked(Sequence operation, Duration time) {
  if (near_.logger == nullptr || is_reporting_.exchange(true)) return;
  if (reporter_.joinable()) reporter_.join();
  const auto report = [this, operation, seconds = std::chrono::duration<double>(time).count()] {
    IfMemoryAllows([&] {
      Log(near_.logger, LogLevel::kWarning,
          "{}: the thread that advances operation #{} has not returned from a call for {:.1f} s. If this is a call "
          "of the driver of {}, the driver might be waiting for a stream that itself waits for an operation, as "
          "happens at the first launch of a kernel. Such an operation ends only at its timeout",
          near_.names.NameOf(near_.names.self()), operation, seconds, near_.device.seen()->name());
    });
    is_reporting_.store(false);
  };
  IfMemoryAllows([&] {
    try {
      reporter_ = StartServiceThread("rondo-notifier", report);
    } catch (const std::system_error&) {  // without a thread, there is no log message
    }
  });
  if (!reporter_.joinable()) is_reporting_.store(false);
}

void StreamGuard::OnLate(Sequence operation, bool is_blocked) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows([&] {
    const std::string awaited =
        is_blocked
            ? fmt::format(
                  "a call that does not return; if this is a call of the driver of {}, the driver might be "
                  "waiting for a stream that itself waits for an operation, as happens at the first launch of a kernel",
                  near_.device.seen()->name())
            : std::string(
                  "a thread to advance it: no thread waits for an operation, and there is no progress "
                  "thread, or it is in a callback");
    error = WithCulprit(
        ErrorCode::kTimeout,
        fmt::format("operation #{} did not end in time: rank {} waits for {}", operation, near_.names.self(), awaited),
        near_.names.self());
  });
  near_.failure.Begin(std::move(error));
}

void StreamGuard::ReleaseStreams() {
  near_.current.runner().Withdraw();
  near_.device.ReleaseAllStreams();
}

void StreamGuard::End() {
  watch_.reset();
  if (reporter_.joinable()) reporter_.join();
}

}  // namespace rondo
