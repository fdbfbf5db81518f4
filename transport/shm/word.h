// What ranks say to each other over a lane while a shared segment comes to be: messages of one length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "transport/lane.h"
#include "transport/upgrade/message.h"

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

using WordSender = MessageSender<Word>;

class WordReader {
 public:
  std::optional<Word> Next(Lane& lane) {
    std::optional<Word> word = words_.Next(lane);
    if (word && word->magic != Word::kMagic) word->kind = WordKind{};  // none of these
    return word;
  }

 private:
  MessageReader<Word> words_;
};

}  // namespace rondo::shm
