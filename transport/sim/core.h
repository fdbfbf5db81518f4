// The simulated network: a queue of events on virtual time, the buffers of lanes, and who is connected to whom.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"

namespace rondo {

// How one side of a lane stands, as the other side has heard. Only ever grows.
enum class SimEnd : std::uint8_t { kNone, kShutDown, kRevoked, kGone };

// The addressable side of an endpoint: one (network rank, communicator, rail). Exists from the moment that anything is
// sent to it.
struct SimStation {
  struct Event {
    Rank from = kNoRank;
    ControlMessage message;     // where there is no loss
    std::optional<Error> loss;  // that the control connection ended without a goodbye
  };
  struct Peer {
    std::shared_ptr<SimStation> station;
    bool goodbye_sent = false;
    bool lost = false;
    TimePoint last_arrival{};  // of what this station sent there: keeps control messages in order
  };

  Rank network_rank = 0;
  Rank rank = kNoRank;  // of the communicator
  bool open = false;    // an endpoint is there
  bool closed = false;  // it was, and is gone
  bool shut_down = false;
  bool needs_poll = false;  // something happened since the last Poll
  bool news = false;        // for Arm: a Wake, a message or a loss since the last Disarm
  std::map<Rank, Peer> peers;
  std::deque<Event> events;

  void Touch() { needs_poll = true; }
};

// One direction of a lane. The byte at stream offset o lies at position o % capacity of the ring all the time; events
// only move the offsets.
struct SimPipe {
  std::vector<std::byte> ring;
  std::shared_ptr<SimStation> sender;
  std::shared_ptr<SimStation> receiver;
  std::uint64_t accepted = 0;   // by the sender's lane
  std::uint64_t sent = 0;       // under way or arrived
  std::uint64_t delivered = 0;  // arrived
  std::uint64_t consumed = 0;   // by the receiver
  std::uint64_t acked = 0;      // consumed, as the sender has heard
  bool ack_under_way = false;
  TimePoint last_arrival{};
  SimEnd end = SimEnd::kNone;       // as the receiver has heard; after everything delivered
  SimEnd end_sent = SimEnd::kNone;  // as the sender has said

  // What the lanes' last answers did not tell; for Arm.
  bool arrival_news = false;
  bool room_news = false;
  bool release_news = false;
  bool short_write = false;  // the last write found the buffer full
};

struct SimCable {
  SimPipe pipes[2];  // pipe s is written by side s; side 0 is the lower network rank
};

class SimCore {
 public:
  explicit SimCore(const SimOptions& options);
  ~SimCore();

  const SimOptions& options() const { return options_; }
  const std::shared_ptr<ManualClock>& clock() const { return options_.clock; }

  // ---- the queue ----

  enum class Kind : std::uint8_t { kAction, kDeliver, kAck, kEnd, kConnect, kControl, kLoss, kKill, kOpen };
  // What an event is, for the trace.
  struct Item {
    Kind kind;
    Rank from;
    Rank to;
    std::uint64_t value;
  };
  void Schedule(TimePoint at, const Item& item, std::function<void()> action);
  std::optional<TimePoint> NextEventTime() const;
  bool Step();

  // ---- stations ----

  Result<Rank> ParseAddress(const std::string& address) const;
  struct Seat {
    std::shared_ptr<SimStation> station;
    std::uint32_t incarnation = 0;
  };
  Result<Seat> OpenStation(Rank network_rank, const EndpointConfig& config);
  void CloseStation(const std::shared_ptr<SimStation>& station);
  bool SendControl(SimStation& station, Rank peer, const ControlMessage& message);
  void Kill(Rank rank);
  bool killed(Rank rank) const { return killed_[rank]; }
  std::vector<Rank> RanksToPoll() const;

  // ---- lanes ----

  struct LaneName {
    Rank network_peer = 0;
    Rank peer = 0;
    std::uint32_t index = 0;
  };
  struct Attached {
    std::shared_ptr<SimCable> cable;
    int side = 0;
  };
  // Both sides get the same cable; a control connection is under way to the peer as well.
  Attached Attach(const Seat& seat, const EndpointConfig& config, const LaneName& name);
  TimePoint DrawConnectTime(Rank from, Rank to);
  // Sends what was accepted.
  void Send(const std::shared_ptr<SimCable>& cable, int side);
  // Tells the sender what was consumed.
  void Acknowledge(const std::shared_ptr<SimCable>& cable, int side);
  // Tells the receiver, after what was sent, that nothing more will come.
  void End(const std::shared_ptr<SimCable>& cable, int side, SimEnd how);

  void SetLink(Rank from, Rank to, const SimLink& link) { links_[from * options_.world_size + to] = link; }

  SimCounters counters;
  std::uint64_t trace_hash() const { return trace_hash_; }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t tie;     // random: events of one instant have no order of their own
    std::uint64_t number;  // of scheduling: makes the order total
    Item item;
    std::function<void()> action;
  };
  static bool Later(const Event& a, const Event& b);

  struct StationName {
    Rank network_rank;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    auto operator<=>(const StationName&) const = default;
  };
  struct CableName {
    Rank low;
    Rank high;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    std::uint32_t index;
    auto operator<=>(const CableName&) const = default;
  };
  const std::shared_ptr<SimStation>& StationOf(const StationName& name, Rank rank);
  const SimLink& link(Rank from, Rank to) const { return links_[from * options_.world_size + to]; }
  Duration Draw(Duration low, Duration high);
  // The arrival of `bytes` that leave now, clogs and bandwidth included.
  TimePoint DrawArrival(Rank from, Rank to, std::uint64_t bytes);
  void SendLoss(const std::shared_ptr<SimStation>& dead, SimStation::Peer& peer, const std::string& how);
  void QueueLoss(SimStation& station, Rank peer, const std::string& how);

  SimOptions options_;
  Random random_;
  std::vector<Event> queue_;  // a heap
  std::uint64_t scheduled_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::vector<SimLink> links_;        // [from * world_size + to]
  std::vector<TimePoint> link_free_;  // when the link has sent what it was given, likewise
  std::vector<bool> killed_;
  std::map<StationName, std::shared_ptr<SimStation>> stations_;
  std::map<StationName, std::uint32_t> incarnations_;
  std::map<CableName, std::shared_ptr<SimCable>> half_open_;  // waiting for the second side
  std::map<const SimStation*, std::vector<std::pair<std::weak_ptr<SimCable>, int>>>
      cables_;  // by station; looked up only
};

}  // namespace rondo
