// The bodies of the control messages that communicators send each other over control connections (docs/WIRE.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "collectives/engine/frame.h"

namespace rondo {

// A rank leaves, and names the last operation that it completed. A peer that still needs the rank in a later operation,
// or that had another operation under the same number, detects that from this message.
struct Goodbye {
  OperationDescriptor last;  // sequence 0: the rank completed none
  // The call that the rank refused after that operation, if it refused one: a peer that waits for that call reports
  // this reason.
  std::string refused = {};
};

// The operation that the rank is in. A rank sends it if nothing has moved for a while. So ranks that disagree on an
// operation, and therefore wait for each other, detect the disagreement although no bytes move. A heartbeat with an
// empty body is not a report.
struct ProgressReport {
  OperationDescriptor current;
};

// The communicator has failed at the sender, with this cause. Ranks pass it on, so that all name the same first cause.
struct AbortNotice {
  ErrorCode code = ErrorCode::kInternal;
  Rank culprit = kNoRank;
  Rank origin = kNoRank;  // the rank that found the cause, not the one that passed it on
  Sequence sequence = 0;  // the operation in which `origin` found the cause; 0: in none
  std::string collective;
  std::string host;
  std::string address;
  std::string message;
  std::string first_cause;
};

// Cuts long texts, so that the whole body stays within kMaxControlBodyBytes.
std::string Encode(const Goodbye& goodbye);
std::string Encode(const ProgressReport& report);
std::string Encode(const AbortNotice& notice);
// Each returns nullopt if the bytes are not a valid body of its kind.
std::optional<Goodbye> DecodeGoodbye(std::string_view body);
std::optional<ProgressReport> DecodeProgressReport(std::string_view body);
std::optional<AbortNotice> DecodeAbortNotice(std::string_view body);

AbortNotice NoticeOf(const Error& error, Rank origin);
// The error that a rank returns after it has received the notice.
Error ErrorOf(const AbortNotice& notice, Rank self);

}  // namespace rondo
