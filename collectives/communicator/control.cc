#include "collectives/communicator/control.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/byte_codec.h"
#include "transport/transport.h"

namespace rondo {
namespace {

// The largest size of a text. A body consists of integers of fixed size, then texts, each after its 16-bit length.
constexpr std::size_t kMaxTextBytes = 760;
static_assert(5 * (kMaxTextBytes + 2) + 17 <= kMaxControlBodyBytes);

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

std::string Encode(const Goodbye& goodbye) {
  const std::string last = EncodeOne(goodbye.last);
  if (goodbye.refused.empty()) return last;
  ByteWriter refused;
  refused.Text<std::uint16_t>(std::string_view(goodbye.refused).substr(0, kMaxTextBytes));
  return last + std::move(refused).Take();
}
std::string Encode(const ProgressReport& report) { return EncodeOne(report.current); }

std::optional<Goodbye> DecodeGoodbye(std::string_view body) {
  const auto last = DecodeOne(body.substr(0, kDescriptorBytes));
  if (!last) return std::nullopt;
  Goodbye goodbye{*last};
  if (body.size() == kDescriptorBytes) return goodbye;
  ByteReader rest(body.substr(kDescriptorBytes));
  goodbye.refused = rest.Text<std::uint16_t>(kMaxTextBytes);
  // An empty text must be left out, so that every goodbye has only one encoding.
  return rest.AtEnd() && !goodbye.refused.empty() ? std::optional(std::move(goodbye)) : std::nullopt;
}

std::optional<ProgressReport> DecodeProgressReport(std::string_view body) {
  const auto current = DecodeOne(body);
  return current ? std::optional(ProgressReport{*current}) : std::nullopt;
}

std::string Encode(const AbortNotice& notice) {
  ByteWriter out;
  out.Number(static_cast<std::uint8_t>(notice.code));
  out.Number(static_cast<std::uint32_t>(notice.culprit));
  out.Number(static_cast<std::uint32_t>(notice.origin));
  out.Number(notice.sequence);
  for (const std::string* text :
       {&notice.collective, &notice.host, &notice.address, &notice.message, &notice.first_cause})
    out.Text<std::uint16_t>(std::string_view(*text).substr(0, kMaxTextBytes));
  return out.Take();
}

std::optional<AbortNotice> DecodeAbortNotice(std::string_view body) {
  ByteReader in(body);
  AbortNotice notice;
  notice.code = ErrorCodeFromNumber(in.Number<std::uint8_t>());
  notice.culprit = static_cast<Rank>(in.Number<std::uint32_t>());
  notice.origin = static_cast<Rank>(in.Number<std::uint32_t>());
  notice.sequence = in.Number<std::uint64_t>();
  for (std::string* text : {&notice.collective, &notice.host, &notice.address, &notice.message, &notice.first_cause})
    *text = in.Text<std::uint16_t>(kMaxTextBytes);
  if (!in.AtEnd()) return std::nullopt;
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
  // A mismatch that names this rank as the culprit means that the rank that found it disagrees with this rank. For this
  // rank, the culprit is the other rank.
  const bool is_self = notice.code == ErrorCode::kMismatch && notice.culprit == self;
  details.culprit = is_self ? notice.origin : notice.culprit;
  if (!is_self) details.host = notice.host;
  details.address = notice.address;
  details.first_cause = notice.first_cause;
  if (details.first_cause.empty()) {
    details.first_cause = fmt::format("rank {} reported it", notice.origin);
    if (notice.sequence != 0) details.first_cause += fmt::format(", in {} #{}", notice.collective, notice.sequence);
  }
  return Error(std::move(details));
}

}  // namespace rondo
