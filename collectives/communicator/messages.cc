#include "collectives/communicator/messages.h"

#include <utility>

#include "base/out_of_memory.h"

namespace rondo {
namespace {

// While no message is pending on this rank, only one of this many polls checks the lanes of messages. Otherwise a
// collective would become slower because a peer has sent a message early.
constexpr std::uint32_t kPollsBetweenGlances = 64;

}  // namespace

// ---- issuing ----

Status Messages::Prepare(MessageOperation& operation, const MessageRequest& request) const {
  const std::size_t element_bytes = SizeOf(request.type);
  if (element_bytes == 0 || request.type == kInt128)
    return Fail(ErrorCode::kInvalidArgument, "{} is not a data type", static_cast<int>(request.type));
  if (request.count > (std::uint64_t{1} << 62) / element_bytes)
    return Fail(ErrorCode::kInvalidArgument, "count {} of {} is more than memory can hold", request.count,
                Name(request.type));
  const std::uint64_t bytes = request.count * element_bytes;
  if (bytes > 0 && request.buffer == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "the buffer is null, count is {}", request.count);
  const bool any = !request.sends && request.peer == kAnyRank;
  if (!any && (request.peer < 0 || request.peer >= limits_.world_size))
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", request.peer, limits_.world_size - 1);
  if (request.tag < 0 && (request.sends || request.tag != kAnyTag))
    return Fail(ErrorCode::kInvalidArgument, "tag {} is below 0", request.tag);
  const Duration timeout = request.timeout.value_or(limits_.timeout);
  if (timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  operation.sends = request.sends;
  operation.peer = request.peer;
  operation.tag = request.tag;
  operation.type = request.type;
  operation.buffer = static_cast<std::byte*>(request.buffer);
  operation.bytes = bytes;
  operation.timeout = timeout;
  return {};
}

Status Messages::Submit(std::initializer_list<MessageOperation*> operations) {
  if (near_.graphs.Check()) return Fail(*near_.failure.cause());
  const TimePoint now = near_.clock.Now();
  return submissions_.Submit(operations, now,
                             [&](MessageOperation& operation) { near_.records.OnMessageIssued(operation, now); });
}

Status Messages::Send(const MessageRequest& request) {
  MessageOperation send;
  RONDO_TRY(OrOutOfMemory("issuing a message", [&]() -> Status {
    RONDO_TRY(Prepare(send, request));
    return Submit({&send});
  }));
  return WaitFor(send, TimePoint::max());
}

Result<Message> Messages::Receive(const MessageRequest& request) {
  MessageOperation receive;
  RONDO_TRY(OrOutOfMemory("issuing a message", [&]() -> Status {
    RONDO_TRY(Prepare(receive, request));
    return Submit({&receive});
  }));
  RONDO_TRY(WaitFor(receive, TimePoint::max()));
  return receive.message;
}

Result<Message> Messages::SendAndReceive(const MessageRequest& out, const MessageRequest& in) {
  MessageOperation send, receive;
  RONDO_TRY(OrOutOfMemory("issuing messages", [&]() -> Status {
    RONDO_TRY(Prepare(send, out));
    RONDO_TRY(Prepare(receive, in));
    return Submit({&receive, &send});
  }));
  const Status sent = WaitFor(send, TimePoint::max());
  // The receive uses its buffer until it has ended, even if the send has failed.
  const Status received = WaitFor(receive, TimePoint::max());
  RONDO_TRY(sent);
  RONDO_TRY(received);
  return receive.message;
}

Result<std::shared_ptr<MessageOperation>> Messages::Start(const MessageRequest& request) {
  return OrOutOfMemory("issuing a message", [&]() -> Result<std::shared_ptr<MessageOperation>> {
    auto operation = std::make_shared<MessageOperation>();
    RONDO_TRY(Prepare(*operation, request));
    operation->keep_alive = operation;
    if (Status taken = Submit({operation.get()}); !taken) {
      operation->keep_alive.reset();
      return Fail(std::move(taken.error()));
    }
    return operation;
  });
}

// ---- waiting ----

Status Messages::WaitFor(MessageOperation& operation, TimePoint until) {
  if (!near_.progress.AdvanceUntil(until, 0, [&] { return operation.final.load(); }))
    return Fail(ErrorCode::kNotReady, "the {} is still under way", Describe(operation));
  return *FinalStatus(operation);
}

std::optional<Status> Messages::FinalStatus(const MessageOperation& operation) const {
  if (!operation.final.load()) return std::nullopt;
  if (!operation.error) return Status{};
  Error error = *operation.error;
  IfMemoryAllows(
      [&] { error = near_.names.WithCulpritsHost(error).With([&](ErrorDetails& d) { d.rank = near_.names.self(); }); });
  return Status(Fail(std::move(error)));
}

// ---- the owner ----

bool Messages::Advance(bool glance_is_due) {
  // must be read before the queue: if the queue is closed at this point, no operation is submitted later
  const bool ending = submissions_.is_closed();
  bool moved = false;
  if (submissions_.has_peer_calls()) {
    for (const Rank peer : submissions_.TakePeerCalls()) engine_->AcceptLane(peer);
    moved = true;
  }
  if (StartSubmitted()) moved = true;
  if (ending) engine_->BeginEnd(receives_in_close_.load());
  if (!moved && !glance_is_due && submissions_.pending() == 0 && !engine_->HasOutput() &&
      ++glances_skipped_ < kPollsBetweenGlances)
    return false;
  glances_skipped_ = 0;
  NoteGoodbyes();  // must come first: Poll writes nothing to a peer that has left
  const Result<bool> polled = engine_->Poll();
  if (!polled) {
    near_.failure.Begin(polled.error());
    return true;
  }
  if (*polled) near_.suspicion.OnMoved();
  return Settle() || *polled || moved;
}

bool Messages::StartSubmitted() {
  bool started = false;
  while (MessageOperation* const operation = submissions_.Take()) {
    // The operation's start, deadline - timeout, may be later than the owner's latest reading of the clock.
    if (operation->deadline != TimePoint::max()) near_.progress.OnLook(operation->deadline - operation->timeout);
    engine_->Start(*operation);
    started = true;
  }
  return started;
}

void Messages::ExtendDeadlines(TimePoint begin, TimePoint end) {
  if (!near_.failure.has_failed()) StartSubmitted();  // the engine knows only operations that were started
  engine_->ExtendDeadlines(begin, end);
}

bool Messages::Settle() {
  const std::uint32_t finished = engine_->TakeFinished();
  if (finished == 0) return false;
  submissions_.OnFinished(finished);
  near_.suspicion.OnCompleted();
  near_.callbacks.OnEnded();
  near_.progress.lock().Announce();
  return true;
}

void Messages::NoteGoodbyes() {
  const std::uint64_t events = near_.peer_events.count();
  if (events == events_seen_) return;
  events_seen_ = events;
  near_.peers.ForEachDeparted([&](Rank peer) { engine_->Depart(peer); });
}

bool Messages::EndDeparted() {
  NoteGoodbyes();
  if (const Status ended = engine_->EndDeparted(); !ended) {
    near_.failure.Begin(ended.error());
    return true;
  }
  return Settle();
}

bool Messages::Expire(TimePoint now) {
  auto late = engine_->Expire(now);
  const bool settled = Settle();
  if (!late) return settled;
  near_.failure.Begin(*std::move(late));
  return true;
}

void Messages::FailAll(const Error& cause) {
  submissions_.Refuse(cause);
  engine_->FailAll(cause);
  while (MessageOperation* const operation = submissions_.Take()) engine_->Fail(*operation, cause);
  Settle();
}

}  // namespace rondo
