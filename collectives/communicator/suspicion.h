// Which rank is at fault when a communicator cannot go on, and when this rank may report it.
//
// Several ranks notice one fault at about the same time, and each of them sees another part of it. A rank that waits
// for a blocked rank would name the wrong one. So a rank that knows less first waits for a grace period, in which a
// rank that knows more reports; all ranks adopt the first report, and so name one culprit. From the surest fact to the
// vaguest:
//
//   a peer is in another operation, or has left          reported at once
//   a peer died, its control connection says so          reported at once (PeerEvents::OnPeerLost)
//   a lane failed, and both of its ranks live            after lane_failure_cause; at the lower rank after
//                                                        higher_rank_report more
//   the deadline passed                                  names the peer that has been silent for longest; after
//                                                        timeout_report_delay more if all peers that this rank is
//                                                        blocked on are blocked themselves
//
// Pure: no lock, no clock, no I/O. The caller hands in facts and the time. Thread rule: the owner of the communicator;
// static functions, const functions and graces() any thread.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "collectives/communicator/control.h"
#include "collectives/engine/blocked_step.h"
#include "collectives/engine/frame.h"

namespace rondo {

struct GracePeriods {
  // A blocked rank checks lanes, deadlines and peers this often, and sends its peers a progress report.
  Duration heartbeat_interval = std::chrono::milliseconds(100);
  // A blocked rank sends progress reports. So a peer that has sent nothing for this long is not blocked itself.
  Duration silence = std::chrono::milliseconds(300);
  // A lane may fail just before the control connection tells the cause: a death, an abort, a mismatch. The failure of
  // the lane becomes the error only after this time.
  Duration lane_failure_cause = std::chrono::milliseconds(300);
  // Both ranks of a failed lane see the failure, and each can only name the other one. The higher rank, which makes the
  // connection and knows why it could not be made, reports first: the lower rank waits this much longer.
  Duration higher_rank_report = std::chrono::milliseconds(200);
  // Until all ranks have joined the shared segment, ranks are connected to rank 0 only, and rank 0 alone knows which
  // ranks are missing. The other ranks wait this much longer than their deadlines for its report.
  Duration rank_zero_report = std::chrono::milliseconds(200);
  // A rank that is blocked only on blocked ranks does not know the culprit. At its deadline it waits this much longer
  // for ranks that do, whose deadlines are about the same.
  Duration timeout_report_delay = std::chrono::milliseconds(300);

  // After its timeout, Close waits this long until nothing uses the user's memory.
  Duration close_drain = std::chrono::seconds(1);
  // A failed communicator that is destroyed gives its notices this long to leave.
  Duration notice_flush = std::chrono::milliseconds(500);
  // A rank that failed before it did anything waits this long for ranks that connect only now, and notifies them.
  Duration first_connections = std::chrono::seconds(1);
  // The GPUs of a graph notify each other of a failure sooner than their hosts do: the host waits this long for the
  // cause.
  Duration graph_failure_cause = std::chrono::seconds(1);
  // The three waits above check this often.
  Duration notice_check_interval = std::chrono::milliseconds(5);
  // Driving threads read the clock every heartbeat_interval at least. If this much time passes in between, the process
  // was stopped, and its operations get the time back.
  Duration process_pause = std::chrono::seconds(1);
};

// What a peer has sent on its control connection.
struct PeerView {
  std::optional<Goodbye> goodbye = {};
  std::optional<ProgressReport> report = {};  // the last one
  TimePoint last_received_at = {};            // of anything
};

// A lane that an operation needs has failed.
struct LaneFailure {
  Rank peer = kNoRank;
  const Error* error = nullptr;  // null: the peer ended the lane in good order
  bool of_collective = false;    // the running operation has yet to send or receive on it
};

// This rank's operation, as peers are compared with it.
struct OwnOperation {
  const OperationDescriptor& descriptor;
  bool is_joining = false;  // the ranks still join the shared segment; until then the algorithm may change
  bool needs_all = false;   // it needs every peer, now or later
};

// A peer that an operation is blocked on, and what is known of that peer.
struct BlockedOn {
  BlockedStep step;         // where `is_joining`, only its peer counts
  bool is_joining = false;  // the peer has not joined the shared segment yet
  TimePoint last_received_at = {};
  bool is_connected = true;  // otherwise its silence means nothing
  std::string path = {};     // describes the way to a peer from which nothing has arrived
};

// An operation that did not end in time.
struct LateOperation {
  const OperationDescriptor& descriptor;
  TimePoint deadline = {};
  Duration timeout = {};
  std::string_view timeout_owner = "";  // "Close's ", if it is not the operation's own timeout
  std::string local_wait = "";          // what it waits for on this rank's own device, if for anything
  bool names_rails = false;
};

// The operations that have been issued and have not ended: [first, last].
struct PendingOperations {
  Sequence first = 0;
  Sequence last = 0;
  Sequence waited = 0;  // a thread waits for the end of this one; outside of the range: for none
};

struct Verdict {
  std::optional<Error> error = {};          // with its culprit
  TimePoint wait_until = TimePoint::max();  // without an error: there is none before this time, unless facts change
};

class Suspicion {
 public:
  Suspicion(Rank self, int world_size, const GracePeriods& graces = {})
      : graces_(graces), self_(self), world_size_(world_size) {}

  const GracePeriods& graces() const { return graces_; }

  // ---- what happens ----
  void OnMoved() { blocked_since_.reset(); }
  void OnCompleted() { lane_failed_at_.reset(); }
  // Nothing has moved. True if the rank shall send its progress report and check peers that it expects nothing from:
  // once every heartbeat_interval.
  bool OnBlocked(TimePoint now);

  // ---- disagreements ----
  // kMismatch: the peer is in another operation under the same number. kClosed: it has left, and is still needed.
  // `is_awaited`: the operation waits for bytes of this peer.
  std::optional<Error> JudgePeer(Rank peer, const PeerView& view, bool is_awaited, const OwnOperation& own) const;
  // In Close, of `last`, the operation that this rank completed last. kMismatch: the peer's last operation was another.
  std::optional<Error> JudgeGoodbye(Rank peer, const PeerView& view, const OperationDescriptor& last) const;
  // Likewise. kClosed: the peer is in a later operation, which needs this rank. `refused`: see Goodbye.
  std::optional<Error> JudgeReportInClose(Rank peer, const PeerView& view, const OperationDescriptor& last,
                                          std::string_view refused) const;

  // ---- lanes and connections ----
  // Each peer has a grace period of its own: a rank that takes its lanes away because it was notified of the first
  // failure is about to report that.
  Verdict JudgeLaneFailure(const LaneFailure& failure, TimePoint now);
  // The error of a lost connection. What the system refuses is refused to this rank, and the peer is not at fault.
  static Error AttributeLoss(const Error& error, Rank peer, Rank self);

  // ---- deadlines ----
  // When this rank reports that operation `sequence` is late.
  TimePoint ReportTime(Sequence sequence, TimePoint deadline, bool is_joining) const {
    return Later(deadline, is_joining && self_ != 0             ? graces_.rank_zero_report
                           : sequence == deadline_extended_for_ ? graces_.timeout_report_delay
                                                                : Duration::zero());
  }
  // The operation that is late. It asks `report_time(Sequence)` of the first and the one that is waited for at every
  // call, and of the others, which may have shorter timeouts, once every heartbeat_interval.
  template <typename ReportTimes>
  std::optional<Sequence> FindLate(const PendingOperations& pending, TimePoint now, const ReportTimes& report_time) {
    const auto is_late = [&](Sequence sequence) {
      return sequence >= pending.first && sequence <= pending.last && now >= report_time(sequence);
    };
    if (is_late(pending.first)) return pending.first;
    if (is_late(pending.waited)) return pending.waited;
    if (now < next_deadline_check_) return std::nullopt;
    next_deadline_check_ = now + graces_.heartbeat_interval;
    for (Sequence sequence = pending.first; sequence <= pending.last; ++sequence)
      if (is_late(sequence)) return sequence;
    return std::nullopt;
  }
  // Of an operation that FindLate gave; `is_first`: of those that are pending. kTimeout, or the rank waits until the
  // new ReportTime.
  Verdict JudgeLate(const LateOperation& late, bool is_first, std::span<const BlockedOn> blocked, TimePoint now);
  // kTimeout: names all peers that the operation is blocked on, in the order of `blocked`. The culprit is the peer that
  // has been silent for longest; of peers whose silence differs by at most graces().silence, the first.
  Error TimeoutOf(const LateOperation& late, std::span<const BlockedOn> blocked, TimePoint now) const;
  // Whether every peer that a step is blocked on has sent something lately, so that it is blocked itself.
  bool OthersReportFirst(std::span<const BlockedOn> blocked, TimePoint now) const;

 private:
  // For how long neither a control message nor bytes have arrived from a peer that this rank is blocked on.
  Duration SilenceOf(const BlockedOn& on, TimePoint now) const;
  std::string DescribeSilence(const BlockedOn& on, TimePoint now) const;
  std::string Describe(const BlockedOn& on, const LateOperation& late, TimePoint now) const;
  Error Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const;

  const GracePeriods graces_;
  const Rank self_;
  const int world_size_;
  std::optional<TimePoint> blocked_since_;  // nothing has moved
  TimePoint last_heartbeat_at_{};           // while nothing moves
  std::optional<TimePoint> lane_failed_at_;
  Rank lane_failed_with_ = kNoRank;
  Sequence deadline_extended_for_ = 0;  // 0: for no operation
  TimePoint next_deadline_check_{};
};

}  // namespace rondo
