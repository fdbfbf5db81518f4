// What ranks say to each other over a lane while a board comes to be: messages of one length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "transport/lane.h"

namespace rondo::shm {

enum class WordKind : std::uint32_t { kCalled = 1, kMade, kMapped, kReady, kCannot, kNone };

struct Word {
  static constexpr std::uint64_t kMagic = 0x64726f772d6d6873;

  std::uint64_t magic = kMagic;
  WordKind kind = WordKind::kNone;
  std::uint32_t reserved = 0;
  std::array<char, 240> why{};  // of kCannot and kNone

  static Word Of(WordKind kind, std::string_view why = {}) {
    Word word;
    word.kind = kind;
    std::copy_n(why.data(), std::min(why.size(), word.why.size() - 1), word.why.data());
    return word;
  }
  std::string Why() const { return {why.data(), strnlen(why.data(), why.size())}; }
};
static_assert(sizeof(Word) == 256);

class WordSender {
 public:
  // REQUIRES: done().
  void Say(const Word& word) {
    std::memcpy(bytes_.data(), &word, sizeof word);
    sent_ = 0;
  }
  bool done() const { return sent_ == bytes_.size(); }
  // True once all is with the lane.
  bool Push(Lane& lane) {
    while (!done()) {
      const Bytes rest = Bytes(bytes_).subspan(sent_);
      const std::size_t sent = lane.Write(std::span(&rest, 1));
      if (sent == 0) return false;
      sent_ += sent;
    }
    return true;
  }

 private:
  std::array<std::byte, sizeof(Word)> bytes_{};
  std::size_t sent_ = sizeof(Word);
};

class WordReader {
 public:
  std::optional<Word> Next(Lane& lane) {
    read_ += lane.ReadInto(MutableBytes(bytes_).subspan(read_));
    if (read_ < bytes_.size()) return std::nullopt;
    read_ = 0;
    Word word;
    std::memcpy(&word, bytes_.data(), sizeof word);
    if (word.magic != Word::kMagic) word.kind = WordKind{};  // none of these
    return word;
  }

 private:
  std::array<std::byte, sizeof(Word)> bytes_{};
  std::size_t read_ = 0;
};

}  // namespace rondo::shm
