// Which receive takes which message: receives that wait for messages, and messages that wait for receives.
//
//   - A message goes to the receive that was posted first among those that take it.
//   - A receive takes, of the messages from one rank that it could take, the one that came first. If it takes any rank,
//     the ranks have turns: nobody who sends a lot keeps others from being heard.
// Both rules together keep the order of messages of one (sender, tag).
//
// Searching is linear in what waits: the receives posted (all of them), the messages held (of the ranks in question).
// What is held is bounded by the senders' credits; see MessageLane. Thread rule: the engine's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "collectives/point_to_point/operation.h"

namespace rondo {

// A message that came before its receive.
struct HeldMessage {
  Rank source = kNoRank;
  Tag tag = 0;
  DataType type = DataType::kUint8;
  std::uint64_t bytes = 0;
  // Announced: waits at its sender, known there by `id`. A message to oneself waits in its operation. Else it is here.
  bool announced = false;
  std::uint64_t id = 0;
  MessageOperation* own_send = nullptr;
  // Eager: its bytes, as far as they have come.
  std::unique_ptr<std::byte[]> data;
  std::size_t capacity = 0;
  std::uint64_t arrived = 0;
  MessageOperation* receiver = nullptr;  // that matched it while it was still coming
};

class Matching {
 public:
  explicit Matching(int world_size) : held_(static_cast<std::size_t>(world_size)) {}

  // ---- receives ----

  // Puts it where its order says.
  void Post(MessageOperation& receive) {
    receive.stage = MessageStage::kPosted;
    posted_.InsertSorted(receive, [&](const MessageOperation& other) { return other.order > receive.order; });
  }
  // The same, and it wants to be matched with what is held: its message was withdrawn.
  void PostAgain(MessageOperation& receive) { again_.PushBack(receive); }
  MessageOperation* TakePostedAgain();
  // The receive for a message that comes, no longer posted; null: there is none.
  MessageOperation* TakeReceive(Rank source, Tag tag);
  const StageList& posted() const { return posted_; }

  // ---- messages ----

  using Iterator = std::list<HeldMessage>::iterator;
  // Holds a message, after those from the same rank. Null: no memory for `room` bytes.
  HeldMessage* Hold(Rank source, std::size_t room);
  // The message for a receive; null: there is none. It stays held.
  HeldMessage* Find(const MessageOperation& receive);
  // The announced message of that number; null: there is none.
  HeldMessage* FindAnnounced(Rank source, std::uint64_t id);
  // Takes it out of the order of its rank; it lives until it is forgotten.
  void Detach(HeldMessage& message);
  // REQUIRES: it is held or detached.
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

  StageList posted_;                          // in the order of their posting
  StageList again_;                           // to be matched anew
  std::vector<std::list<HeldMessage>> held_;  // by source, in the order of their coming
  std::list<HeldMessage> detached_;
  std::list<HeldMessage> spare_;  // nodes to use again, so that a steady state allocates nothing
  std::size_t next_source_ = 0;   // whose turn it is with receives from any rank
};

}  // namespace rondo
