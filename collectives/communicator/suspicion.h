// Decides which rank is at fault if a communicator cannot go on, and when this rank may report it.
//
// Several ranks notice one fault at about the same time, and each of them sees another part of it. A rank that waits
// for a blocked rank would name the wrong one. So a rank with less evidence first waits for a grace period, in which a
// rank with more evidence reports. All ranks adopt the first report, and so name one culprit. From the most certain
// fact to the least certain:
//
//   a peer is in another operation, or has left          reported at once
//   a peer died, as its control connection shows         reported at once (PeerEvents::OnPeerLost)
//   a lane failed, and both of its ranks live            reported after lane_failure_cause; the lower rank waits
//                                                        longer, by higher_rank_report
//   the deadline passed                                  reported at once, or after timeout_report_delay if all peers
//                                                        that this rank is blocked on are blocked themselves; the
//                                                        report names the peer that has been silent for longest
//
// Pure: no lock, no clock, no I/O. The caller passes the facts and the time. Thread rule: the owner of the
// communicator; static functions, const functions and graces() may be called by any thread.
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
  // A lane may fail just before the control connection reports the cause: a death, an abort, a mismatch. So this rank
  // reports the failure of a lane only after this time.
  Duration lane_failure_cause = std::chrono::milliseconds(300);
  // Both ranks of a failed lane see the failure, and each can only name the other one. So the lower rank waits this
  // much longer than the higher rank before it reports. The higher rank reports first because it makes the connection,
  // and so knows why a connection failed. If a busy machine delays the higher rank by more than this time, both ranks
  // report, and may name different culprits.
  Duration higher_rank_report = std::chrono::milliseconds(600);
  // Until all ranks have joined the shared segment, ranks are connected to rank 0 only, and only rank 0 can see which
  // ranks are missing. The other ranks wait for rank 0's report until this long after their deadlines.
  Duration rank_zero_report = std::chrono::milliseconds(200);
  // A rank that is blocked only on blocked ranks cannot name the culprit. So after its deadline it waits this long for
  // the report of a rank that can, because the deadlines of all ranks are about the same.
  Duration timeout_report_delay = std::chrono::milliseconds(300);

  // After its timeout, Close waits at most this long until the failed operations no longer use the user's memory.
  Duration close_drain = std::chrono::seconds(1);
  // The destruction of a failed communicator waits at most this long until the failure notices have left the process.
  Duration notice_flush = std::chrono::milliseconds(500);
  // A rank that failed before its first operation completed waits at most this long for ranks that are still
  // connecting, so that it can notify them.
  Duration first_connections = std::chrono::seconds(1);
  // The GPUs of a graph notify each other of a failure sooner than the ranks' processes do. So a rank whose GPU does
  // not know the cause waits at most this long for another rank's notice of the cause.
  Duration graph_failure_cause = std::chrono::seconds(1);
  // How often the waits of notice_flush, first_connections and graph_failure_cause check whether they may end.
  Duration notice_check_interval = std::chrono::milliseconds(5);
  // A thread that advances operations reads the clock at least every heartbeat_interval. If this much time passes
  // between two of its reads, the process was stopped, and the deadlines of its operations are extended by that time.
  Duration process_pause = std::chrono::seconds(1);
};

// What Suspicion must know of the control messages that a peer has sent.
struct PeerView {
  std::optional<Goodbye> goodbye = {};
  std::optional<ProgressReport> report = {};  // the last one received
  TimePoint last_received_at = {};            // when any control message last arrived
};

// A failed lane that an operation needs.
struct LaneFailure {
  Rank peer = kNoRank;
  const Error* error = nullptr;  // null: the peer ended the lane without an error
  bool of_collective = false;    // the running operation still has to send or receive on this lane
};

// The operation of this rank with which the operations of its peers are compared.
struct OwnOperation {
  const OperationDescriptor& descriptor;
  bool is_joining = false;  // the ranks are still joining the shared segment; until they have, the algorithm may change
  bool needs_all = false;   // the operation needs every peer, now or later
};

// A peer that an operation is blocked on, and what is known of that peer.
struct BlockedOn {
  BlockedStep step;         // if is_joining is true, only step.peer is set
  bool is_joining = false;  // the peer has not joined the shared segment yet
  TimePoint last_received_at = {};
  bool is_connected = true;  // false: the peer is not connected, so its silence is no evidence
  std::string path = {};     // describes the connection to the peer, if nothing has arrived from the peer yet
};

// An operation that did not end before its deadline.
struct LateOperation {
  const OperationDescriptor& descriptor;
  TimePoint deadline = {};
  Duration timeout = {};
  std::string_view timeout_owner = "";  // "Close's " if the timeout is Close's; "" if it is the operation's own
  std::string local_wait = "";          // describes what the operation waits for on this rank's own device; "": nothing
  bool names_rails = false;
};

// The operations that were issued and have not ended: from `first` to `last`.
struct PendingOperations {
  Sequence first = 0;
  Sequence last = 0;
  Sequence waited = 0;  // the operation whose end a thread waits for; 0 or a number out of the range: none
};

struct Verdict {
  std::optional<Error> error = {};          // the error, which names the culprit; nullopt: no error yet
  TimePoint wait_until = TimePoint::max();  // if there is no error: the earliest time for one, unless the facts change
};

class Suspicion {
 public:
  Suspicion(Rank self, int world_size, const GracePeriods& graces = {})
      : graces_(graces), self_(self), world_size_(world_size) {}

  const GracePeriods& graces() const { return graces_; }

  // ---- events ----
  void OnMoved() { blocked_since_.reset(); }
  void OnCompleted() { lane_failed_at_.reset(); }
  // Call it if nothing has moved. Returns true once every heartbeat_interval. The rank must then send its progress
  // report, and also check peers from which it expects no bytes.
  bool OnBlocked(TimePoint now);

  // ---- mismatches ----
  // kMismatch: the peer is in another operation under the same number. kClosed: the peer has left, but is still needed.
  // `is_awaited`: the operation waits for bytes of this peer.
  std::optional<Error> JudgePeer(Rank peer, const PeerView& view, bool is_awaited, const OwnOperation& own) const;
  // For Close: compares the peer's goodbye with `last`, the operation that this rank completed last. kMismatch: the
  // peer completed another operation last.
  std::optional<Error> JudgeGoodbye(Rank peer, const PeerView& view, const OperationDescriptor& last) const;
  // For Close: returns an error if the peer is in a later operation than `last`, because the peer then still needs this
  // rank. kMismatch: this rank refused a call (`refused`: see Goodbye). kClosed: it refused none.
  std::optional<Error> JudgeReportInClose(Rank peer, const PeerView& view, const OperationDescriptor& last,
                                          std::string_view refused) const;

  // ---- lanes and connections ----
  // Each peer whose lane failed has its own grace period. A peer may have closed its lanes because it was notified of
  // another failure, and is then about to pass that notice on.
  Verdict JudgeLaneFailure(const LaneFailure& failure, TimePoint now);
  // Adds the culprit to the error of a lost connection: `peer`, or this rank if a limit of this rank's system was the
  // reason (kResource).
  static Error AttributeLoss(const Error& error, Rank peer, Rank self);

  // ---- deadlines ----
  // The time at which this rank reports that operation `sequence` is late.
  TimePoint ReportTime(Sequence sequence, TimePoint deadline, bool is_joining) const {
    return Later(deadline, is_joining && self_ != 0             ? graces_.rank_zero_report
                           : sequence == deadline_extended_for_ ? graces_.timeout_report_delay
                                                                : Duration::zero());
  }
  // Returns the operation that is late, or nullopt. At every call it checks `report_time(Sequence)` of the first
  // pending operation and of the operation that a thread waits for. The other operations may have shorter timeouts; it
  // checks them once every heartbeat_interval.
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
  // Judges an operation that FindLate returned. `is_first`: it is the first of the pending operations. Returns
  // kTimeout; or no error, if this rank first waits for the reports of other ranks, until Verdict::wait_until.
  Verdict JudgeLate(const LateOperation& late, bool is_first, std::span<const BlockedOn> blocked, TimePoint now);
  // kTimeout, with a message that names all peers that the operation is blocked on, in the order of `blocked`. The
  // culprit is the peer that has been silent for longest; of peers whose silence differs by at most graces().silence,
  // the first.
  Error TimeoutOf(const LateOperation& late, std::span<const BlockedOn> blocked, TimePoint now) const;
  // Returns whether this rank leaves the report to other ranks: every peer that a step is blocked on has sent something
  // within graces().silence, and so is blocked itself. Always false in a communicator of two.
  bool OthersReportFirst(std::span<const BlockedOn> blocked, TimePoint now) const;

 private:
  // How long neither a control message nor bytes have arrived from a peer that this rank is blocked on.
  Duration SilenceOf(const BlockedOn& on, TimePoint now) const;
  std::string DescribeSilence(const BlockedOn& on, TimePoint now) const;
  std::string Describe(const BlockedOn& on, const LateOperation& late, TimePoint now) const;
  Error Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const;

  const GracePeriods graces_;
  const Rank self_;
  const int world_size_;
  std::optional<TimePoint> blocked_since_;  // the time since which nothing has moved; nullopt: something has moved
  // when OnBlocked last returned true, or when this rank became blocked, whichever is later
  TimePoint last_heartbeat_at_{};
  std::optional<TimePoint> lane_failed_at_;
  Rank lane_failed_with_ = kNoRank;
  Sequence deadline_extended_for_ = 0;  // the operation that is reported later than its deadline; 0: none
  TimePoint next_deadline_check_{};
};

}  // namespace rondo
