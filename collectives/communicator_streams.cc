// Streams that wait for operations, where nobody else can end what they wait for (stream_watch.h).
#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "base/service_thread.h"
#include "base/tasks.h"
#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

// What has been issued before it is there is watched, too: what streams wait for comes after it.
Status CommunicatorCore::WatchStreams() {
  try {
    stream_watch_ = std::make_unique<StreamWatch>(*this, *clock_, queue_.capacity());
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "the thread that watches streams cannot be made: {}",
                TaskWords(error.code().value()));
  }
  for (Sequence s = queue_.completed() + 1; s <= queue_.issued(); ++s) Watch(queue_.At(s));
  return {};
}

void CommunicatorCore::Watch(const OperationQueue::Operation& pending) {
  const OperationRequest& request = pending.request;
  const bool on_device = request.staging != nullptr;
  stream_watch_->Issued(request.descriptor.sequence,
                        // Not pending.deadline, which a driving thread may move meanwhile.
                        {.deadline = Later(pending.issued, request.timeout),
                         .on_device = on_device,
                         .stream_waits = on_device && request.stream_waits});
}

// By a thread of its own: a logger may wait for a lock that whoever is held up has, an interpreter's say. While one
// still speaks no other is heard.
void CommunicatorCore::OnHeldUp(Sequence operation, Duration time) {
  if (options_.logger == nullptr || teller_speaks_.exchange(true)) return;
  if (teller_.joinable()) teller_.join();
  const auto tell = [this, operation, seconds = std::chrono::duration<double>(time).count()] {
    IfMemoryAllows([&] {
      Log(options_.logger, LogLevel::kWarning,
          "{}: whoever drives operation #{} has not come back from a call for {:.1f} s, which may be one of the "
          "driver of {}: where a call of the driver waits for streams that wait for an operation, as the first launch "
          "of a kernel may, that cannot end before its timeout",
          names_.NameOf(rank()), operation, seconds, device_queue_seen_.load()->name());
    });
    teller_speaks_.store(false);
  };
  IfMemoryAllows([&] {
    try {
      teller_ = StartServiceThread("rondo-teller", tell);
    } catch (const std::system_error&) {  // then it is not said
    }
  });
  if (!teller_.joinable()) teller_speaks_.store(false);
}

void CommunicatorCore::OnLate(Sequence operation, bool is_held_up) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows([&] {
    const std::string whom =
        is_held_up ? fmt::format(
                         "a call that does not come back, perhaps one of the driver of {}: such a call may wait "
                         "for streams that wait for an operation, as the first launch of a kernel does",
                         device_queue_seen_.load()->name())
                   : std::string(
                         "somebody to drive it: no thread waits for an operation, and there is no progress "
                         "thread, or it is in a callback");
    error = WithCulprit(ErrorCode::kTimeout,
                        fmt::format("operation #{} did not end in time: rank {} waits for {}", operation, rank(), whom),
                        rank());
  });
  failure_.Begin(std::move(error));
}

void CommunicatorCore::LetStreamsGo() {
  current_.runner().Withdraw();
  if (DeviceQueue* const queue = device_queue_seen_.load(); queue != nullptr) queue->LeaveForGood();
}

}  // namespace rondo
