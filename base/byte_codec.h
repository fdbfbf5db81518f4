// Little-endian fields in a string of bytes: the encoding of every record, address, handshake and control message that
// leaves the process (docs/WIRE.md). A text is encoded as its length, then its bytes. The caller chooses the number of
// bits of the length. The classes are plain values and use neither threads nor I/O.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace rondo {

// Appends fields in the order of the calls, without padding.
class ByteWriter {
 public:
  template <std::unsigned_integral T>
  ByteWriter& Number(T value) {
    std::byte bytes[sizeof value];
    StoreLittle(bytes, value);
    return Raw(Bytes(bytes));
  }
  // REQUIRES: Length can represent the size of `text`.
  template <std::unsigned_integral Length = std::uint32_t>
  ByteWriter& Text(std::string_view text) {
    RONDO_CHECK(text.size() <= std::numeric_limits<Length>::max(), "a text of {} bytes", text.size());
    return Number(static_cast<Length>(text.size())).Raw(text);
  }
  // Appends the bytes without a length.
  ByteWriter& Raw(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  ByteWriter& Raw(Bytes bytes) { return Raw({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); }

  std::size_t size() const { return out_.size(); }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what a ByteWriter wrote; the bytes may come from any sender and need not be valid. ok() becomes false if a
// field runs past the end or a text is longer than allowed. It then stays false, and every later read gives zero or an
// empty text. Never allocates. The bytes must outlive the reader and the texts that it returned, because the texts
// point into the bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  explicit ByteReader(Bytes bytes) : rest_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  template <std::unsigned_integral T>
  T Number() {
    const std::string_view bytes = Raw(sizeof(T));
    return bytes.empty() ? T{0} : LoadLittle<T>(AsBytes(bytes).data());
  }
  template <std::unsigned_integral Length = std::uint32_t>
  std::string_view Text(std::size_t max_bytes = std::numeric_limits<Length>::max()) {
    const std::size_t size = Number<Length>();
    if (size > max_bytes) ok_ = false;
    return Raw(size);
  }
  // Returns the next bytes; no length precedes them.
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
  // Whether all bytes were read without an error.
  bool AtEnd() const { return ok_ && rest_.empty(); }
  std::size_t remaining() const { return ok_ ? rest_.size() : 0; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace rondo
