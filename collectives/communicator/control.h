// What communicators say to each other over control connections (docs/WIRE.md): the bodies of ControlMessage.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "collectives/engine/frame.h"

namespace rondo {

// "I am done": the last operation that the rank completed. A peer that still needs it for a later operation, or that
// had another operation under the same number, learns it from here.
struct Goodbye {
  OperationDescriptor last;  // sequence 0: none
  // The call that this rank refused after that operation, if it refused any: a peer that waits for it gets the reason.
  std::string refused = {};
};

// The operation that the rank is in. A rank sends it when nothing has moved for a while, so that ranks which disagree,
// and therefore wait for each other, learn it although no bytes flow. A heartbeat with an empty body is no report.
struct ProgressReport {
  OperationDescriptor current;
};

// "This communicator has failed, because": spread to every rank, so that all name the same first cause.
struct AbortNotice {
  ErrorCode code = ErrorCode::kInternal;
  Rank culprit = kNoRank;
  Rank origin = kNoRank;  // the rank that found the cause
  Sequence sequence = 0;  // the operation in which it did, 0 for none
  std::string collective;
  std::string host;
  std::string address;
  std::string message;
  std::string first_cause;
};

// Texts are cut so that the whole stays within kMaxControlBodyBytes.
std::string Encode(const Goodbye& goodbye);
std::string Encode(const ProgressReport& report);
std::string Encode(const AbortNotice& notice);
// Nothing where the bytes are no such body.
std::optional<Goodbye> DecodeGoodbye(std::string_view body);
std::optional<ProgressReport> DecodeProgressReport(std::string_view body);
std::optional<AbortNotice> DecodeAbortNotice(std::string_view body);

AbortNotice NoticeOf(const Error& error, Rank origin);
// The error as a rank that was told returns it.
Error ErrorOf(const AbortNotice& notice, Rank self);

}  // namespace rondo
