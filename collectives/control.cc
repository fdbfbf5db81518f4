#include "collectives/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "transport/transport.h"

namespace rondo {
namespace {

// Bodies are flat: fixed integers, then texts with a 16-bit length each.
constexpr std::size_t kMaxTextBytes = 760;
static_assert(5 * (kMaxTextBytes + 2) + 17 <= kMaxControlBodyBytes);

class BodyWriter {
 public:
  void Byte(std::uint8_t value) { body_.push_back(static_cast<char>(value)); }
  template <std::unsigned_integral T>
  void Integer(T value) {
    std::array<std::byte, sizeof(T)> bytes;
    StoreLittle<T>(bytes.data(), value);
    body_ += ToText(bytes);
  }
  void Text(std::string_view text) {
    text = text.substr(0, kMaxTextBytes);
    Integer(static_cast<std::uint16_t>(text.size()));
    body_ += text;
  }
  std::string Take() { return std::move(body_); }

 private:
  std::string body_;
};

class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : left_(body) {}
  template <std::unsigned_integral T>
  T Integer() {
    const std::string_view bytes = Take(sizeof(T));
    return bytes.size() == sizeof(T) ? LoadLittle<T>(AsBytes(bytes).data()) : T{0};
  }
  std::string Text() { return std::string(Take(Integer<std::uint16_t>())); }
  bool good() const { return good_ && left_.empty(); }

 private:
  std::string_view Take(std::size_t n) {
    good_ &= n <= left_.size();
    if (!good_) return {};
    const std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  std::string_view left_;
  bool good_ = true;
};

std::string EncodeOne(const OperationDescriptor& descriptor) {
  std::array<std::byte, kDescriptorBytes> bytes;
  Encode(descriptor, bytes);
  return ToText(bytes);
}

std::optional<OperationDescriptor> DecodeOne(std::string_view body) {
  if (body.size() != kDescriptorBytes) return std::nullopt;
  return DecodeDescriptor(AsBytes(body).first<kDescriptorBytes>());
}

}  // namespace

std::string Encode(const Goodbye& goodbye) { return EncodeOne(goodbye.last); }
std::string Encode(const Standpoint& standpoint) { return EncodeOne(standpoint.current); }

std::optional<Goodbye> DecodeGoodbye(std::string_view body) {
  const auto last = DecodeOne(body);
  return last ? std::optional(Goodbye{*last}) : std::nullopt;
}

std::optional<Standpoint> DecodeStandpoint(std::string_view body) {
  const auto current = DecodeOne(body);
  return current ? std::optional(Standpoint{*current}) : std::nullopt;
}

std::string Encode(const AbortNotice& notice) {
  BodyWriter out;
  out.Byte(static_cast<std::uint8_t>(notice.code));
  out.Integer(static_cast<std::uint32_t>(notice.culprit));
  out.Integer(static_cast<std::uint32_t>(notice.origin));
  out.Integer(notice.sequence);
  for (const std::string* text :
       {&notice.collective, &notice.host, &notice.address, &notice.message, &notice.first_cause})
    out.Text(*text);
  return out.Take();
}

std::optional<AbortNotice> DecodeAbortNotice(std::string_view body) {
  BodyReader in(body);
  AbortNotice notice;
  notice.code = ErrorCodeFromNumber(in.Integer<std::uint8_t>());
  notice.culprit = static_cast<Rank>(in.Integer<std::uint32_t>());
  notice.origin = static_cast<Rank>(in.Integer<std::uint32_t>());
  notice.sequence = in.Integer<std::uint64_t>();
  for (std::string* text : {&notice.collective, &notice.host, &notice.address, &notice.message, &notice.first_cause})
    *text = in.Text();
  if (!in.good()) return std::nullopt;
  return notice;
}

AbortNotice NoticeOf(const Error& error, Rank origin) {
  const ErrorDetails& details = error.details();
  return {
      .code = details.code == ErrorCode::kAborted ? ErrorCode::kPeerAborted : details.code,
      .culprit = details.culprit,
      .origin = origin,
      .sequence = details.sequence.value_or(0),
      .collective = details.collective,
      .host = details.host,
      .address = details.address,
      .message = details.message,
      .first_cause = details.first_cause,
  };
}

Error ErrorOf(const AbortNotice& notice, Rank self) {
  ErrorDetails details;
  details.code = notice.code;
  details.message = notice.message;
  details.rank = self;
  details.culprit = notice.culprit;
  details.host = notice.host;
  details.address = notice.address;
  details.first_cause = notice.first_cause;
  if (details.first_cause.empty()) {
    details.first_cause = fmt::format("rank {} told so", notice.origin);
    if (notice.sequence != 0) details.first_cause += fmt::format(", in {} #{}", notice.collective, notice.sequence);
  }
  return Error(std::move(details));
}

}  // namespace rondo
