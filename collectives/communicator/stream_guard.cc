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

// Operations that were issued before are watched, too: those that streams wait for come after them.
Status StreamGuard::Begin() {
  try {
    watch_ = std::make_unique<StreamWatch>(*this, near_.clock, near_.queue.capacity());
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the thread that watches streams cannot be made: {}",
                TaskWords(error.code().value()));
  }
  for (Sequence s = near_.queue.completed() + 1; s <= near_.queue.issued(); ++s) OnIssued(near_.queue.At(s));
  return {};
}

void StreamGuard::OnIssued(const OperationQueue::Operation& pending) {
  const OperationRequest& request = pending.request;
  const bool on_device = request.staging != nullptr;
  watch_->Issued(request.descriptor.sequence,
                 // Not pending.deadline: the owner may extend it meanwhile.
                 {.deadline = Later(pending.issued, request.timeout),
                  .on_device = on_device,
                  .stream_waits = on_device && request.stream_waits});
}

// Logs on a thread of its own: a logger may wait for a lock that the blocked thread holds, such as an interpreter's.
// While one report is being written, no other is.
void StreamGuard::OnHeldUp(Sequence operation, Duration time) {
  if (near_.logger == nullptr || is_reporting_.exchange(true)) return;
  if (reporter_.joinable()) reporter_.join();
  const auto report = [this, operation, seconds = std::chrono::duration<double>(time).count()] {
    IfMemoryAllows([&] {
      Log(near_.logger, LogLevel::kWarning,
          "{}: whoever drives operation #{} has not come back from a call for {:.1f} s, which may be one of the "
          "driver of {}: where a call of the driver waits for streams that wait for an operation, as the first launch "
          "of a kernel may, that cannot end before its timeout",
          near_.names.NameOf(near_.names.self()), operation, seconds, near_.device.seen()->name());
    });
    is_reporting_.store(false);
  };
  IfMemoryAllows([&] {
    try {
      reporter_ = StartServiceThread("rondo-teller", report);
    } catch (const std::system_error&) {  // without a thread, there is no log message
    }
  });
  if (!reporter_.joinable()) is_reporting_.store(false);
}

void StreamGuard::OnLate(Sequence operation, bool is_held_up) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows([&] {
    const std::string whom =
        is_held_up ? fmt::format(
                         "a call that does not come back, perhaps one of the driver of {}: such a call may wait "
                         "for streams that wait for an operation, as the first launch of a kernel does",
                         near_.device.seen()->name())
                   : std::string(
                         "somebody to drive it: no thread waits for an operation, and there is no progress "
                         "thread, or it is in a callback");
    error = WithCulprit(
        ErrorCode::kTimeout,
        fmt::format("operation #{} did not end in time: rank {} waits for {}", operation, near_.names.self(), whom),
        near_.names.self());
  });
  near_.failure.Begin(std::move(error));
}

void StreamGuard::LetStreamsGo() {
  near_.current.runner().Withdraw();
  near_.device.ReleaseAllStreams();
}

void StreamGuard::End() {
  watch_.reset();
  if (reporter_.joinable()) reporter_.join();
}

}  // namespace rondo
