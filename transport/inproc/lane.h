// A lane of an in-process network: a writer for one stream, a reader for the other stream, and the state of the link.
#pragma once

#include <memory>
#include <optional>

#include "transport/inproc/fabric.h"
#include "transport/inproc/stream.h"
#include "transport/lane.h"

namespace rondo {

class InprocLane final : public Lane {
 public:
  InprocLane(std::shared_ptr<InprocFabric> fabric, InprocFabric::Attached attached, Rank self, Rank peer,
             std::uint32_t index, std::uint32_t connecting_polls, Random random);
  ~InprocLane() override;

  Rank peer() const override { return peer_; }
  LaneState state() const override;
  const Error* failure() const override;
  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override { return writer_.accepted(); }
  std::uint64_t released() const override { return writer_.released(); }
  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t stream_offset, MutableBytes destination) override;
  std::uint64_t consumed() const override { return reader_.consumed(); }
  void Revoke() override;

  // ---- for the endpoint ----

  // One step: continues to connect, and releases some more bytes in the mode `late_release`.
  void Poll();
  // Takes over the states of both sides of the link. The owner sees a change of the other side only after this call.
  void AdoptStates();
  // Whether the lane has something for the owner that the owner has not seen in its latest calls.
  bool HasNews();
  void ShutDown();

 private:
  bool CanWrite();
  bool CanRead() const { return connecting_polls_ == 0 && !revoked_; }
  void RingPeer() { link_->stations[1 - side_]->bell.Ring(); }
  Error PeerError(SideState how) const;

  const std::shared_ptr<InprocFabric> fabric_;  // keeps the counters (InprocTally) alive
  const std::shared_ptr<InprocLink> link_;
  const int side_;
  const Rank self_;
  const Rank peer_;
  const std::uint32_t index_;

  StreamWriter writer_;
  StreamReader reader_;
  std::uint32_t connecting_polls_;
  SideState peer_state_ = SideState::kLive;  // as of the latest AdoptStates
  std::optional<Error> failure_;  // why the lane has failed, or will fail when all arrived bytes are consumed
  bool failed_ = false;
  bool revoked_ = false;
  bool failed_in_write_ = false;  // true: the owner has not seen the failure yet, so Arm returns true
};

}  // namespace rondo
