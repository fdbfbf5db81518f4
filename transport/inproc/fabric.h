// The objects that the ranks of one InprocNetwork share: stations, which are the receiving side of endpoints, and
// links, which are the shared side of lanes. Both are found by name under one mutex, only at set-up and at a death.
// Moving bytes never takes that mutex.
//
// Lock order: the fabric's mutex first, then a station's mutex. Neither is held while an observer is called.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "transport/doorbell.h"
#include "transport/inproc/inproc.h"
#include "transport/inproc/stream.h"
#include "transport/transport.h"

namespace rondo {

// The state of one side of a link, which the other side reads. Its value only grows.
enum class SideState : std::uint8_t {
  kLive,
  kShutDown,  // this side writes no more bytes
  kRevoked,   // Lane::Revoke
  kGone,      // the endpoint was destroyed without having shut down
  kKilled,    // InprocNetwork::Kill
};

struct InprocStation;

// Makes an error that `rank` reports, with `culprit` as the rank at fault.
Error ErrorAbout(ErrorCode code, std::string message, Rank rank, Rank culprit);

// Both directions of one lane. Side 0 is the lower network rank; side s writes streams[s] and reads streams[1 - s].
struct InprocLink {
  explicit InprocLink(std::size_t ring_bytes) : streams{Stream(ring_bytes), Stream(ring_bytes)} {}

  // Raises a side's state and wakes the other side's owner.
  void Raise(int side, SideState to);

  Stream streams[2];
  std::atomic<SideState> sides[2]{};
  std::shared_ptr<InprocStation> stations[2];  // these pointers do not change after other ranks can find the link
};

// The station of one (network rank, communicator, rail). It receives messages from other stations, and has the doorbell
// that wakes its owner. It is made when any rank first looks it up, which may be before its endpoint exists. It lives
// as long as the fabric.
struct InprocStation {
  struct Event {
    Rank from = kNoRank;
    ControlMessage message;     // used if `loss` is empty
    std::optional<Error> loss;  // the control connection ended without a goodbye
    bool is_before = false;     // no connection was ever made
  };
  // A control connection.
  struct Peer {
    std::shared_ptr<InprocStation> station;
    bool goodbye_sent = false;
    bool lost = false;  // the loss is queued or was reported
  };
  static constexpr std::size_t kMaxEvents = 4096;

  // Makes the owner's next Poll look for work.
  void CallAttention() {
    attention.fetch_add(1, std::memory_order_seq_cst);
    bell.Ring();
  }
  // Queues the loss of `peer` once. `is_before`: no connection with `peer` was ever made. REQUIRES: the caller holds
  // the mutex, and calls CallAttention afterwards.
  void QueueLoss(Rank peer, const std::string& how, bool is_before = false);
  // Queues the message that a new peer has left behind, and then the end of its connection. REQUIRES: as for QueueLoss.
  void QueueLeftBehind(Rank peer, const ControlMessage& message);

  // Constant after construction.
  int network_rank = 0;

  Doorbell bell;
  std::atomic<std::uint64_t> attention{0};  // counts events and changed link states that Poll must process
  std::atomic<bool> wake{false};            // Endpoint::Wake was called since the latest Disarm
  std::atomic<bool> killed{false};

  std::mutex mutex;
  // Guarded by mutex.
  Rank rank = kNoRank;  // the rank in the communicator
  bool closed = false;  // the endpoint was destroyed
  bool shut_down = false;
  std::optional<ControlMessage> left_behind;  // the message for stations that connect later
  std::map<Rank, Peer> peers;
  std::deque<Event> events;

  // Guarded by the fabric's mutex.
  bool open = false;
  std::vector<std::pair<std::weak_ptr<InprocLink>, int>> links;  // each link, with this station's side of it
};

// Thread rule: any thread.
class InprocFabric {
 public:
  InprocFabric(int world_size, const InprocOptions& options);
  ~InprocFabric();

  std::string AddressOf(Rank network_rank) const;
  // kUnreachable: the address belongs to another network.
  Result<Rank> ParseAddress(const std::string& address) const;

  struct Seat {
    std::shared_ptr<InprocStation> station;
    std::uint32_t incarnation = 0;  // the number of this endpoint among all endpoints of its name on its rank
  };
  // kInvalidArgument: the rank already has an open endpoint with this communicator and rail. kResource: no descriptor
  // is left.
  Result<Seat> OpenStation(Rank network_rank, const EndpointConfig& config);
  // Ends the control connections. Each peer to which no goodbye was sent gets a loss.
  void CloseStation(const std::shared_ptr<InprocStation>& station);

  struct LaneName {
    Rank network_peer = 0;
    Rank peer = 0;
    std::uint32_t index = 0;
  };
  struct Attached {
    std::shared_ptr<InprocLink> link;
    int side = 0;
  };
  // Returns the link of a lane. The first of the two sides to call it makes the link, and the control connection with
  // the peer, for both sides.
  Result<Attached> Attach(const Seat& seat, const EndpointConfig& config, const LaneName& name);

  void Kill(Rank network_rank);

  const int world_size;
  const InprocOptions options;
  InprocTally tally;

 private:
  struct StationName {
    Rank network_rank;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    auto operator<=>(const StationName&) const = default;
  };
  struct LinkName {
    Rank low;
    Rank high;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    std::uint32_t index;
    auto operator<=>(const LinkName&) const = default;
  };
  // REQUIRES: the caller holds mutex_.
  const std::shared_ptr<InprocStation>& StationOf(const StationName& name, Rank rank);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<StationName, std::shared_ptr<InprocStation>> stations_;
  // The number of endpoints that were opened under each name. The keys have incarnation 0.
  std::map<StationName, std::uint32_t> incarnations_;
  std::map<LinkName, std::shared_ptr<InprocLink>> half_open_;  // links that wait for their second side
  std::vector<bool> killed_;
};

}  // namespace rondo
