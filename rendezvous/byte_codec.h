// Little-endian fields in a string of bytes: what the store's wire, its file and the meeting's records are written
// with. A text is a 32-bit length and its bytes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace rondo {

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  ByteWriter& Number(T value) {
    std::byte bytes[sizeof value];
    StoreLittle(bytes, value);
    out_.append(reinterpret_cast<const char*>(bytes), sizeof value);
    return *this;
  }
  ByteWriter& Text(std::string_view text) {
    Number(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
    return *this;
  }
  // Without a length.
  ByteWriter& Raw(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }

  std::size_t size() const { return out_.size(); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what a ByteWriter wrote. A field that runs past the end, or a text longer than allowed, makes ok() false for
// good; everything read from then on is zero or empty. Never allocates. The bytes outlive the reader and its texts.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T Number() {
    const std::string_view bytes = Raw(sizeof(T));
    return bytes.empty() ? T{0} : LoadLittle<T>(reinterpret_cast<const std::byte*>(bytes.data()));
  }
  std::string_view Text(std::size_t max_bytes) {
    const auto size = Number<std::uint32_t>();
    if (size > max_bytes) ok_ = false;
    return Raw(size);
  }
  std::string_view Raw(std::size_t bytes) {
    if (!ok_ || bytes > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  bool ok() const { return ok_; }
  // Everything was read, and nothing was wrong.
  bool AtEnd() const { return ok_ && rest_.empty(); }
  std::size_t remaining() const { return ok_ ? rest_.size() : 0; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace rondo
