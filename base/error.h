// What went wrong, where, and who caused it.
//
// An Error is a small immutable value (one shared pointer). Copying is cheap and allowed on any thread. The code that
// first detects a failure creates the Error. Upper layers call With() to add what they know. A programming mistake is
// not an Error: RONDO_CHECK handles it.
//
// All texts of an Error can be shown as they are. Text that came from a peer, a file or a variable has been made
// printable (printable.h); its line feeds are kept.
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
  kInvalidArgument = 1,  // the call's arguments are wrong; nothing was started, and the communicator has not failed
  kUnsupported,          // this build or machine lacks the capability
  kNotReady,             // a Wait ended before the operation did; the operation continues
  kTimeout,              // a deadline passed; the message says which ranks are missing
  kPeerLost,             // a rank died: its connections closed without a goodbye
  kConnectionReset,      // a connection broke, although the rank at its other end is alive
  kUnreachable,          // no address of a rank accepted a connection
  kProtocol,             // received bytes that no Rondo of this version sends
  kMismatch,             // ranks disagree about the operation: collective, count, type, operation, root, algorithm
  kVersionMismatch,      // ranks run versions or configurations that cannot work together
  kDuplicateRank,        // two processes claim one rank
  kWorldSizeMismatch,    // processes disagree about the number of ranks
  kRendezvousTimeout,  // not all ranks arrived in time; the message names the ranks that arrived and the missing ranks
  kStale,              // a process or its data belongs to an earlier run or generation
  kStoreLost,          // the connection to the store broke
  kStoreTimeout,       // the store did not answer, or a key did not appear, in time
  kStoreIo,            // a file store's file could not be used
  kAddressInUse,       // a port is taken
  kResource,           // a limit of the system or of Options: file descriptors, locked memory, pending connections
  kOutOfMemory,
  kCorrupt,      // a checksum did not match
  kAuth,         // a process could not prove that it belongs to the job
  kAborted,      // Abort() was called on this rank
  kPeerAborted,  // Abort() was called on another rank
  kClosed,       // the communicator was used after Close(), or a peer closed although this rank still needed that peer
  kInternal,     // a bug in Rondo
  // Ranks were lost, and the remaining ranks could not agree to continue without them; the first cause says why.
  kRebuildFailed,
  kDevice,  // a device (a GPU) or its driver failed; the message quotes the driver
};

// The name of the code as it is printed: "peer_lost".
std::string_view Name(ErrorCode code);
// The code with this number, for codes that arrive over a wire. An unknown number gives kInternal.
ErrorCode ErrorCodeFromNumber(std::uint8_t number);

struct ErrorDetails {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;     // one sentence without a full stop: what happened, with the numbers
  Rank rank = kNoRank;     // the rank that reports the error
  Rank culprit = kNoRank;  // the rank that caused the error, if known
  std::string host;        // the culprit's host
  std::string address;     // the culprit's address, or the address that failed
  std::string interface;   // the local network interface in use
  std::string collective;  // the operation's descriptor in words: "all_reduce float32 x 1000 sum"
  std::optional<Sequence> sequence;
  std::optional<std::uint32_t> step;  // the index of the step in this rank's schedule
  std::uint64_t bytes_done = 0;       // the number of bytes of `step` that were transferred
  std::uint64_t bytes_due = 0;
  std::string first_cause;  // the text of the error that caused this error, if there is one
  // If set, this is an error of a group (rank_frame.h): `rank` and `culprit` are ranks of the group, and the texts name
  // every rank by both its numbers. Null: all ranks are ranks of the job.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

class Error {
 public:
  Error(ErrorCode code, std::string message);
  explicit Error(ErrorDetails details);
  // kOutOfMemory without details. This is the only error that can be made without allocating memory.
  static Error MemoryRanOut() noexcept;

  ErrorCode code() const { return details_->code; }
  const std::string& message() const { return details_->message; }
  Rank culprit() const { return details_->culprit; }
  const ErrorDetails& details() const { return *details_; }

  // Returns a copy to which `change` was applied. Upper layers use it to add details.
  template <typename Change>  // void(ErrorDetails&)
  Error With(Change&& change) const {
    ErrorDetails copy = *details_;
    change(copy);
    return Error(std::move(copy));
  }

  // "peer_lost: MESSAGE; caused by rank 2 (host b, 10.0.0.2:4711); reported by rank 0; in all_reduce float32 x 1000 sum
  // #17, step 5, 0 of 400 bytes; first cause: ...". Unknown parts are left out.
  std::string ToString() const;

 private:
  explicit Error(std::shared_ptr<const ErrorDetails> details) noexcept : details_(std::move(details)) {}

  std::shared_ptr<const ErrorDetails> details_;
};

}  // namespace rondo
