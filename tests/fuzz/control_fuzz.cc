// communicator/control: bodies of goodbyes, progress reports and abort notices, as a peer's control connection delivers
// them.
#include "base/printable.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/peer_errors.h"
#include "tests/fuzz/harness.h"
#include "transport/transport.h"

namespace rondo::fuzz::control_fuzz {
constexpr Rank kSelf = 1;

AbortNotice SomeNotice() {
  return {.code = ErrorCode::kPeerLost,
          .culprit = 2,
          .origin = 0,
          .sequence = 17,
          .collective = "all_reduce float32 x 1000 sum",
          .host = "b",
          .address = "10.0.0.2:4711",
          .message = "rank 2 died",
          .first_cause = ""};
}

void CheckNotice(const AbortNotice& notice, std::string_view body) {
  const std::string bytes = Encode(notice);
  RONDO_HOLDS(bytes.size() <= kMaxControlBodyBytes, "{} bytes", bytes.size());
  // Only the byte with the error code may differ: unknown codes are read as kInternal.
  RONDO_HOLDS(bytes.size() == body.size() && std::string_view(bytes).substr(1) == body.substr(1));
  RONDO_HOLDS(ErrorCodeFromNumber(static_cast<std::uint8_t>(body.front())) == notice.code);

  const Error error = ErrorOf(notice, kSelf);
  RONDO_HOLDS(error.code() == notice.code);
  RONDO_HOLDS(!error.details().first_cause.empty(), "an error that a peer reported names its reporter");
  RONDO_HOLDS(IsPrintable(error.ToString(), LineFeeds::kKeep));
  // The error is forwarded to other ranks, so the error and its cause must fit into one notice.
  RONDO_HOLDS(DecodeAbortNotice(Encode(NoticeOf(error, kSelf))).has_value());
}

Corpus HarnessCorpus() {
  AbortNotice long_notice = SomeNotice();
  long_notice.message = std::string(2000, 'm');
  long_notice.first_cause = std::string(760, 'c');
  AbortNotice mismatch = SomeNotice();
  mismatch.code = ErrorCode::kMismatch;
  mismatch.culprit = kSelf;
  const OperationDescriptor operation{.sequence = 3, .count = 5, .collective = Collective::kBroadcast, .root = 1};
  return {.seeds = {Encode(SomeNotice()), Encode(mismatch), Encode(long_notice), Encode(Goodbye{operation}),
                    Encode(Goodbye{operation, "all_reduce: input is null"}), Encode(ProgressReport{})},
          .words = {std::string("\xf8\x02", 2), std::string("\xff\xff", 2)}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  // A control connection never delivers a longer body.
  const std::string_view body = input.substr(0, kMaxControlBodyBytes);
  const auto goodbye = DecodeGoodbye(body);
  const auto report = DecodeProgressReport(body);
  RONDO_HOLDS(report.has_value() == (body.size() == kDescriptorBytes));
  if (report) RONDO_HOLDS(goodbye.has_value() && goodbye->refused.empty() && Encode(*report) == body);
  if (goodbye) {
    RONDO_HOLDS(Encode(*goodbye) == body);
    RONDO_HOLDS(report.has_value() == goodbye->refused.empty());
    RONDO_HOLDS(IsPrintable(goodbye->last.ToString()));
    const Error closed = ClosedEarly(kSelf + 1, goodbye->last, kSelf, {}, goodbye->refused);
    RONDO_HOLDS(IsPrintable(closed.ToString(), LineFeeds::kKeep));
  }
  if (const auto notice = DecodeAbortNotice(body)) CheckNotice(*notice, body);
  // Printing a text of a notice takes up to four characters for each byte.
  allocations.CheckLargest(64 * kMaxControlBodyBytes);
}

}  // namespace rondo::fuzz::control_fuzz
