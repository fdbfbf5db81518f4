// Matches messages with receives. It holds receives that wait for messages, and messages that wait for receives.
//
//   - A message goes to the receive that was posted first among the receives that accept it.
//   - Of those messages of one rank that a receive accepts, the receive takes the one that arrived first. If it accepts
//     any rank, the ranks are searched in rotation, so that a rank that sends much does not delay the others.
// Both rules together keep the order of messages of one (sender, tag).
//
// A search is linear in the number of posted receives, or of held messages of the ranks that the receive accepts. The
// senders' credit limits the held messages; see MessageLane. Thread rule: the engine's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "collectives/point_to_point/operation.h"

namespace rondo {

// A message that arrived before its receive was posted.
struct HeldMessage {
  Rank source = kNoRank;
  Tag tag = 0;
  DataType type = DataType::kUint8;
  std::uint64_t bytes = 0;
  bool announced = false;                // the bytes wait at the sender
  std::uint64_t id = 0;                  // the message's number on its lane
  MessageOperation* own_send = nullptr;  // for a message from this rank to itself: the bytes wait in this operation
  // For an eager message: the bytes that have arrived.
  std::unique_ptr<std::byte[]> data;
  std::size_t capacity = 0;
  std::uint64_t arrived = 0;
  MessageOperation* receiver = nullptr;  // the receive that matched while the message was still arriving
};

class Matching {
 public:
  explicit Matching(int world_size) : held_(static_cast<std::size_t>(world_size)) {}

  // ---- receives ----

  // Posts the receive, at the position that `order` gives.
  void Post(MessageOperation& receive) {
    receive.stage = MessageStage::kPosted;
    posted_.InsertSorted(receive, [&](const MessageOperation& other) { return other.order > receive.order; });
  }
  // Queues a receive whose message was withdrawn. The engine takes it with TakePostedAgain and matches it again.
  void PostAgain(MessageOperation& receive) { again_.PushBack(receive); }
  MessageOperation* TakePostedAgain();
  // Removes and returns the posted receive for an arriving message; null if there is none.
  MessageOperation* TakeReceive(Rank source, Tag tag);
  const StageList& posted() const { return posted_; }

  // ---- messages ----

  using Iterator = std::list<HeldMessage>::iterator;
  // Holds a message behind earlier ones from the same rank. Null: no memory for `room` bytes.
  HeldMessage* Hold(Rank source, std::size_t room);
  // The held message for a receive; null if there is none. The message stays held.
  HeldMessage* Find(const MessageOperation& receive);
  // The held announced message with this id; null if there is none.
  HeldMessage* FindAnnounced(Rank source, std::uint64_t id);
  // Removes the message from its rank's queue, so that Find does not return it again. It lives until Forget.
  void Detach(HeldMessage& message);
  // Destroys the message. REQUIRES: it is held or detached.
  void Forget(HeldMessage& message);
  template <typename Visit>
  void ForEachHeld(Visit visit) {
    for (std::list<HeldMessage>& messages : held_)
      for (auto at = messages.begin(); at != messages.end();) visit(*at++);
  }
  template <typename Visit>
  void ForEachHeld(Visit visit) const {
    for (const std::list<HeldMessage>& messages : held_)
      for (const HeldMessage& message : messages) visit(message);
  }
  std::size_t held_messages() const;

 private:
  void Recycle(std::list<HeldMessage>& from, Iterator at);

  StageList posted_;                          // in order of posting
  StageList again_;                           // receives that must be matched again
  std::vector<std::list<HeldMessage>> held_;  // by source, in order of arrival
  std::list<HeldMessage> detached_;
  std::list<HeldMessage> spare_;  // unused nodes, kept so that steady state allocates nothing
  std::size_t next_source_ = 0;   // source that the next receive from any rank tries first
};

}  // namespace rondo
