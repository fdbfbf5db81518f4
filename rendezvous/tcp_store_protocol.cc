#include "rendezvous/tcp_store_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_codec.h"
#include "base/check.h"

namespace rondo::store_protocol {
namespace {

constexpr std::size_t kSharedPieceBytes = 1024;  // a shorter value is copied, which costs less than a separate piece
constexpr std::size_t kGatheredPieceBytes = 16 << 10;

enum HelloReplyKind : std::uint8_t { kPlain = 0, kChallenge = 1, kProved = 2 };

enum Kind : std::uint8_t { kSet = 1, kGet, kWait, kAdd, kCompareSet, kDelete, kAbandon };

template <typename... Args>
auto Broken(fmt::format_string<Args...> text, Args&&... args) {
  return Fail(ErrorCode::kProtocol, text, std::forward<Args>(args)...);
}

// Starts a frame; Finish fills in its length.
ByteWriter Start(std::uint64_t id, std::uint8_t kind) {
  ByteWriter frame;
  frame.Number(std::uint32_t{0}).Number(id).Number(kind);
  return frame;
}

std::string Finish(ByteWriter frame, std::size_t bytes_to_follow = 0) {
  std::string bytes = frame.Take();
  StoreLittle(reinterpret_cast<std::byte*>(bytes.data()),
              static_cast<std::uint32_t>(bytes.size() - kLengthBytes + bytes_to_follow));
  return bytes;
}

void WriteKeys(ByteWriter& frame, std::span<const std::string> keys) {
  frame.Number(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) frame.Text(key);
}

std::vector<std::string> ReadKeys(ByteReader& in, bool& fits) {
  const auto count = in.Number<std::uint32_t>();
  // Each key takes at least a length field, so the count cannot cause a large allocation.
  fits = count <= kMaxBatch && count <= in.remaining() / 4;
  std::vector<std::string> keys;
  if (!fits) return keys;
  keys.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) keys.emplace_back(in.Text(kMaxKeyBytes));
  return keys;
}

// Compares the part of the magic that has arrived. So a foreign client is recognised when its first wrong byte arrives.
bool CanBeMagic(std::string_view bytes) {
  const std::size_t seen = std::min(bytes.size(), kMagic.size());
  return bytes.substr(0, seen) == kMagic.substr(0, seen);
}

// REQUIRES: `text` has at least `size` bytes.
template <std::size_t size>
std::array<std::byte, size> ArrayOf(std::string_view text) {
  std::array<std::byte, size> array;
  std::copy_n(AsBytes(text).begin(), size, array.begin());
  return array;
}

std::string Printable(std::string_view bytes) {
  std::string text(bytes.substr(0, 16));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '.');
  return text;
}

}  // namespace

// ---- hello ----

std::string Encode(const Hello& hello) {
  RONDO_CHECK(hello.job.size() <= kMaxJobBytes && hello.nonce.size() <= kMaxOtherNonceBytes);
  ByteWriter out;
  out.Raw(kMagic).Number(hello.version).Number(std::uint16_t{0});
  out.Number(static_cast<std::uint16_t>(hello.job.size())).Number(static_cast<std::uint16_t>(hello.nonce.size()));
  out.Raw(hello.job).Raw(hello.nonce);
  return out.Take();
}

Result<std::optional<Hello>> TakeHello(std::string& bytes) {
  if (!CanBeMagic(bytes)) return Broken("'{}' is not the beginning of a hello to a Rondo store", Printable(bytes));
  if (bytes.size() < kHelloHeadBytes) return std::nullopt;
  ByteReader in(bytes);
  in.Raw(kMagic.size());
  Hello hello;
  hello.version = in.Number<std::uint16_t>();
  in.Number<std::uint16_t>();  // flags: none are defined
  const std::size_t job_bytes = in.Number<std::uint16_t>();
  const std::size_t nonce_bytes = in.Number<std::uint16_t>();
  const bool nonce_fits =
      hello.version == kVersion ? nonce_bytes == 0 || nonce_bytes == kNonceBytes : nonce_bytes <= kMaxOtherNonceBytes;
  if (job_bytes > kMaxJobBytes || !nonce_fits) {
    return Broken("a hello announces a job id of {} bytes and a nonce of {} bytes, which is not allowed", job_bytes,
                  nonce_bytes);
  }
  if (in.remaining() < job_bytes + nonce_bytes) return std::nullopt;
  hello.job = in.Raw(job_bytes);
  hello.nonce = in.Raw(nonce_bytes);
  bytes.erase(0, kHelloHeadBytes + job_bytes + nonce_bytes);
  return hello;
}

std::string Encode(const HelloReply& reply) {
  RONDO_CHECK(!reply.challenge || (!reply.refused && !reply.proof));
  const std::string_view text = reply.refused ? std::string_view(reply.refused->message()) : std::string_view();
  const std::string sent = reply.challenge ? ToText(*reply.challenge) : std::string(text.substr(0, kMaxHelloTextBytes));
  const HelloReplyKind kind = reply.challenge ? kChallenge : reply.proof ? kProved : kPlain;
  ByteWriter out;
  out.Raw(kMagic).Number(reply.version);
  out.Number(reply.refused ? static_cast<std::uint8_t>(reply.refused->code()) : std::uint8_t{0});
  out.Number(static_cast<std::uint8_t>(kind)).Number(static_cast<std::uint16_t>(sent.size())).Raw(sent);
  if (reply.proof) out.Raw(Bytes(*reply.proof));
  return out.Take();
}

Result<std::optional<HelloReply>> TakeHelloReply(std::string& bytes) {
  if (!CanBeMagic(bytes)) return Broken("it answered '{}', which is not the answer of a Rondo store", Printable(bytes));
  if (bytes.size() < kHelloReplyHeadBytes) return std::nullopt;
  ByteReader in(bytes);
  in.Raw(kMagic.size());
  HelloReply reply;
  reply.version = in.Number<std::uint16_t>();
  const auto code = in.Number<std::uint8_t>();
  const auto kind = in.Number<std::uint8_t>();
  const std::size_t text_bytes = in.Number<std::uint16_t>();
  if (text_bytes > kMaxHelloTextBytes)
    return Broken("the store's hello announces a text of {} bytes, which is not allowed", text_bytes);
  if (kind > kProved || (kind == kChallenge && (code != 0 || text_bytes != kNonceBytes))) {
    return Broken("the store answered with an invalid hello: kind {}, code {}, {} bytes", kind, code, text_bytes);
  }
  const std::size_t proof_bytes = kind == kProved ? kProofBytes : 0;
  if (in.remaining() < text_bytes + proof_bytes) return std::nullopt;
  const std::string_view text = in.Raw(text_bytes);
  if (kind == kChallenge) reply.challenge = ArrayOf<kNonceBytes>(text);
  if (kind == kProved) reply.proof = ArrayOf<kProofBytes>(in.Raw(proof_bytes));
  if (code != 0) reply.refused = Error(ErrorCodeFromNumber(code), std::string(text));
  bytes.erase(0, kHelloReplyHeadBytes + text_bytes + proof_bytes);
  return reply;
}

// ---- requests ----

std::string EncodeSet(std::uint64_t id, std::span<const KeyValue> entries) {
  ByteWriter frame = Start(id, kSet);
  frame.Number(static_cast<std::uint32_t>(entries.size()));
  for (const auto& [key, value] : entries) frame.Text(key).Text(value);
  return Finish(std::move(frame));
}

std::string EncodeGet(std::uint64_t id, std::span<const std::string> keys) {
  ByteWriter frame = Start(id, kGet);
  WriteKeys(frame, keys);
  return Finish(std::move(frame));
}

std::string EncodeWait(std::uint64_t id, std::span<const std::string> keys, std::string_view cancel_key) {
  ByteWriter frame = Start(id, kWait);
  WriteKeys(frame, keys);
  frame.Text(cancel_key);
  return Finish(std::move(frame));
}

std::string EncodeAdd(std::uint64_t id, std::string_view key, std::int64_t delta) {
  ByteWriter frame = Start(id, kAdd);
  frame.Text(key).Number(static_cast<std::uint64_t>(delta));
  return Finish(std::move(frame));
}

std::string EncodeCompareSet(std::uint64_t id, std::string_view key, std::optional<std::string_view> expected,
                             std::string_view desired) {
  ByteWriter frame = Start(id, kCompareSet);
  frame.Text(key).Number(static_cast<std::uint8_t>(expected.has_value())).Text(expected.value_or("")).Text(desired);
  return Finish(std::move(frame));
}

std::string EncodeDelete(std::uint64_t id, std::span<const std::string> keys) {
  ByteWriter frame = Start(id, kDelete);
  WriteKeys(frame, keys);
  return Finish(std::move(frame));
}

std::string EncodeAbandon(std::uint64_t id) { return Finish(Start(id, kAbandon)); }

Result<Request> DecodeRequest(std::string_view frame) {
  ByteReader in(frame);
  Request request;
  request.id = in.Number<std::uint64_t>();
  const auto kind = in.Number<std::uint8_t>();
  bool fits = true;
  switch (kind) {
    case kSet: {
      SetRequest set;
      const auto count = in.Number<std::uint32_t>();
      fits = count <= kMaxBatch && count <= in.remaining() / 8;
      for (std::uint32_t i = 0; fits && in.ok() && i < count; ++i) {
        const std::string_view key = in.Text(kMaxKeyBytes);
        const std::string_view value = in.Text(kMaxValueBytes);
        set.entries.push_back({std::string(key), std::string(value)});
      }
      request.body = std::move(set);
      break;
    }
    case kGet: request.body = GetRequest{ReadKeys(in, fits)}; break;
    case kWait: {
      WaitRequest wait;
      wait.keys = ReadKeys(in, fits);
      wait.cancel_key = in.Text(kMaxKeyBytes);
      request.body = std::move(wait);
      break;
    }
    case kAdd: {
      AddRequest add;
      add.key = in.Text(kMaxKeyBytes);
      add.delta = static_cast<std::int64_t>(in.Number<std::uint64_t>());
      request.body = std::move(add);
      break;
    }
    case kCompareSet: {
      CompareSetRequest compare;
      compare.key = in.Text(kMaxKeyBytes);
      const bool expects = in.Number<std::uint8_t>() != 0;
      const std::string_view expected = in.Text(kMaxValueBytes);
      if (expects) compare.expected = std::string(expected);
      compare.desired = in.Text(kMaxValueBytes);
      request.body = std::move(compare);
      break;
    }
    case kDelete: request.body = DeleteRequest{ReadKeys(in, fits)}; break;
    case kAbandon: request.body = AbandonRequest{}; break;
    default: return Broken("a request has the unknown kind {}", kind);
  }
  if (!fits || !in.AtEnd())
    return Broken("the fields of a request of kind {} do not fill its {} bytes exactly", kind, frame.size());
  return request;
}

// ---- replies ----

void Outgoing::Append(std::string bytes) {
  bytes_ += bytes.size();
  if (bytes.size() >= kSharedPieceBytes) {
    growing_.reset();
    pieces_.push_back(std::make_shared<const std::string>(std::move(bytes)));
  } else if (!bytes.empty()) {
    AppendSmall(bytes);
  }
}

void Outgoing::AppendValue(std::shared_ptr<const std::string> value) {
  bytes_ += value->size();
  if (value->size() < kSharedPieceBytes) {
    AppendSmall(*value);
  } else {
    growing_.reset();
    pieces_.push_back(std::move(value));
  }
}

void Outgoing::AppendSmall(std::string_view bytes) {
  if (growing_ == nullptr || growing_->size() >= kGatheredPieceBytes) {
    growing_ = std::make_shared<std::string>();
    pieces_.push_back(growing_);
  }
  growing_->append(bytes);
}

std::size_t Outgoing::Front(std::span<Bytes> out) const {
  const std::size_t count = std::min(out.size(), pieces_.size());
  for (std::size_t i = 0; i < count; ++i) out[i] = AsBytes(*pieces_[i]).subspan(i == 0 ? consumed_ : 0);
  return count;
}

void Outgoing::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  while (bytes > 0) {
    const std::size_t left = pieces_.front()->size() - consumed_;
    if (bytes < left) {
      consumed_ += bytes;
      return;
    }
    bytes -= left;
    consumed_ = 0;
    pieces_.pop_front();
  }
  if (pieces_.empty()) growing_.reset();
}

void AppendDone(std::uint64_t id, Outgoing& out) { out.Append(Finish(Start(id, 0))); }

void AppendValues(std::uint64_t id, std::span<const SharedValue> values, Outgoing& out) {
  std::size_t bytes = 4;
  for (const SharedValue& value : values) bytes += value == nullptr ? 1 : 1 + 4 + value->size();
  ByteWriter head = Start(id, 0);
  out.Append(Finish(std::move(head), bytes));
  out.Append(ByteWriter().Number(static_cast<std::uint32_t>(values.size())).Take());
  for (const SharedValue& value : values) {
    ByteWriter field;
    field.Number(static_cast<std::uint8_t>(value != nullptr));
    if (value != nullptr) field.Number(static_cast<std::uint32_t>(value->size()));
    out.Append(field.Take());
    if (value != nullptr) out.AppendValue(value);
  }
}

void AppendNumber(std::uint64_t id, std::int64_t number, Outgoing& out) {
  ByteWriter frame = Start(id, 0);
  frame.Number(static_cast<std::uint64_t>(number));
  out.Append(Finish(std::move(frame)));
}

void AppendCompareSet(std::uint64_t id, const CompareSetResult& result, Outgoing& out) {
  ByteWriter frame = Start(id, 0);
  frame.Number(static_cast<std::uint8_t>(result.swapped)).Text(result.current);
  out.Append(Finish(std::move(frame)));
}

void AppendError(std::uint64_t id, const Error& error, Outgoing& out) {
  ByteWriter frame = Start(id, static_cast<std::uint8_t>(error.code()));
  frame.Raw(error.message());
  out.Append(Finish(std::move(frame)));
}

Result<Reply> DecodeReply(std::string_view frame) {
  ByteReader in(frame);
  Reply reply;
  reply.id = in.Number<std::uint64_t>();
  const auto code = in.Number<std::uint8_t>();
  if (!in.ok()) return Broken("a reply has only {} bytes, less than its header", frame.size());
  if (code != 0) reply.error = ErrorCodeFromNumber(code);
  if (reply.error && static_cast<std::uint8_t>(*reply.error) != code)
    return Broken("a reply has the unknown error code {}", code);
  reply.payload = in.Raw(in.remaining());
  return reply;
}

Result<std::vector<std::optional<std::string>>> DecodeValues(std::string_view payload) {
  ByteReader in(payload);
  const auto count = in.Number<std::uint32_t>();
  // A value takes at least one byte on the wire, but forty bytes in memory. So the length of the frame alone does not
  // bound the memory that a claimed count would need.
  if (count > kMaxBatch || count > in.remaining())
    return Broken("a reply announces {} values, but has only {} bytes", count, payload.size());
  std::vector<std::optional<std::string>> values;
  values.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (in.Number<std::uint8_t>() == 0) {
      values.emplace_back(std::nullopt);
    } else {
      values.emplace_back(std::string(in.Text(kMaxValueBytes)));
    }
  }
  if (!in.AtEnd()) return Broken("{} values do not fill their reply of {} bytes exactly", count, payload.size());
  return values;
}

Result<std::int64_t> DecodeNumber(std::string_view payload) {
  ByteReader in(payload);
  const auto number = static_cast<std::int64_t>(in.Number<std::uint64_t>());
  if (!in.AtEnd()) return Broken("a reply with a number has {} bytes; expected 8", payload.size());
  return number;
}

Result<CompareSetResult> DecodeCompareSet(std::string_view payload) {
  ByteReader in(payload);
  CompareSetResult result;
  result.swapped = in.Number<std::uint8_t>() != 0;
  result.current = in.Text(kMaxValueBytes);
  if (!in.AtEnd())
    return Broken("the fields of a compare-and-set reply do not fill its {} bytes exactly", payload.size());
  return result;
}

// ---- frames ----

Result<std::optional<std::string_view>> FirstFrame(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const auto length = LoadLittle<std::uint32_t>(reinterpret_cast<const std::byte*>(bytes.data()));
  if (length < kFrameHeadBytes || length > kMaxFrameBytes) {
    return Broken("a frame announces {} bytes; {} to {} are allowed", length, kFrameHeadBytes, kMaxFrameBytes);
  }
  if (bytes.size() - kLengthBytes < length) return std::nullopt;
  return bytes.substr(kLengthBytes, length);
}

}  // namespace rondo::store_protocol
