#include "collectives/point_to_point/matching.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace rondo {
namespace {

// A spare node keeps its memory for data if that memory has at most kKeptBytes. There are at most kMaxSpares spare
// nodes.
constexpr std::size_t kKeptBytes = 4096;
constexpr std::size_t kMaxSpares = 64;

bool Takes(const MessageOperation& receive, Rank source, Tag tag) {
  return (receive.peer == kAnyRank || receive.peer == source) && (receive.tag == kAnyTag || receive.tag == tag);
}

Matching::Iterator PlaceOf(std::list<HeldMessage>& messages, const HeldMessage& message) {
  return std::find_if(messages.begin(), messages.end(), [&](const HeldMessage& other) { return &other == &message; });
}

}  // namespace

MessageOperation* Matching::TakeReceive(Rank source, Tag tag) {
  MessageOperation* const receive =
      posted_.Find([&](const MessageOperation& posted) { return Takes(posted, source, tag); });
  if (receive != nullptr) StageList::Remove(*receive);
  return receive;
}

MessageOperation* Matching::TakePostedAgain() {
  MessageOperation* const receive = again_.front();
  if (receive != nullptr) StageList::Remove(*receive);
  return receive;
}

HeldMessage* Matching::Hold(Rank source, std::size_t room) {
  std::list<HeldMessage>& messages = held_[static_cast<std::size_t>(source)];
  if (spare_.empty()) spare_.emplace_back();
  HeldMessage& message = spare_.front();
  if (message.capacity < room) {
    message.data.reset(new (std::nothrow) std::byte[room]);
    message.capacity = message.data == nullptr ? 0 : room;
    if (message.data == nullptr) return nullptr;
  }
  messages.splice(messages.end(), spare_, spare_.begin());
  message.source = source;
  return &message;
}

HeldMessage* Matching::Find(const MessageOperation& receive) {
  const auto from = [&](std::size_t source) -> HeldMessage* {
    for (HeldMessage& message : held_[source])
      if (Takes(receive, message.source, message.tag)) return &message;
    return nullptr;
  };
  if (receive.peer != kAnyRank) return from(static_cast<std::size_t>(receive.peer));
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const std::size_t source = (next_source_ + i) % held_.size();
    if (HeldMessage* const message = from(source)) {
      next_source_ = (source + 1) % held_.size();
      return message;
    }
  }
  return nullptr;
}

HeldMessage* Matching::FindAnnounced(Rank source, std::uint64_t id) {
  for (HeldMessage& message : held_[static_cast<std::size_t>(source)])
    if (message.announced && message.id == id) return &message;
  return nullptr;
}

void Matching::Detach(HeldMessage& message) {
  std::list<HeldMessage>& messages = held_[static_cast<std::size_t>(message.source)];
  detached_.splice(detached_.end(), messages, PlaceOf(messages, message));
}

void Matching::Forget(HeldMessage& message) {
  std::list<HeldMessage>& messages = held_[static_cast<std::size_t>(message.source)];
  if (const auto at = PlaceOf(messages, message); at != messages.end()) return Recycle(messages, at);
  const auto at = PlaceOf(detached_, message);
  RONDO_CHECK(at != detached_.end(), "a message that is not held");
  Recycle(detached_, at);
}

void Matching::Recycle(std::list<HeldMessage>& from, Iterator at) {
  HeldMessage& message = *at;
  std::unique_ptr<std::byte[]> data = std::move(message.data);
  const std::size_t capacity = message.capacity;
  message = {};
  if (capacity <= kKeptBytes) {
    message.data = std::move(data);
    message.capacity = capacity;
  }
  if (spare_.size() >= kMaxSpares) {
    from.erase(at);
  } else {
    spare_.splice(spare_.begin(), from, at);
  }
}

std::size_t Matching::held_messages() const {
  std::size_t count = 0;
  for (const auto& messages : held_) count += messages.size();
  return count;
}

}  // namespace rondo
