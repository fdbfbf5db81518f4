// One send or receive on its way, as its issuer and the message engine share it.
//
// It lives where the issuer wants (a blocking call keeps it on its stack, so that small messages allocate nothing) and
// is threaded through the engine's lists. From MessageEngine::Start on it belongs to the engine's thread, until `final`
// is true: that store is the engine's last touch, and publishes `error`, `message` and the received bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/point_to_point/message.h"

namespace rondo {

struct MessageOperation;

// A place in a doubly linked ring. Unlinked: both are null.
struct OperationLink {
  OperationLink* previous = nullptr;
  OperationLink* next = nullptr;
  MessageOperation* const operation = nullptr;  // null: the ring's anchor

  bool linked() const { return next != nullptr; }
  void Unlink() {
    previous->next = next;
    next->previous = previous;
    previous = next = nullptr;
  }
};

// Operations in order; owns none. An operation is in at most one list by `stage`, and in one by `active`.
template <OperationLink MessageOperation::*kLink>
class OperationList {
 public:
  OperationList() { anchor_.previous = anchor_.next = &anchor_; }
  OperationList(const OperationList&) = delete;
  OperationList& operator=(const OperationList&) = delete;

  bool empty() const { return anchor_.next == &anchor_; }
  MessageOperation* front() const { return anchor_.next->operation; }  // null: empty
  static MessageOperation* After(const MessageOperation& operation) { return (operation.*kLink).next->operation; }
  void PushBack(MessageOperation& operation) { InsertBefore(anchor_, operation.*kLink); }
  // Before the first operation for which `later` holds, looked for from the end.
  template <typename Later>
  void InsertSorted(MessageOperation& operation, Later later) {
    OperationLink* at = &anchor_;
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): only the anchor has no operation
    while (at->previous != &anchor_ && later(*at->previous->operation)) at = at->previous;
    InsertBefore(*at, operation.*kLink);
  }
  static void Remove(MessageOperation& operation) { (operation.*kLink).Unlink(); }
  template <typename Wanted>
  MessageOperation* Find(Wanted wanted) const {
    for (OperationLink* at = anchor_.next; at != &anchor_; at = at->next)
      // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): only the anchor has no operation
      if (wanted(*at->operation)) return at->operation;
    return nullptr;
  }

 private:
  static void InsertBefore(OperationLink& at, OperationLink& link) {
    link.previous = at.previous;
    link.next = &at;
    at.previous->next = &link;
    at.previous = &link;
  }
  OperationLink anchor_;
};

// Where an operation stands.
enum class MessageStage : std::uint8_t {
  kSubmitted,  // not seen by the engine yet
  // A send.
  kQueued,     // nothing of it has gone out; its memory is lent to nobody
  kAnnounced,  // the receiver knows of it and has not asked for it; its memory is lent to nobody
  kSending,    // its bytes are going out
  kReleasing,  // all bytes are accepted by the lane, their memory is still lent to it
  // A receive.
  kPosted,     // no message has matched
  kMatched,    // the message is announced, nothing of its body has come
  kReceiving,  // its bytes are coming in
};

struct MessageOperation {
  // ---- the issuer's, constant from Start on ----
  bool sends = false;
  Rank peer = kAnyRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::byte* buffer = nullptr;  // of a send: only read
  std::uint64_t bytes = 0;      // of a receive: room
  Duration timeout{};
  TimePoint deadline{};
  std::uint32_t record = std::numeric_limits<std::uint32_t>::max();  // where its observer keeps it; most: nowhere

  // ---- the engine's ----
  OperationLink stage_link{.operation = this};
  OperationLink active_link{.operation = this};
  MessageStage stage = MessageStage::kSubmitted;
  std::uint64_t order = 0;                       // of receives: when it was posted
  std::uint64_t id = 0;                          // of an announced message: its number on its lane
  std::uint64_t done = 0;                        // bytes sent or received
  std::uint64_t message_bytes = 0;               // of a matched receive: what is coming
  std::uint64_t release_at = 0;                  // of kReleasing: the lane offset that must be released
  std::shared_ptr<MessageOperation> keep_alive;  // the engine's hold on an asynchronous operation

  // ---- the result ----
  std::optional<Error> error;
  Message message;  // of a receive; its source and tag as soon as it has matched
  std::atomic<bool> final{false};

  MessageOperation() = default;
  MessageOperation(const MessageOperation&) = delete;
  MessageOperation& operator=(const MessageOperation&) = delete;
};

using StageList = OperationList<&MessageOperation::stage_link>;
using ActiveList = OperationList<&MessageOperation::active_link>;

// "send of float32 x 1000 to rank 3 with tag 7", "receive of up to uint8 x 10 from any rank with any tag"
std::string Describe(const MessageOperation& operation);
std::string DescribeTag(Tag tag);  // "tag 7", "any tag"

// Hears what becomes of operations, in the engine's thread.
class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  // A receive has matched its message; a send was asked for, or goes out unasked. What ends in the same moment may do
  // so without it.
  virtual void OnBegun(const MessageOperation& operation) = 0;
  // Just before `final` is set.
  virtual void OnEnded(const MessageOperation& operation) = 0;
};

// Ends operations: the one place where `final` is set.
class Completions {
 public:
  // The observer, if there is one, outlives it.
  explicit Completions(MessageObserver* observer = nullptr) : observer_(observer) {}

  void Begin(const MessageOperation& operation) {
    if (observer_ != nullptr) observer_->OnBegun(operation);
  }
  // Takes the operation out of whatever list it is in.
  void Succeed(MessageOperation& operation) { Finish(operation, std::nullopt); }
  void Fail(MessageOperation& operation, Error error) { Finish(operation, std::move(error)); }
  // How many have ended since the last call.
  std::uint32_t Take() { return std::exchange(finished_, 0); }

 private:
  void Finish(MessageOperation& operation, std::optional<Error> error);
  MessageObserver* const observer_;
  std::uint32_t finished_ = 0;
};

}  // namespace rondo
