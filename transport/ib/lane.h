// A lane by RDMA. It has a reliable connection (stream.h) and a lane of the base transport (transport/upgrade/lane.h).
//
// How a lane is made: the base lane is made first, as between any two ranks. Over the base lane the two ends agree by
// path messages (path_message.h). The initiator (the higher rank) sends the values of its end in kOffer. The other side
// connects to that end and replies with the values of its own end. The initiator connects and sends kReady.
//
// If the connection cannot be made, or fails later, the first side to notice the failure closes its end, and sends
// kBroken with the stream's progress. The other side does the same. Then they agree again, and the stream continues.
// The k-th attempt uses the k-th port of each side; a side with fewer ports starts over with its first. When all ports
// have failed, the base lane carries the bytes, if that is allowed. Otherwise the lane fails with the reason of the
// latest failure.
//
// While RDMA works, no bytes are sent over the base lane. If the base lane ends but the stream's end has not arrived,
// the peer has died. A lane makes a new connection only while its owner polls it, and bytes that the lane has accepted
// wait until then. Zero-copy sends need the user's memory until the bytes have arrived, by RDMA or over the base lane.
// Memory of a device is sent only by RDMA. If no port remains, a lane fails if bytes of a device have not arrived, or
// if it gets such bytes later.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/path_message.h"
#include "transport/ib/stream.h"
#include "transport/transport.h"
#include "transport/upgrade/lane.h"

namespace rondo::ib {

// A port that lanes may use, and the channel on which the endpoint is notified of completions at that port.
struct LanePort {
  std::shared_ptr<const Device> device;
  ibv_comp_channel* channel = nullptr;
  std::size_t key = 0;  // the device's index in Region::keys
};

// What a lane gets from its endpoint.
struct LaneContext {
  std::vector<LanePort> ports;  // at least one, in the order in which lanes try them; the channels outlive the lane
  std::size_t ring_bytes = 0;   // the size of the stream's ring
  std::shared_ptr<const Registrations> registered;
  QueuePairOptions connection;
  bool may_be_plain = true;
  Logger* logger = nullptr;
  std::shared_ptr<const RankFrame> frame = nullptr;  // how log lines name ranks
};

class IbLane final : public UpgradedLane {
 public:
  IbLane(LaneContext context, Lane& base, Rank self, std::uint32_t index);

  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override;
  std::uint64_t released() const override;
  bool sends_device_memory() const override {
    return streams_ && phase_ != Phase::kCarried && state_ != LaneState::kFailed;
  }
  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t stream_offset, MutableBytes destination) override;
  bool end_arrived() const override;
  std::uint64_t consumed() const override;
  void Revoke() override;

  // ---- for the endpoint ----

  void Poll(TimePoint now);
  // True: the owner must not sleep. After false the channel or the base lane wakes the owner.
  bool Arm();
  void ShutDown();
  // Whether RDMA carries no bytes: it never did, or it no longer does.
  bool is_plain() const { return phase_ == Phase::kPlain || phase_ == Phase::kCarried; }
  // "ib mlx5_0:1 RoCE v2 10.0.0.1, MTU 4096", or why the lane does not use RDMA.
  std::string Describe() const;
  // The port in use, and its MTU; empty if no connection exists now.
  LinkEnd link() const;

 private:
  enum class Phase : std::uint8_t {
    kBase,      // the base lane is being made
    kSending,   // a path message is being sent
    kAwaiting,  // the lane waits for a path message from the peer
    kRdma,      // the RDMA connection carries the stream
    kCarried,   // the base lane carries the stream after the last connection has failed
    kPlain,     // there never was a connection; the lane uses the base lane directly
  };
  // Why the latest connection failed, or could not be made.
  struct Broken {
    ErrorCode code = ErrorCode::kUnreachable;
    std::string why;
    bool peer = false;  // the cause is the peer, or the network path to it
  };

  const LanePort& port() const { return context_.ports[attempt_ % context_.ports.size()]; }
  void Agree();
  void Offer();
  void Say(PathWord word);
  void OnSent();
  void OnReceived(const PathMessageBytes& bytes);
  void OnReceivedBroken(const PathMessage& message);
  Status OnReceivedEnd(const PathMessage& message);
  Status MakeEnd();
  void OnConnected();
  void GiveUp(Broken broken);
  void AgreeAgain();
  void GoPlain();
  void Look(TimePoint now);
  void AdoptBaseOver(TimePoint now);
  void LookForEnd();
  // Fails the lane for the reason in `broken`, with `words` as the message.
  void FailFor(const Broken& broken, const std::string& words);

  const LaneContext context_;
  Phase phase_ = Phase::kBase;

  // The state of the agreement between the two ends.
  MessageSender<PathMessageBytes> out_;
  MessageReader<PathMessageBytes> in_;
  PathWord said_ = PathWord::kPlain;
  PathWord due_ = PathWord::kOffer;
  std::size_t attempt_ = 0;
  std::size_t peer_ports_ = 0;             // 0: not received yet
  Broken broken_;                          // the failure of the previous attempt
  std::optional<Progress> peer_progress_;  // the peer's progress, received while this side's end is closed
  TimePoint look_at_base_{};

  std::unique_ptr<Stream> stream_;
  bool streams_ = false;  // RDMA carries bytes, or has carried some
  std::optional<TimePoint> base_over_since_;
  bool over_ = false;  // the lane expects no more bytes or messages

  RegistrationsView registered_;  // used when the base lane carries the bytes
};

}  // namespace rondo::ib
