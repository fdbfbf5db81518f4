// One pending send or receive, shared by its issuer and the message engine.
//
// The issuer decides where the object lives: a blocking call keeps it on its stack, so that small messages allocate
// nothing. The engine links the object into its lists. From MessageEngine::Start until `final` is true, the object
// belongs to the engine's thread. The store to `final` is the engine's last access; it publishes `error`, `message` and
// the received bytes.
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

// A node of a doubly linked ring. In an unlinked node both pointers are null.
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

// An ordered list of operations; it owns none. An operation is in at most one list by its stage_link, and in at most
// one by its active_link.
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
  // Inserts the operation behind the last one for which `later` is false. Searches from the end.
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

// The state of an operation.
enum class MessageStage : std::uint8_t {
  kSubmitted,  // the engine has not taken it yet
  // Stages of a send:
  kQueued,     // nothing has been sent; the lane does not use the buffer
  kAnnounced,  // announced; the receiver has not asked for the body, and the lane does not use the buffer
  kSending,    // its bytes are being sent
  kReleasing,  // the lane has accepted all bytes, but still uses their memory
  // Stages of a receive:
  kPosted,     // no message has matched
  kMatched,    // an announced message has matched; no byte of its body has arrived
  kReceiving,  // its bytes are being received
};

struct MessageOperation {
  // ---- set by the issuer, constant from Start on ----
  bool sends = false;
  Rank peer = kAnyRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::byte* buffer = nullptr;  // a send only reads it
  std::uint64_t bytes = 0;      // for a receive: size of the buffer
  Duration timeout{};
  TimePoint deadline{};
  std::uint32_t record =
      std::numeric_limits<std::uint32_t>::max();  // index of the observer's record; max(): there is none

  // ---- used by the engine ----
  OperationLink stage_link{.operation = this};
  OperationLink active_link{.operation = this};
  MessageStage stage = MessageStage::kSubmitted;
  std::uint64_t order = 0;                       // for a receive: its number in the order of posting
  std::uint64_t id = 0;                          // number of the message on its lane
  std::uint64_t done = 0;                        // bytes sent or received
  std::uint64_t message_bytes = 0;               // for a matched receive: length of the message
  std::uint64_t release_at = 0;                  // in kReleasing: the stream offset that the lane must release
  std::shared_ptr<MessageOperation> keep_alive;  // the engine's reference to an asynchronous operation

  // ---- the result ----
  std::optional<Error> error;
  Message message;  // for a receive: its message; source and tag are set when a message has matched
  std::atomic<bool> final{false};

  MessageOperation() = default;
  MessageOperation(const MessageOperation&) = delete;
  MessageOperation& operator=(const MessageOperation&) = delete;
};

using StageList = OperationList<&MessageOperation::stage_link>;
using ActiveList = OperationList<&MessageOperation::active_link>;

// For messages: "send of float32 x 1000 to rank 3 with tag 7", "receive of up to uint8 x 10 from any rank with any tag"
std::string Describe(const MessageOperation& operation);
std::string DescribeTag(Tag tag);  // "tag 7", "any tag"

// Callbacks about operations, called on the engine's thread.
class MessageObserver {
 public:
  virtual ~MessageObserver() = default;
  // A receive has matched its message, or the bytes of a send begin to be sent. An operation that ends at once may skip
  // this call.
  virtual void OnBegun(const MessageOperation& operation) = 0;
  // The operation has ended. Called just before `final` is set.
  virtual void OnEnded(const MessageOperation& operation) = 0;
};

// Ends operations. Only this class sets `final`.
class Completions {
 public:
  // The observer, if there is one, must outlive this object.
  explicit Completions(MessageObserver* observer = nullptr) : observer_(observer) {}

  void Begin(const MessageOperation& operation) {
    if (observer_ != nullptr) observer_->OnBegun(operation);
  }
  // Succeed and Fail end the operation and remove it from all lists.
  void Succeed(MessageOperation& operation) { Finish(operation, std::nullopt); }
  void Fail(MessageOperation& operation, Error error) { Finish(operation, std::move(error)); }
  // How many operations have ended since the last call.
  std::uint32_t Take() { return std::exchange(finished_, 0); }

 private:
  void Finish(MessageOperation& operation, std::optional<Error> error);
  MessageObserver* const observer_;
  std::uint32_t finished_ = 0;
};

}  // namespace rondo
