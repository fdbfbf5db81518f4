#include "transport/tcp/handshake.h"

#include <algorithm>

#include "base/byte_codec.h"
#include "base/check.h"
#include "base/printable.h"

namespace rondo::tcp {
namespace {

constexpr std::string_view kHelloMagic = "RONDOtcp";
constexpr std::string_view kReplyMagic = "RONDOack";
constexpr std::string_view kProofMagic = "RONDOprf";

std::string_view MagicOf(MessageReader::Kind kind) {
  switch (kind) {
    case MessageReader::Kind::kHello: return kHelloMagic;
    case MessageReader::Kind::kReply: return kReplyMagic;
    case MessageReader::Kind::kProof: break;
  }
  return kProofMagic;
}

// Reads a nonce or a proof; returns nullopt if bytes are missing.
template <std::size_t size>
std::optional<std::array<std::byte, size>> ReadArray(ByteReader& reader) {
  const Bytes bytes = AsBytes(reader.Raw(size));
  if (bytes.size() != size) return std::nullopt;
  std::array<std::byte, size> array;
  std::copy(bytes.begin(), bytes.end(), array.begin());
  return array;
}

std::vector<std::byte> Message(std::string_view magic, const ByteWriter& body) {
  ByteWriter message;
  message.Raw(magic).Number(kWireVersion).Text<std::uint16_t>(body.bytes());
  const Bytes bytes = AsBytes(message.bytes());
  return {bytes.begin(), bytes.end()};
}

Reply Refuse(ErrorCode code, std::string text) { return {Verdict::kRefused, code, std::move(text)}; }

}  // namespace

std::vector<std::byte> Encode(const Hello& hello) {
  ByteWriter body;
  body.Number(static_cast<std::uint8_t>(hello.kind));
  body.Number(hello.streams);
  body.Number(hello.stream);
  body.Number(static_cast<std::uint8_t>(hello.nonce.has_value()));
  body.Number(hello.index);
  body.Number(hello.rail);
  body.Number(static_cast<std::uint32_t>(hello.from));
  body.Number(static_cast<std::uint32_t>(hello.to));
  body.Number(hello.communicator);
  body.Number(hello.generation);
  body.Text<std::uint8_t>(hello.job);
  body.Text<std::uint8_t>(hello.from_instance);
  body.Text<std::uint8_t>(hello.to_instance);
  if (hello.nonce) body.Raw(Bytes(*hello.nonce));
  return Message(kHelloMagic, body);
}

std::vector<std::byte> Encode(const Reply& reply) {
  RONDO_CHECK(reply.nonce.has_value() == (reply.verdict == Verdict::kProve));
  ByteWriter body;
  body.Number(static_cast<std::uint8_t>(reply.verdict));
  body.Number(static_cast<std::uint8_t>(reply.code));
  body.Text<std::uint16_t>(std::string_view(reply.text).substr(0, kMaxReplyTextBytes));
  if (reply.nonce) body.Raw(Bytes(*reply.nonce));
  if (reply.proof) body.Raw(Bytes(*reply.proof));
  return Message(kReplyMagic, body);
}

std::vector<std::byte> Encode(const TokenProof& proof) { return Message(kProofMagic, ByteWriter().Raw(Bytes(proof))); }

std::size_t MessageReader::wanted() const {
  return (body_bytes_known_ ? kPreambleBytes + body_bytes_ : kPreambleBytes) - collected_.size();
}

Status MessageReader::Feed(Bytes bytes) {
  RONDO_CHECK(bytes.size() <= wanted());
  collected_.insert(collected_.end(), bytes.begin(), bytes.end());
  if (body_bytes_known_) return {};
  const Bytes magic = AsBytes(MagicOf(kind_));
  const std::size_t seen = std::min(collected_.size(), magic.size());
  if (!std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(seen), collected_.begin())) {
    return Fail(ErrorCode::kProtocol, "the other side does not speak Rondo's protocol");
  }
  if (collected_.size() < kPreambleBytes) return {};
  const auto version = LoadLittle<std::uint16_t>(collected_.data() + 8);
  if (version != kWireVersion) {
    return Fail(ErrorCode::kVersionMismatch,
                "the other side uses version {} of the protocol, but this side uses version {}", version, kWireVersion);
  }
  const std::size_t body_bytes = LoadLittle<std::uint16_t>(collected_.data() + 10);
  if (body_bytes > kMaxHandshakeBytes) {
    return Fail(ErrorCode::kProtocol, "a handshake message has {} bytes; at most {} are allowed", body_bytes,
                kMaxHandshakeBytes);
  }
  body_bytes_ = body_bytes;
  body_bytes_known_ = true;
  return {};
}

Result<Hello> MessageReader::hello() const {
  RONDO_CHECK(complete() && kind_ == Kind::kHello);
  ByteReader reader(Bytes(collected_).subspan(kPreambleBytes));
  Hello hello;
  const auto kind = reader.Number<std::uint8_t>();
  hello.streams = reader.Number<std::uint8_t>();
  hello.stream = reader.Number<std::uint8_t>();
  const auto proves = reader.Number<std::uint8_t>();
  hello.index = reader.Number<std::uint32_t>();
  hello.rail = reader.Number<std::uint32_t>();
  hello.from = static_cast<Rank>(reader.Number<std::uint32_t>());
  hello.to = static_cast<Rank>(reader.Number<std::uint32_t>());
  hello.communicator = reader.Number<std::uint64_t>();
  hello.generation = reader.Number<std::uint64_t>();
  hello.job = reader.Text<std::uint8_t>();
  hello.from_instance = reader.Text<std::uint8_t>();
  hello.to_instance = reader.Text<std::uint8_t>();
  if (proves > 1)
    return Fail(ErrorCode::kProtocol,
                "a hello has {} in the field that says whether the client has a token; expected 0 or 1", proves);
  if (proves == 1) hello.nonce = ReadArray<kNonceBytes>(reader);
  if (!reader.AtEnd()) return Fail(ErrorCode::kProtocol, "the fields of a hello do not fill its {} bytes", body_bytes_);
  if (kind != 1 && kind != 2) return Fail(ErrorCode::kProtocol, "a hello has the unknown kind {}", kind);
  hello.kind = static_cast<ConnectionKind>(kind);
  if (hello.streams < 1 || hello.streams > 2 || hello.stream >= hello.streams) {
    return Fail(ErrorCode::kProtocol, "a hello names stream {} of {}; expected stream 0 of 1, or 0 or 1 of 2",
                hello.stream, hello.streams);
  }
  return hello;
}

Result<Reply> MessageReader::reply() const {
  RONDO_CHECK(complete() && kind_ == Kind::kReply);
  ByteReader reader(Bytes(collected_).subspan(kPreambleBytes));
  Reply reply;
  const auto verdict = reader.Number<std::uint8_t>();
  reply.code = ErrorCodeFromNumber(reader.Number<std::uint8_t>());
  reply.text = reader.Text<std::uint16_t>(kMaxReplyTextBytes);
  if (verdict == static_cast<std::uint8_t>(Verdict::kProve)) {
    reply.nonce = ReadArray<kNonceBytes>(reader);
  } else if (reader.remaining() > 0) {
    reply.proof = ReadArray<kProofBytes>(reader);
  }
  if (!reader.AtEnd()) return Fail(ErrorCode::kProtocol, "the fields of a reply do not fill its {} bytes", body_bytes_);
  if (verdict < 1 || verdict > 5) return Fail(ErrorCode::kProtocol, "a reply has the unknown verdict {}", verdict);
  reply.verdict = static_cast<Verdict>(verdict);
  return reply;
}

Result<TokenProof> MessageReader::proof() const {
  RONDO_CHECK(complete() && kind_ == Kind::kProof);
  ByteReader reader(Bytes(collected_).subspan(kPreambleBytes));
  const auto proof = ReadArray<kProofBytes>(reader);
  if (!reader.AtEnd())
    return Fail(ErrorCode::kProtocol, "a proof of the job token has {} bytes; expected {}", body_bytes_, kProofBytes);
  return *proof;
}

Reply JudgeHello(const Hello& hello, const Identity& self) {
  if (hello.job != self.job) {
    return Refuse(ErrorCode::kStale, fmt::format("this process belongs to job '{}', but the client belongs to job '{}'",
                                                 self.job, Printable(hello.job)));
  }
  if (hello.generation != self.generation) {
    return Refuse(ErrorCode::kStale, fmt::format("this process is of generation {}, but the client is of generation {}",
                                                 self.generation, hello.generation));
  }
  if (hello.to_instance != self.instance) {
    return Refuse(ErrorCode::kStale, "the client expects an earlier process, which used to have this address");
  }
  return {};
}

Reply JudgeRanks(const Hello& hello, Rank self, const std::vector<std::string>& instances) {
  if (hello.to != self) {
    return Refuse(ErrorCode::kMismatch, fmt::format("this is rank {}, but the client expects rank {}", self, hello.to));
  }
  if (hello.from < 0 || static_cast<std::size_t>(hello.from) >= instances.size() || hello.from == self) {
    return Refuse(ErrorCode::kMismatch, fmt::format("the client says that it is rank {} of {}, but this is rank {}",
                                                    hello.from, instances.size(), self));
  }
  if (hello.from_instance != instances[static_cast<std::size_t>(hello.from)]) {
    return Refuse(
        ErrorCode::kStale,
        fmt::format("the client says that it is rank {} of this group, but that rank is another process", hello.from));
  }
  return {};
}

}  // namespace rondo::tcp
