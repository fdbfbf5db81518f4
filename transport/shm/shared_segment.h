// The shared segment of an endpoint whose ranks all share a host. It is one piece of memory with a part for each rank.
// One of its cache lines has a bit for each rank, which is set while that rank sleeps.
//
// To set it up, rank 0 and each other rank exchange messages (setup_message.h) over a lane of the base transport.
// Descriptors are passed through the abstract sockets (fd_passing.h):
//
//   every other rank                                rank 0
//   sends its event descriptor to rank 0's socket
//   sends "called", or "cannot" and why      ->
//                                                   when all have called, makes the memory and passes it to each rank
//                                                   with all ranks' event descriptors
//                                            <-     sends "made", or "none" and why
//   maps it, sends "mapped", or "cannot"     ->
//                                            <-     sends "ready" when all have mapped it, otherwise "none" and why
//
// Descriptors are passed before the message that announces them. So a rank that has received the message finds the
// descriptors, and ranks wait only for messages on the lane. Rank 0 sends the same final message to all ranks. Then
// each rank checks whether it can read the memory of all others (process_memory.h). It uses the probes that the ranks
// stored in the segment before they sent "mapped".
//
// Sleeping: Arm sets the bit of its rank, then checks again for published values. A rank that has published then loads
// the bits, clears them, and wakes the ranks whose bits were set. Both ranks have a fence between store and load, so at
// least one of them sees the other's store (transport/doorbell.h). A publisher's fence is light (fences.h), because a
// rank publishes often. If JoinFences fails on one rank, all ranks use full fences.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/fd.h"
#include "base/result.h"
#include "transport/lane.h"
#include "transport/shared_segment.h"
#include "transport/shm/connect_request.h"
#include "transport/shm/process_memory.h"
#include "transport/shm/regions.h"
#include "transport/shm/segment.h"
#include "transport/shm/setup_message.h"
#include "transport/shm/shared_memory.h"

namespace rondo::shm {

inline constexpr std::size_t kSharedSegmentPartBytes = 256 * 1024;
// The size of a shared segment with `world_size` parts.
std::size_t SharedSegmentBytes(int world_size);

struct SharedSegmentContext {
  Rank rank = 0;
  int world_size = 1;
  int signal = -1;          // this endpoint's event descriptor
  std::string root_socket;  // the abstract name of rank 0's socket
  // On rank 0: one lane to each rank, in the order of ranks; null for rank 0 itself. On other ranks: only the lane to
  // rank 0. Nothing else uses these lanes.
  std::vector<Lane*> lanes;
  std::function<std::optional<ConnectRequest>(Rank from)>
      find_request;                        // on rank 0: the request that rank `from` sent to rank 0's socket
  std::function<bool(Nonce&)> draw_nonce;  // false: the system has no random bytes
  std::function<void(std::string_view)> step;
  RegionExchange::Context regions = {};
};

class ShmSharedSegment final : public SharedSegment {
 public:
  // REQUIRES: 2 <= world_size <= kMaxSharedSegmentRanks, and all ranks are on this host.
  explicit ShmSharedSegment(SharedSegmentContext context);

  SharedSegmentState state() const override { return state_; }
  const std::string& why() const override { return why_; }
  const Error* failure() const override { return failure_ ? &*failure_ : nullptr; }
  std::vector<Rank> Missing() const override;
  MutableBytes part(Rank rank) override;
  void WakeWaiters() override;
  void LetGoOfFreed() override { regions_.LetGoOfFreed(); }
  std::uint32_t RegionOf(Bytes memory) override { return regions_.Holding(memory); }
  bool Show(std::uint32_t region) override { return regions_.Show(region); }
  const std::byte* Find(Rank rank, const MemoryPlace& place, std::uint64_t bytes) override {
    return regions_.Find(rank, place, bytes);
  }
  bool CanRead() const override { return why_not_read_.empty(); }
  bool CanBeRead(Bytes memory) override;
  Status Read(Rank rank, std::uint64_t address, MutableBytes into) override {
    return ReadMemoryOf(processes_[static_cast<std::size_t>(rank)], address, into);
  }

  // ---- for the endpoint ----
  // "shared segment" and the kinds of copies that it allows, or why there is no segment. Any thread may call it after
  // the state has become final.
  std::string Describe() const;
  void Poll();
  // True: the owner must not sleep.
  bool Arm();
  void Disarm();

 private:
  struct Head;
  // The state of the exchange of messages with one peer.
  struct PeerSetup {
    SetupSender out;
    SetupReader in;
    SetupKind received = SetupKind::kNone;  // on rank 0: the kind of the latest message from this peer
    Fd connection;
    Fd signal;
  };
  enum class Phase : std::uint8_t { kRequesting, kRequested, kMade, kVerdict };

  bool is_root() const { return context_.rank == 0; }
  void AdvanceAsOther();
  void AdvanceAsRoot();
  Result<bool> SendRequestToRoot();
  bool ReceiveFromAll(SetupKind due);
  bool ReceiveFrom(std::size_t from, SetupKind due);
  bool Lacks(std::size_t from) const;
  void SendTo(std::size_t to, SetupKind kind);
  Status MakeMemory();
  bool HandOutMemory();
  Status TakeMemory();
  void WriteOwnEntry();
  void TryToRead();
  void FailSetup(std::size_t by, std::string_view what);
  void Settle(std::string why_not);
  Head& head() const { return *reinterpret_cast<Head*>(memory_.bytes().data()); }
  std::uint64_t own_bit() const { return std::uint64_t{1} << context_.rank; }

  const SharedSegmentContext context_;
  SharedSegmentState state_ = SharedSegmentState::kMaking;
  Phase phase_ = Phase::kRequesting;
  std::string why_;
  std::optional<Error> failure_;
  std::vector<PeerSetup> peers_;  // in the order of context_.lanes
  // On rank 0: the rank to which the memory is passed now; the number of ranks when all have it.
  std::size_t mapped_ = 0;
  SharedMemory memory_;
  std::vector<Fd> signals_;  // by rank
  RegionExchange regions_;
  Nonce nonce_{};             // the nonce of this rank's probe
  std::string why_not_read_;  // empty: this rank can read all others' memory
  // By rank: the number of its process. Complete if this rank can read all others' memory.
  std::vector<std::int32_t> processes_;
  const bool joined_fences_;  // whether the constructor has joined the fences (fences.h)
  bool fences_are_light_ = false;
  std::array<Bytes, 8> found_readable_{};  // the pieces of this rank's memory that were found readable most recently
  std::size_t next_found_ = 0;
};

}  // namespace rondo::shm
