// A lane by RDMA: a reliable connection (stream.h) beside a lane of the base transport (transport/upgrade/lane.h).
//
// How it comes to be. The base lane is made first, as between any two ranks. Over it the two agree with path messages
// (path_message.h): the initiator, which is the higher rank, offers its end; the other connects to it and answers with
// its own; the initiator connects and says that it is ready.
//
// What if it fails, on the way or any time later: whoever sees it gives its end up and says "broken", with how far the
// stream has come; the other does and says the same. Then they agree anew, the k-th time over the k-th port of each
// (of a side with fewer it is again the first), and the stream goes on where it was. When the last port has failed the
// base lane carries the bytes, if that is allowed; else the lane fails, for the last reason.
//
// Between agreements the base lane carries nothing. Its end without an end of the stream is the peer's death. A sender
// mends when its owner looks: bytes that it has taken wait until then. What is lent from registered memory stays lent
// until it has arrived, by whatever way: but memory of a device only by RDMA. Where there is none any more, a lane on
// which such bytes are under way fails, and so does one that is given them then.
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

// A port by which lanes may go, with what announces its completions to their endpoint.
struct LanePort {
  std::shared_ptr<const Device> device;
  ibv_comp_channel* channel = nullptr;
  std::size_t key = 0;  // of Region::keys
};

// What a lane needs of its endpoint.
struct LaneContext {
  std::vector<LanePort> ports;  // in the order in which they are tried; one at least. Channels outlive the lane
  std::size_t ring_bytes = 0;   // of the stream
  std::shared_ptr<const Registrations> registered;
  QueuePairOptions connection;
  bool may_be_plain = true;
  Logger* logger = nullptr;
  std::shared_ptr<const RankFrame> frame = nullptr;  // for the log
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
  // True: do not sleep. Else the channel, or the base lane, will tell.
  bool Arm();
  void ShutDown();
  // Whether no bytes go by RDMA any more.
  bool is_plain() const { return phase_ == Phase::kPlain || phase_ == Phase::kCarried; }
  // "ib mlx5_0:1 RoCE v2 10.0.0.1, MTU 4096", or why not.
  std::string Describe() const;
  // The port in use; nothing while there is none.
  LinkEnd link() const;

 private:
  enum class Phase : std::uint8_t {
    kBase,      // the base lane is being made
    kSending,   // a path message goes out
    kAwaiting,  // one is waited for
    kRdma,      // the stream goes by its connection
    kCarried,   // the stream goes by the base lane, for the last connection has failed
    kPlain,     // there never was one: the base lane serves itself
  };
  // Why the last connection failed, or could not be made.
  struct Broken {
    ErrorCode code = ErrorCode::kUnreachable;
    std::string why;
    bool peer = false;  // the cause is the peer, or the way to it
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
  void AgreeAnew();
  void GoPlain();
  void Look(TimePoint now);
  void AdoptBaseOver(TimePoint now);
  void LookForEnd();
  // The lane fails for the reason of `broken`, put into `words`.
  void FailFor(const Broken& broken, const std::string& words);

  const LaneContext context_;
  Phase phase_ = Phase::kBase;

  // Agreeing.
  MessageSender<PathMessageBytes> out_;
  MessageReader<PathMessageBytes> in_;
  PathWord said_ = PathWord::kPlain;
  PathWord due_ = PathWord::kOffer;
  std::size_t attempt_ = 0;
  std::size_t peer_ports_ = 0;             // as far as told
  Broken broken_;                          // of the attempt before
  std::optional<Progress> peer_progress_;  // since it is broken here
  TimePoint look_at_base_{};

  std::unique_ptr<Stream> stream_;
  bool streams_ = false;  // bytes have moved by it, or may have
  std::optional<TimePoint> base_over_since_;
  bool over_ = false;  // no more is waited for

  RegistrationsView registered_;  // asked where the base lane carries the bytes
};

}  // namespace rondo::ib
