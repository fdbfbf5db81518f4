// A lane by RDMA: a reliable connection (stream.h) beside a lane of the base transport.
//
// How it comes to be. The base lane is made first, as between any two ranks. Over it the two agree with path messages
// (path_message.h): the caller, which is the higher rank, offers its end; the called connects to it and answers with
// its own; the caller connects and says that it is ready. Whatever fails on the way, either says "plain" instead, and
// the base lane carries the bytes, or the lane fails, where that is not allowed.
//
// Afterwards the base lane carries nothing. Its end without an end of the stream is the peer's death.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "transport/ib/path_message.h"
#include "transport/ib/stream.h"
#include "transport/lane.h"

namespace rondo::ib {

// What a lane needs of its endpoint.
struct LaneContext {
  Rank self = kNoRank;
  std::shared_ptr<const Device> device;
  ibv_comp_channel* channel = nullptr;  // outlives the lane
  StreamOptions stream;
  bool may_be_plain = true;
};

class IbLane final : public Lane {
 public:
  // `base` outlives the lane, and is nobody else's to use.
  IbLane(LaneContext context, Lane& base, std::uint32_t index);

  Rank peer() const override { return base_.peer(); }
  LaneState state() const override { return state_; }
  const Error* failure() const override;

  std::size_t Write(std::span<const Bytes> pieces) override;
  MutableBytes Reserve(std::size_t) override { return {}; }
  void Commit(std::size_t bytes) override;
  std::size_t Offer(Bytes) override { return 0; }
  std::uint64_t accepted() const override;
  std::uint64_t released() const override;
  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  bool end_arrived() const override;
  std::uint64_t consumed() const override;
  void Revoke() override;

  // ---- for the endpoint ----

  // Goes on with coming to be, or looks how both lanes stand. A change of state shows only after this.
  void Poll(TimePoint now);
  // True: do not sleep. Else the channel, or the base lane, will tell.
  bool Arm();
  void ShutDown();
  bool is_plain() const { return phase_ == Phase::kPlain; }
  // Whether Describe says something new since this was last asked.
  bool TakeChanged() { return std::exchange(changed_, false); }
  // "ib mlx5_0:1 RoCE v2 10.0.0.1, MTU 4096", or why not.
  std::string Describe() const;

 private:
  enum class Phase : std::uint8_t { kBase, kTelling, kHearing, kRdma, kPlain };

  bool is_caller() const { return context_.self > base_.peer(); }
  void Agree();
  void Say(PathWord word);
  void SayPlain(const Error& why);
  bool SendMessage();
  bool ReadMessage();
  void OnTold();
  void OnHeard();
  Status MakeStream();
  void BePlain(bool peer_said_so);
  void Adopt(TimePoint now);
  void AdoptBaseOver(TimePoint now);
  void LookForEnd();
  void FailWith(ErrorCode code, const std::string& message, bool peer);

  const LaneContext context_;
  Lane& base_;
  const std::uint32_t index_;
  Phase phase_ = Phase::kBase;
  LaneState state_ = LaneState::kConnecting;
  std::optional<Error> failure_;
  std::string why_plain_;
  bool may_send_ = true;
  bool revoked_ = false;
  bool changed_ = false;

  // Coming to be.
  PathMessageBytes out_{};
  PathMessageBytes in_{};
  PathWord said_ = PathWord::kPlain;
  std::size_t out_sent_ = 0;
  std::size_t in_read_ = 0;
  std::uint64_t agreed_out_ = 0;  // bytes of agreement on the base lane
  std::uint64_t agreed_in_ = 0;

  std::unique_ptr<Stream> stream_;
  std::optional<TimePoint> base_over_since_;
  bool over_ = false;  // no more is waited for
};

}  // namespace rondo::ib
