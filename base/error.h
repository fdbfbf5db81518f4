// What went wrong, where, and who caused it.
//
// An Error is a small immutable value (one shared pointer); copying it is cheap and allowed on any thread. It is
// written once, where the fault is first detected; layers above add their line with With(). Programming mistakes are
// not errors: they are RONDO_CHECKs.
//
// All texts of an Error can be shown as they are: what a peer, a file or a variable brought into them has been made
// printable (printable.h), line by line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/ids.h"

namespace rondo {

struct RankFrame;

enum class ErrorCode : std::uint8_t {
  kInvalidArgument = 1,  // the call itself makes no sense; nothing was started, nothing is poisoned
  kUnsupported,          // a capability that this build or machine declares missing
  kNotReady,             // a Wait ended before its operation; the operation goes on
  kTimeout,              // a deadline passed; the message says who is missing
  kPeerLost,             // a rank died: its connections closed without a goodbye
  kConnectionReset,      // a connection broke while its rank lives
  kUnreachable,          // no address of a rank could be connected to
  kProtocol,             // bytes on a wire that no Rondo of this version sends
  kMismatch,             // ranks disagree about the operation: collective, count, type, operation, root, algorithm
  kVersionMismatch,      // ranks run versions or configurations that cannot work together
  kDuplicateRank,        // two processes claim one rank
  kWorldSizeMismatch,    // processes disagree about the number of ranks
  kRendezvousTimeout,    // not everybody came in time; the message says who did and who did not
  kStale,                // left over from an earlier run or generation
  kStoreLost,            // the store's connection broke
  kStoreTimeout,         // the store did not answer, or a key did not appear, in time
  kStoreIo,              // a file store's file could not be used
  kAddressInUse,         // a port is taken
  kResource,             // a limit of the system or of Options: file descriptors, memory lock, pending connections
  kOutOfMemory,
  kCorrupt,      // a checksum did not match
  kAuth,         // somebody could not prove to belong to the job
  kAborted,      // Abort() was called on this rank
  kPeerAborted,  // Abort() was called on another rank
  kClosed,       // used after Close(), or a peer closed while it was still needed
  kInternal,     // a fault of Rondo itself
  // Ranks were lost, and those left could not agree on going on without them; the first cause says why.
  kRebuildFailed,
  kDevice,  // a device (a GPU) or its driver failed; the message says what the driver said
};

// The code's name as printed: "peer_lost".
std::string_view Name(ErrorCode code);
// The inverse of the enumeration's number, for codes that arrive over a wire. Unknown numbers give kInternal.
ErrorCode ErrorCodeFromNumber(std::uint8_t number);

struct ErrorDetails {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;     // one sentence without a full stop: what happened, with the numbers
  Rank rank = kNoRank;     // the rank that reports
  Rank culprit = kNoRank;  // the rank that caused it, where known
  std::string host;        // of the culprit
  std::string address;     // of the culprit, or the address that failed
  std::string interface;   // the local network interface in use
  std::string collective;  // the operation's descriptor in words: "all_reduce float32 x 1000 sum"
  std::optional<Sequence> sequence;
  std::optional<std::uint32_t> step;  // index into this rank's schedule
  std::uint64_t bytes_done = 0;       // of that step
  std::uint64_t bytes_due = 0;
  std::string first_cause;  // where this error is the consequence of another: that one, in words
  // Of an error of a group (rank_frame.h): `rank` and `culprit` are numbers of that, and its words name both numbers of
  // every rank. Null: all are numbers of the job.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

class Error {
 public:
  Error(ErrorCode code, std::string message);
  explicit Error(ErrorDetails details);
  // kOutOfMemory without a word of where; the one error that takes no memory to make.
  static Error MemoryRanOut() noexcept;

  ErrorCode code() const { return details_->code; }
  const std::string& message() const { return details_->message; }
  Rank culprit() const { return details_->culprit; }
  const ErrorDetails& details() const { return *details_; }

  // A copy whose details `change` has changed: the way for an upper layer to add what it knows.
  template <typename Change>  // void(ErrorDetails&)
  Error With(Change&& change) const {
    ErrorDetails copy = *details_;
    change(copy);
    return Error(std::move(copy));
  }

  // "peer_lost: rank 2 (host b, 10.0.0.2:4711) died; rank 0, all_reduce float32 x 1000 sum #17, step 5, 0 of 400 bytes"
  std::string ToString() const;

 private:
  explicit Error(std::shared_ptr<const ErrorDetails> details) noexcept : details_(std::move(details)) {}

  std::shared_ptr<const ErrorDetails> details_;
};

}  // namespace rondo
