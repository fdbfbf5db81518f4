// The first bytes on every TCP connection. They say which process connects, for what, and whether it is accepted.
// Sans-I/O: the control plane moves the bytes. Layout: docs/WIRE.md, "Handshake".
//
// This file defines the messages and the checks of their contents. handshake_sides.h defines their order, and how each
// side proves that it knows the job's token. Each message contains its length. A reader takes exactly that many bytes
// (`wanted`), so that later bytes stay in the socket for its next owner.
//
// Thread rule: plain values; one thread at a time uses a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace rondo::tcp {

inline constexpr std::uint16_t kWireVersion = 2;
// The size of magic, version, and the length of the remaining bytes. It is the same in every version.
inline constexpr std::size_t kPreambleBytes = 12;
// The limit for the number of remaining bytes. A larger length is refused before anything is allocated.
inline constexpr std::size_t kMaxHandshakeBytes = 1024;
inline constexpr std::size_t kMaxReplyTextBytes = 512;

enum class ConnectionKind : std::uint8_t { kControl = 1, kLane = 2 };

struct Hello {
  ConnectionKind kind = ConnectionKind::kControl;
  std::uint8_t streams = 1;  // number of sockets of this lane: 1, or 2 with one direction each (lane.h)
  std::uint8_t stream = 0;   // the number of this socket: 0 carries the client's bytes, 1 the server's
  std::uint32_t index = 0;   // the lane's index
  std::uint32_t rail = 0;
  std::uint64_t communicator = 0;
  std::uint64_t generation = 0;
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::string job;             // at most 255 bytes, like from_instance and to_instance
  std::string from_instance;   // the instance of the connecting process
  std::string to_instance;     // the instance of the process that the client wants to reach
  std::optional<Nonce> nonce;  // set if the client has a job token, and can prove that it knows the token

  friend bool operator==(const Hello&, const Hello&) = default;
};

enum class Verdict : std::uint8_t {
  kAccepted = 1,
  kHeld = 2,      // this process has not opened the endpoint yet: the client must wait for another reply
  kTryAgain = 3,  // not now (a limit, or both ranks connected at the same time); `text` is the reason
  kRefused = 4,   // never; `code` and `text` are the reason
  kProve = 5,     // the client must send a proof over `nonce` that it knows the job's token; another reply follows
};

struct Reply {
  Verdict verdict = Verdict::kAccepted;
  ErrorCode code = ErrorCode::kInternal;  // meaningful for kTryAgain and kRefused
  std::string text;                 // meaningful for kTryAgain and kRefused; cut to kMaxReplyTextBytes when it is sent
  std::optional<Nonce> nonce = {};  // the server's nonce; only with kProve
  // The server's proof that it knows the token; only after the client has proved that it knows the token.
  std::optional<TokenProof> proof = {};

  friend bool operator==(const Reply&, const Reply&) = default;
};

std::vector<std::byte> Encode(const Hello& hello);
// REQUIRES: reply.nonce is set for kProve, and for no other verdict.
std::vector<std::byte> Encode(const Reply& reply);
// The client's answer to kProve.
std::vector<std::byte> Encode(const TokenProof& proof);

// Collects one message, no matter in which pieces it arrives.
class MessageReader {
 public:
  enum class Kind : std::uint8_t { kHello, kReply, kProof };
  explicit MessageReader(Kind kind) : kind_(kind) {}

  // The largest number of bytes to read next; 0 when the message is complete.
  std::size_t wanted() const;
  // REQUIRES: bytes.size() <= wanted(). kProtocol: the sender is not Rondo (detected at the first wrong byte).
  // kVersionMismatch: the sender is another version of Rondo; the error names both versions.
  Status Feed(Bytes bytes);
  bool complete() const { return body_bytes_known_ && collected_.size() == kPreambleBytes + body_bytes_; }

  // REQUIRES: complete(), and the reader was made for the kind of message that the function returns. kProtocol: a field
  // is wrong; the error names it.
  Result<Hello> hello() const;
  Result<Reply> reply() const;
  Result<TokenProof> proof() const;
  // All bytes of the message, with the preamble.
  Bytes bytes() const { return collected_; }

 private:
  Kind kind_;
  std::vector<std::byte> collected_;
  bool body_bytes_known_ = false;
  std::size_t body_bytes_ = 0;
};

// The values of this process against which a hello is checked.
struct Identity {
  std::string job;
  std::uint64_t generation = 0;
  std::string instance;
};
// Checks that the client belongs to this job and generation, and wants to reach this process.
Reply JudgeHello(const Hello& hello, const Identity& self);
// Checks that the ranks in the hello fit the endpoint. `instances`: the instance of each process of the group, in the
// order of ranks.
Reply JudgeRanks(const Hello& hello, Rank self, const std::vector<std::string>& instances);

}  // namespace rondo::tcp
