// Sends and receives of one rank: all in flight at once, with every peer and with itself.
//
//   MessageEngine engine(options, endpoint);
//   engine.Start(operation);          // lent until operation.final
//   while (!operation.final) engine.Poll();
//
// Matching is that of matching.h, the protocol with one peer that of message_lane.h. Messages to oneself follow the
// same rules without a lane: small ones are copied aside, within the same credit; larger ones wait for their receive.
//
// Lanes are made when a send or receive first names a peer, or when the peer calls (Meet). A receive from any rank
// makes none: whoever sends, calls.
//
// The engine is sans-I/O: it blocks on nothing, owns no thread, reads no clock. Messages that meet a posted receive
// allocate nothing in steady state. Thread rule: one thread at a time, the owner of the endpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/point_to_point/matching.h"
#include "collectives/point_to_point/message_lane.h"
#include "collectives/point_to_point/operation.h"
#include "transport/transport.h"

namespace rondo {

struct MessageEngineOptions {
  Rank rank = 0;
  int world_size = 1;
  MessageLimits limits;
  MessageObserver* observer = nullptr;  // outlives the engine
};

// What becomes, when a rank ends, of receives that no message has come for.
enum class PostedReceives : std::uint8_t { kStay, kGivenUp };

class MessageEngine {
 public:
  // The endpoint outlives the engine.
  MessageEngine(const MessageEngineOptions& options, Endpoint& endpoint);

  // REQUIRES: peer and tag are sound. Ends the operation at once where no lane can be made.
  void Start(MessageOperation& operation);
  // The peer has opened its lane of messages to us.
  void Meet(Rank peer);
  // The peer has said goodbye. What it sent before is still received; once its lane is over too, or where there is
  // none, EndDeparted ends what needs it. An error (as of Poll) is final.
  void Depart(Rank peer);
  Status EndDeparted();
  // This rank closes: nothing will be started any more. Announced messages that no receive has matched are refused, and
  // peers are told the end, so that their receives from this rank end too. Receives that are given up end with kClosed.
  void BeginEnd(PostedReceives receives = PostedReceives::kStay);

  // Moves what can move; true if anything did. An error (kProtocol, kOutOfMemory, kCorrupt) is final: revoke, then
  // FailAll.
  Result<bool> Poll();
  // Whether Poll would find a message that has come. Looks a few times, for no longer than Poll and what goes with it
  // take; where there are many lanes, not at all.
  bool Glance();
  // How many operations have ended since the last call.
  std::uint32_t TakeFinished() { return completions_.Take(); }
  // Answers, credit or an end are to go out, though perhaps no operation of this rank is under way.
  bool HasOutput() const;

  // The earliest deadline of all that is under way; TimePoint::max() where nothing is. It may be too early.
  TimePoint next_deadline() const { return next_deadline_; }
  // All that is under way gets so much more time.
  void PutOffDeadlines(Duration by);
  // Ends what is late with kTimeout. An operation whose bytes are under way cannot be taken back: its error is
  // returned, as one that is final for all.
  std::optional<Error> Expire(TimePoint now);
  // kTimeout: that what was started first has not ended within `whose` time, and why. REQUIRES: something is pending.
  Error LateFor(std::string_view whose, Duration time) const;

  // A peer that is needed and whose lane is broken or ended, and that has not departed; with the lane's error (null
  // when merely ended).
  struct FailedLane {
    Rank peer = kNoRank;
    const Error* error = nullptr;
  };
  std::optional<FailedLane> FindFailedLane() const;

  // Ends everything with that error. REQUIRES: the lanes have been revoked; Poll is never called again.
  void FailAll(const Error& error);
  // Ends one that was not started.
  void Fail(MessageOperation& operation, const Error& error);

  // Messages that came and that nobody has received.
  std::size_t held_messages() const { return matching_.held_messages(); }

 private:
  Result<MessageLane*> LaneTo(Rank peer);
  void StartSend(MessageOperation& send);
  void StartReceive(MessageOperation& receive);
  void SendToSelf(MessageOperation& send);
  // Gives it a held message, or posts it.
  void Match(MessageOperation& receive);
  void TakeOwn(MessageOperation& receive, HeldMessage& held);
  // Ends receives for which nobody is left to send.
  void FailHopeless();
  void GiveUpReceives();
  bool HasLeft(Rank peer) const;
  Error Left(Rank peer, const MessageOperation& operation) const;
  std::string Explain(const MessageOperation& operation) const;
  Error Late(std::string_view whose, Duration time, const MessageOperation& operation) const;

  const MessageEngineOptions options_;
  Endpoint& endpoint_;
  Completions completions_;
  Matching matching_;
  std::vector<std::unique_ptr<MessageLane>> lanes_;  // by peer
  std::vector<MessageLane*> open_;                   // those there are
  std::size_t first_ = 0;                            // whose turn it is to be polled first
  std::vector<bool> departed_;                       // by peer: it said goodbye
  std::size_t ended_lanes_ = 0;                      // of which the peer has told the end, as last counted
  ActiveList active_;
  std::uint64_t receives_ = 0;
  std::uint64_t own_held_bytes_ = 0;  // messages to oneself that were copied aside, as credit counts
  TimePoint next_deadline_ = TimePoint::max();
  bool ending_ = false;
};

}  // namespace rondo
