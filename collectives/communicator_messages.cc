// Sends and receives of a core: how they get from whoever issues them to the engine of messages, and their results
// back. Unlike collectives they may be issued by any thread, so they are handed over under a lock; a blocking one lives
// on its caller's stack and allocates nothing.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// While no message is under way here, the lanes of messages are looked at once in so many polls: a collective must not
// pay for a peer that has sent ahead.
constexpr std::uint32_t kPollsBetweenGlances = 64;

// Checks what a call says and completes the operation.
Status PrepareCommon(MessageOperation& operation, std::uint64_t count, const MessageOptions& options,
                     const CommunicatorOptions& communicator) {
  const std::size_t element_bytes = SizeOf(operation.type);
  if (element_bytes == 0 || operation.type == kInt128)
    return Fail(ErrorCode::kInvalidArgument, "{} is no data type", static_cast<int>(operation.type));
  if (count > (std::uint64_t{1} << 62) / element_bytes)
    return Fail(ErrorCode::kInvalidArgument, "count {} of {} is more than memory can hold", count,
                Name(operation.type));
  operation.bytes = count * element_bytes;
  if (operation.bytes > 0 && operation.buffer == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "the buffer is null, count is {}", count);
  const auto world_size = static_cast<Rank>(communicator.peers.size());
  const bool any = !operation.sends && operation.peer == kAnyRank;
  if (!any && (operation.peer < 0 || operation.peer >= world_size))
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", operation.peer, world_size - 1);
  if (operation.tag < 0 && (operation.sends || operation.tag != kAnyTag))
    return Fail(ErrorCode::kInvalidArgument, "tag {} is below 0", operation.tag);
  operation.timeout = options.timeout.value_or(communicator.timeout);
  if (operation.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  return {};
}

Status Prepare(MessageOperation& operation, const Communicator::Outgoing& out, DataType type,
               const MessageOptions& options, const CommunicatorOptions& communicator) {
  operation.sends = true;
  operation.peer = out.to;
  operation.tag = out.tag;
  operation.type = type;
  // One kind of operation serves both directions; nothing writes through the buffer of a send.
  operation.buffer = static_cast<std::byte*>(const_cast<void*>(out.buffer));
  return PrepareCommon(operation, out.count, options, communicator);
}

Status Prepare(MessageOperation& operation, const Communicator::Incoming& in, DataType type,
               const MessageOptions& options, const CommunicatorOptions& communicator) {
  operation.peer = in.from_or_any;
  operation.tag = in.tag_or_any;
  operation.type = type;
  operation.buffer = static_cast<std::byte*>(in.buffer);
  return PrepareCommon(operation, in.count, options, communicator);
}

}  // namespace

// ---- issuing ----

Status CommunicatorCore::Submit(std::initializer_list<MessageOperation*> operations) {
  if (LookAtGraphs()) return Fail(*failure());
  const TimePoint now = clock_->Now();
  return submissions_.Submit(operations, now,
                             [&](MessageOperation& operation) { records_.OnMessageIssued(operation, now); });
}

Status CommunicatorCore::Send(const Outgoing& out, DataType type, const MessageOptions& options) {
  MessageOperation send;
  RONDO_TRY(OrOutOfMemory("issuing a message", [&]() -> Status {
    RONDO_TRY(Prepare(send, out, type, options, options_));
    return Submit({&send});
  }));
  return WaitForMessage(send, TimePoint::max());
}

Result<Message> CommunicatorCore::Recv(const Incoming& in, DataType type, const MessageOptions& options) {
  MessageOperation receive;
  RONDO_TRY(OrOutOfMemory("issuing a message", [&]() -> Status {
    RONDO_TRY(Prepare(receive, in, type, options, options_));
    return Submit({&receive});
  }));
  RONDO_TRY(WaitForMessage(receive, TimePoint::max()));
  return receive.message;
}

Result<Message> CommunicatorCore::SendRecv(const Outgoing& out, const Incoming& in, DataType type,
                                           const MessageOptions& options) {
  MessageOperation send, receive;
  RONDO_TRY(OrOutOfMemory("issuing messages", [&]() -> Status {
    RONDO_TRY(Prepare(send, out, type, options, options_));
    RONDO_TRY(Prepare(receive, in, type, options, options_));
    return Submit({&receive, &send});
  }));
  const Status sent = WaitForMessage(send, TimePoint::max());
  const Status received = WaitForMessage(receive, TimePoint::max());  // lent until then, whatever became of the other
  RONDO_TRY(sent);
  RONDO_TRY(received);
  return receive.message;
}

template <typename Prepared>
Work CommunicatorCore::SubmitAsync(Prepared&& prepare) {
  Work work;
  work.core_ = shared_from_this();
  const Status submitted = OrOutOfMemory("issuing a message", [&]() -> Status {
    const auto operation = std::make_shared<MessageOperation>();
    RONDO_TRY(prepare(*operation));
    operation->keep_alive = operation;
    if (Status taken = Submit({operation.get()}); !taken) {
      operation->keep_alive.reset();
      return taken;
    }
    work.operation_ = operation;
    return {};
  });
  if (submitted) {
    CallProgressThread();
  } else {
    work.refused_ = names_.FramedError(submitted.error());
  }
  return work;
}

Work CommunicatorCore::SendAsync(const Outgoing& out, DataType type, const MessageOptions& options) {
  return SubmitAsync([&](MessageOperation& send) { return Prepare(send, out, type, options, options_); });
}

Work CommunicatorCore::RecvAsync(const Incoming& in, DataType type, const MessageOptions& options) {
  return SubmitAsync([&](MessageOperation& receive) { return Prepare(receive, in, type, options, options_); });
}

// ---- waiting ----

Status CommunicatorCore::WaitForMessage(MessageOperation& operation, TimePoint until) {
  if (!progress_.DriveUntil(until, 0, [&] { return operation.final.load(); }))
    return Fail(ErrorCode::kNotReady, "the {} is still under way", Describe(operation));
  return *FinalStatus(operation);
}

std::optional<Status> CommunicatorCore::FinalStatus(const MessageOperation& operation) const {
  if (!operation.final.load()) return std::nullopt;
  if (!operation.error) return Status{};
  Error error = *operation.error;
  IfMemoryAllows([&] { error = names_.WithCulpritsHost(error).With([&](ErrorDetails& d) { d.rank = rank(); }); });
  return Status(Fail(std::move(error)));
}

// ---- driving ----

bool CommunicatorCore::AdvanceMessages(bool glance_is_due) {
  const bool ending = submissions_.is_closed();  // first: nothing is submitted after it
  bool moved = false;
  if (submissions_.has_peer_calls()) {
    for (const Rank peer : submissions_.TakePeerCalls()) messages_->Meet(peer);
    moved = true;
  }
  while (MessageOperation* const operation = submissions_.Take()) {
    // It was issued at a look at the clock, perhaps after the last one here.
    if (operation->deadline != TimePoint::max()) progress_.OnLook(operation->deadline - operation->timeout);
    messages_->Start(*operation);
    moved = true;
  }
  if (ending) messages_->BeginEnd(leaving_.load() ? PostedReceives::kGivenUp : PostedReceives::kStay);
  if (!moved && !glance_is_due && submissions_.pending() == 0 && !messages_->HasOutput() &&
      ++glances_skipped_ < kPollsBetweenGlances)
    return false;
  glances_skipped_ = 0;
  HearGoodbyes();  // first: Poll writes nothing to a peer that has departed
  const Result<bool> polled = messages_->Poll();
  if (!polled) {
    failure_.Begin(polled.error());
    return true;
  }
  if (*polled) suspicion_.OnMoved();
  return SettleMessages() || *polled || moved;
}

bool CommunicatorCore::SettleMessages() {
  const std::uint32_t finished = messages_->TakeFinished();
  if (finished == 0) return false;
  submissions_.OnFinished(finished);
  suspicion_.OnCompleted();
  callbacks_.OnEnded();
  progress_.lock().Announce();
  return true;
}

void CommunicatorCore::HearGoodbyes() {
  const std::uint64_t words = peer_events_.count();
  if (words == message_events_seen_) return;
  message_events_seen_ = words;
  peers_.ForEachDeparted([&](Rank peer) { messages_->Depart(peer); });
}

bool CommunicatorCore::LookAtMessages() {
  HearGoodbyes();
  if (const Status ended = messages_->EndDeparted(); !ended) {
    failure_.Begin(ended.error());
    return true;
  }
  return SettleMessages();
}

// ---- failing ----

void CommunicatorCore::EndMessages(const Error& error) {
  submissions_.Refuse(error);
  messages_->FailAll(error);
  while (MessageOperation* const operation = submissions_.Take()) messages_->Fail(*operation, error);
  SettleMessages();
}

}  // namespace rondo
