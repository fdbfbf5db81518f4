// Messages of fixed length. Two ranks exchange them over a lane to agree on a faster path.
//
// Thread rule: the owner of the lane.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/bytes.h"
#include "transport/lane.h"

namespace rondo {

template <typename Message>
class MessageSender {
  static_assert(std::is_trivially_copyable_v<Message>);

 public:
  // REQUIRES: done().
  void Start(const Message& message) {
    message_ = message;
    sent_ = 0;
  }
  bool done() const { return sent_ == sizeof(Message); }
  // Sends the rest of the message. True: the lane has taken the whole message.
  bool Push(Lane& lane) {
    while (!done()) {
      const Bytes rest = std::as_bytes(std::span(&message_, 1)).subspan(sent_);
      const std::size_t sent = lane.Write(std::span(&rest, 1));
      if (sent == 0) return false;
      sent_ += sent;
    }
    return true;
  }

 private:
  Message message_{};
  std::size_t sent_ = sizeof(Message);
};

template <typename Message>
class MessageReader {
  static_assert(std::is_trivially_copyable_v<Message>);

 public:
  // The next message; empty until all of it has arrived.
  std::optional<Message> Next(Lane& lane) {
    read_ += lane.ReadInto(std::as_writable_bytes(std::span(&message_, 1)).subspan(read_));
    if (read_ < sizeof(Message)) return std::nullopt;
    read_ = 0;
    return message_;
  }

 private:
  Message message_{};
  std::size_t read_ = 0;
};

}  // namespace rondo
