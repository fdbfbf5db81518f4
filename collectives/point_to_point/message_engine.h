// Runs all sends and receives of one rank, with every peer and with the rank itself. They are all in flight at once.
//
//   MessageEngine engine(options, endpoint);
//   engine.Start(operation);          // `operation` must live until operation.final
//   while (!operation.final) engine.Poll();
//
// matching.h has the matching rules, message_lane.h the protocol with one peer. Messages from a rank to itself follow
// the same rules without a lane: small ones are copied to a buffer, within the same credit; larger ones wait for their
// receive.
//
// The engine makes a lane when a send or receive first names the peer, or when the peer has opened its lane to this
// rank (AcceptLane). A receive from any rank makes no lane, because each sender opens its own.
//
// The engine is sans-I/O: it never blocks, owns no thread, and reads no clock. In steady state, messages that match a
// posted receive allocate nothing. Thread rule: one thread at a time, the owner of the endpoint.
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

// What BeginEnd does with receives for which no message has arrived.
enum class PostedReceives : std::uint8_t { kStay, kGivenUp };

class MessageEngine {
 public:
  // The endpoint must outlive the engine.
  MessageEngine(const MessageEngineOptions& options, Endpoint& endpoint);

  // Starts an operation. If no lane can be made, the operation fails at once. REQUIRES: peer and tag are valid.
  void Start(MessageOperation& operation);
  // Must be called when the peer has opened its lane of messages to this rank.
  void AcceptLane(Rank peer);
  // Must be called when the peer has sent its goodbye. Messages that the peer sent before are still received. When its
  // lane has ended too, or if there is no lane, EndDeparted fails the operations that need the peer. EndDeparted
  // returns the same errors as Poll, and they are final.
  void Depart(Rank peer);
  Status EndDeparted();
  // Called when this rank closes and starts no more operations. Announced messages that no receive has matched are
  // refused. Peers get an end frame, so that their receives from this rank end too. With kGivenUp, posted receives end
  // with kClosed.
  void BeginEnd(PostedReceives receives = PostedReceives::kStay);

  // Moves the bytes that can move now. Returns whether anything moved. An error (kProtocol, kOutOfMemory, kCorrupt) is
  // final: the caller must revoke the lanes and then call FailAll.
  Result<bool> Poll();
  // Whether a frame has arrived that Poll would receive. The call checks each lane once or a few times, which takes no
  // longer than one call of Poll. If there are more than a few lanes, it returns false without a check.
  bool Glance();
  // How many operations have ended since the last call.
  std::uint32_t TakeFinished() { return completions_.Take(); }
  // Whether answers, credit or an end frame wait to be sent, even if no operation of this rank is pending.
  bool HasOutput() const;

  // The earliest deadline of the pending operations; TimePoint::max() if there are none. The result may be earlier than
  // the true deadline.
  TimePoint next_deadline() const { return next_deadline_; }
  // Gives every pending operation as much more time as it was pending between `begin` and `end`.
  void ExtendDeadlines(TimePoint begin, TimePoint end);
  // Ends late operations with kTimeout. An operation whose bytes are already in transfer cannot be withdrawn: its error
  // is returned instead, and is final for the whole engine.
  std::optional<Error> Expire(TimePoint now);
  // Returns an error (kTimeout). It says that the oldest pending operation did not end within `time`, and why; `whose`
  // says whose time limit it is ("Close's "). If no operation is pending, the error says that a message has not begun.
  Error LateFor(std::string_view whose, Duration time) const;

  // A peer that is needed, has not departed, and whose lane has failed or ended.
  struct FailedLane {
    Rank peer = kNoRank;
    const Error* error = nullptr;  // the lane's error; null if the lane ended without one
  };
  std::optional<FailedLane> FindFailedLane() const;

  // Ends all pending operations with `error`. REQUIRES: the lanes have been revoked; Poll is never called again.
  void FailAll(const Error& error);
  // Ends an operation that was not started.
  void Fail(MessageOperation& operation, const Error& error);

  // The number of messages that have arrived and that no receive has taken.
  std::size_t held_messages() const { return matching_.held_messages(); }

 private:
  Result<MessageLane*> LaneTo(Rank peer);
  void StartSend(MessageOperation& send);
  void StartReceive(MessageOperation& receive);
  void SendToSelf(MessageOperation& send);
  // Gives a held message to `receive`, or posts `receive`.
  void Match(MessageOperation& receive);
  void TakeOwn(MessageOperation& receive, HeldMessage& held);
  // Fails the posted receives whose possible senders have all left.
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
  std::vector<std::unique_ptr<MessageLane>> lanes_;  // indexed by peer
  std::vector<MessageLane*> open_;                   // the lanes that exist
  std::size_t first_ = 0;                            // index of the lane to poll first, modulo the number of lanes
  std::vector<bool> departed_;                       // for each peer: whether its goodbye has arrived
  std::size_t ended_lanes_ = 0;  // number of lanes whose peer has sent its end frame, when last counted
  ActiveList active_;
  std::uint64_t receives_ = 0;
  std::uint64_t own_held_bytes_ = 0;  // credit of messages from this rank to itself that are held as copies
  TimePoint next_deadline_ = TimePoint::max();
  bool ending_ = false;
};

}  // namespace rondo
