// The simulated network: a queue of events on virtual time, the buffers of lanes, and the connections between ranks.
// core.cc has the queue and the lanes. control.cc makes connections and carries control messages. faults.cc has the
// faults.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "transport/sim/sim.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshake_sides.h"
#include "transport/transport.h"

namespace rondo {

// The state of one side of a lane, as the other side sees it. The value only grows.
enum class SimEnd : std::uint8_t { kNone, kShutDown, kRevoked, kCut, kGone };

// A list of the ranks to which something has happened. It has each rank at most once.
class SimTouched {
 public:
  explicit SimTouched(int world_size) : listed_(static_cast<std::size_t>(world_size)) {}
  void Add(Rank rank) {
    if (listed_[static_cast<std::size_t>(rank)]) return;
    listed_[static_cast<std::size_t>(rank)] = true;
    ranks_.push_back(rank);
  }
  std::vector<Rank> Take() {
    for (const Rank rank : ranks_) listed_[static_cast<std::size_t>(rank)] = false;
    return std::exchange(ranks_, {});
  }

 private:
  std::vector<bool> listed_;
  std::vector<Rank> ranks_;
};

// The network's part of an endpoint, for one (network rank, communicator, rail). A message may be sent before the
// endpoint opens, so the station is made when it is first needed.
struct SimStation {
  struct Event {
    Rank from = kNoRank;
    ControlMessage message;     // used if `loss` is empty
    std::optional<Error> loss;  // the control connection ended without a goodbye
  };
  struct Peer {
    std::shared_ptr<SimStation> station;
    bool goodbye_sent = false;
    bool lost = false;
    TimePoint last_arrival{};  // when the latest message from this station arrives at the peer; keeps messages in order
    std::uint64_t arrived = 0;  // the number of bytes that have arrived from the peer
    bool stands = true;         // with handshakes: a hello was accepted, and this side has the reply
    // With handshakes: this side's hello was accepted, but the reply may not have arrived yet.
    bool accepted_there = false;
    bool is_known_there() const { return stands || accepted_there; }
    std::vector<std::function<void()>> once_it_stands;  // actions that wait for `stands`, in order
  };

  SimTouched* touched = nullptr;
  Rank network_rank = 0;
  Rank rank = kNoRank;  // the rank in the communicator
  std::uint64_t communicator = 0;
  PeerObserver* observer = nullptr;  // set while the endpoint is open
  // Indexed by rank: the instance of each process of the group; set when the endpoint opens.
  std::vector<std::string> instances;
  std::vector<std::function<void()>> held;  // clients that wait until the endpoint opens
  bool open = false;                        // the endpoint exists
  bool closed = false;                      // the endpoint was destroyed
  bool shut_down = false;
  std::optional<ControlMessage> left_behind;  // the message for stations that connect later
  bool needs_poll = false;                    // something has happened since the latest Poll
  bool news = false;                          // for Arm: there was a Wake, a message or a loss since the latest Disarm
  std::map<Rank, Peer> peers;
  std::deque<Event> events;

  void Touch() {
    needs_poll = true;
    touched->Add(network_rank);
  }
};

// One direction of a lane. The byte at stream offset o is stored at ring position o % capacity when it is written.
// Later events only move the offsets.
struct SimPipe {
  // Bytes that were written but not yet read from the sender's memory (SimOptions::reads_late), in order.
  struct Source {
    std::uint64_t offset;
    Bytes bytes;
  };

  std::vector<std::byte> ring;
  std::deque<Source> sources;
  std::shared_ptr<SimStation> sender;
  std::shared_ptr<SimStation> receiver;
  std::uint64_t accepted = 0;   // the sender's lane has accepted the bytes before this offset
  std::uint64_t sent = 0;       // the bytes before this offset are on their way or have arrived
  std::uint64_t delivered = 0;  // the bytes before this offset have arrived
  std::uint64_t consumed = 0;   // the receiver has consumed the bytes before this offset
  std::uint64_t acked = 0;      // the largest `consumed` that the sender has received
  bool ack_under_way = false;
  TimePoint last_arrival{};
  SimEnd end = SimEnd::kNone;       // how the stream has ended for the receiver, after all delivered bytes
  SimEnd end_sent = SimEnd::kNone;  // how the sender has ended the stream

  // For Arm: events that the owner has not seen yet.
  bool arrival_news = false;
  bool room_news = false;
  bool release_news = false;
  bool short_write = false;  // the latest write found the buffer full
};

struct SimCable {
  SimPipe pipes[2];  // side s writes pipe s; side 0 is the lower network rank
  std::uint64_t communicator = 0;
  std::uint32_t index = 0;
  bool connected[2] = {false, false};  // by side
  bool accepted = false;               // with handshakes: the lane's hello was accepted
  bool broken = false;                 // no more bytes arrive
};

class SimCore {
 public:
  explicit SimCore(const SimOptions& options);
  ~SimCore();

  const SimOptions& options() const { return options_; }
  const std::shared_ptr<ManualClock>& clock() const { return options_.clock; }

  // ---- the queue ----

  enum class Kind : std::uint8_t {
    kAction,
    kDeliver,
    kAck,
    kEnd,
    kConnect,
    kControl,
    kLoss,
    kKill,
    kOpen,
    kReply,
    kTimer,
    kFault,
  };
  // Describes an event, for the trace.
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

  // A process that uses a rank. Every rank has the process 0, which has no name.
  struct Place {
    Rank network_rank = kNoRank;
    std::uint32_t process = 0;
    auto operator<=>(const Place&) const = default;
  };
  Place StartProcess(Rank network_rank, SimProcess process);
  std::string AddressOf(Place place) const;
  Result<Place> ParseAddress(const std::string& address) const;
  struct Seat {
    Place place;
    std::shared_ptr<SimStation> station;
    std::uint32_t incarnation = 0;
  };
  Result<Seat> OpenStation(Place place, const EndpointConfig& config, const std::vector<Place>& group);
  void CloseStation(const std::shared_ptr<SimStation>& station);
  bool SendControl(const std::shared_ptr<SimStation>& station, Rank peer, const ControlMessage& message);
  // Sends station->left_behind, if it is set, to a new peer of the station. The station may be closed.
  void SendLeftBehind(const std::shared_ptr<SimStation>& station, Rank peer);
  // Passes the station's events to the observer.
  void TellObserver(SimStation& station);
  std::vector<Rank> RanksToPoll() const;
  std::vector<Rank> TakeTouched() { return touched_.Take(); }

  // ---- faults ----

  void Kill(Rank rank);
  void KillAtEvent(Rank rank, std::uint64_t event) { kills_at_event_.emplace(event, rank); }
  bool killed(Rank rank) const { return killed_[rank]; }
  void Partition(std::vector<std::pair<Rank, Rank>> links, TimePoint at, TimePoint until);
  void AddStreamFault(const SimStream& stream, std::optional<std::uint64_t> cut_at, SimFlip flip);
  void Pause(Rank rank, TimePoint at, TimePoint until);
  bool paused(Rank rank) const { return pauses_[rank] > 0; }
  void Call(Rank to, std::vector<std::byte> bytes, TimePoint at, std::function<void(Bytes)> answer);
  void Heal();
  // Runs the action at the time `at`, unless Heal is called before.
  void ScheduleFault(TimePoint at, const Item& item, std::function<void()> action);
  std::function<void(TimePoint, std::string_view)> notifier;

  // ---- lanes ----

  struct LaneName {
    Place place;  // the peer's place
    Rank peer = 0;
    std::uint32_t index = 0;
  };
  struct Attached {
    std::shared_ptr<SimCable> cable;
    int side = 0;
  };
  // Returns the cable of a lane, which is the same for both sides. Begins a control connection to the peer if there is
  // none. SimCable::connected becomes true later.
  Attached Attach(const Seat& seat, const EndpointConfig& config, const LaneName& name);
  // Sends accepted bytes.
  void Send(const std::shared_ptr<SimCable>& cable, int side);
  // Sends the receiver's consumed offset to the sender.
  void Acknowledge(const std::shared_ptr<SimCable>& cable, int side);
  // Sends the end of the stream to the receiver, after all sent bytes.
  void End(const std::shared_ptr<SimCable>& cable, int side, SimEnd how);
  // Reads the sender's memory up to a stream offset. After that the sender may overwrite this memory.
  static void ReadSources(SimPipe& pipe, std::uint64_t until);

  void SetLink(Rank from, Rank to, const SimLink& link) { links_[from * options_.world_size + to] = link; }

  SimCounters counters;
  std::uint64_t trace_hash() const { return trace_hash_; }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t tie;     // random: orders events of the same time
    std::uint64_t number;  // counts all scheduled events; makes the order total
    Item item;
    std::function<void()> action;
  };
  static bool IsLater(const Event& a, const Event& b);

  struct StationName {
    Place place;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    auto operator<=>(const StationName&) const = default;
  };
  struct CableName {
    Place low;
    Place high;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::uint32_t incarnation;
    std::uint32_t index;
    auto operator<=>(const CableName&) const = default;
  };
  const std::shared_ptr<SimStation>& StationOf(const StationName& name, Rank rank);
  const SimLink& link(Rank from, Rank to) const { return links_[from * options_.world_size + to]; }
  bool IsNetworks(Kind kind) const;
  std::size_t LinkOf(const Item& item) const {
    return static_cast<std::size_t>(item.from) * static_cast<std::size_t>(options_.world_size) +
           static_cast<std::size_t>(item.to);
  }
  void Push(Event event);
  Event Pop();
  void Note(const Item& item);  // adds the event to the trace

  // Connections (control.cc).
  void BeginControl(const Seat& seat, const EndpointConfig& config, const LaneName& name,
                    const std::shared_ptr<SimStation>& peer);
  void BeginLane(const Seat& seat, const EndpointConfig& config, const LaneName& name, const Attached& attached);
  TimePoint DrawConnectTime(Rank from, Rank to);
  tcp::Hello HelloTo(const Seat& seat, const EndpointConfig& config, const LaneName& name) const;
  // One connection to a listener. `accepted` runs on the listener's side when the hello is accepted; its argument is
  // the time at which the reply arrives. `answered` runs on the client's side. Its argument is the reply, or nullopt if
  // the listener has ended or has dropped the client.
  struct ConnectAttempt {
    Rank from = kNoRank;
    Rank to = kNoRank;
    std::vector<std::byte> hello;
    std::function<bool()> given_up;  // true: the client has stopped waiting, so its hello is ignored
    std::function<void(SimStation&, TimePoint)> accepted;
    std::function<void(const std::optional<tcp::Reply>&)> answered;
  };
  void Dial(ConnectAttempt attempt);
  bool HasLeft(const ConnectAttempt& attempt) const;  // true: the client has died, or has stopped waiting
  void StartHandshake(const std::shared_ptr<ConnectAttempt>& attempt);
  void Judge(const std::shared_ptr<ConnectAttempt>& attempt, const std::shared_ptr<SimStation>& station,
             const tcp::Hello& hello);
  // Schedules the arrival of a message at a peer of `station`.
  void Carry(const std::shared_ptr<SimStation>& station, Rank peer, const ControlMessage& message);
  TimePoint Answer(const std::shared_ptr<ConnectAttempt>& attempt, const tcp::Reply& reply);
  void Stand(SimStation::Peer& peer);
  void SendLoss(const std::shared_ptr<SimStation>& dead, SimStation::Peer& peer, const std::string& how);
  void LoseControl(SimStation& station, Rank peer, ErrorCode code, const std::string& message);
  void QueueLoss(SimStation& station, Rank peer, const std::string& how);
  // Runs `action` at once, or, if the rank is paused, when the pause ends or the rank is killed. `action` must check
  // whether the rank was killed.
  void WhenItRuns(Rank rank, std::function<void()> action);

  // Faults (faults.cc).
  struct StreamFault {
    SimStream stream;
    std::optional<std::uint64_t> cut_at;
    SimFlip flip;
  };
  // Applies the faults at these bytes of the stream. True: a fault has cut the stream.
  bool MeetFaults(const std::shared_ptr<SimCable>& cable, int side, std::uint64_t bytes);
  bool MeetFaults(SimStation& from, SimStation& to, std::uint64_t at, std::uint64_t bytes);
  void Break(SimCable& cable);
  void BreakControl(SimStation& one, SimStation& other, const std::string& how);
  void Block(Rank from, Rank to);
  void Unblock(Rank from, Rank to);
  void FallSilent(Rank one, Rank other);
  void Resume(Rank rank);
  void Tell(const std::string& fault) const;

  Duration Draw(Duration low, Duration high);
  // Returns the arrival time of `bytes` that are sent now. It takes account of clogs and bandwidth.
  TimePoint DrawArrival(Rank from, Rank to, std::uint64_t bytes);

  SimOptions options_;
  Random random_;
  std::vector<Event> queue_;  // a heap
  std::uint64_t scheduled_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::vector<SimLink> links_;        // [from * world_size + to]
  std::vector<TimePoint> link_free_;  // indexed by link: the time by which the link has sent all its bytes
  std::vector<bool> killed_;
  std::multimap<std::uint64_t, Rank> kills_at_event_;
  std::vector<int> pauses_;  // indexed by rank: the number of pauses in effect
  // Indexed by rank: the actions that wait for the end of the rank's pause.
  std::vector<std::vector<std::function<void()>>> wait_to_run_;
  std::vector<int> blocks_;                    // indexed by link: the number of partitions in effect
  std::vector<std::uint64_t> block_numbers_;   // indexed by link: how often the link became blocked
  std::vector<std::vector<Event>> held_back_;  // indexed by link: the events that partitions delay, in order
  std::vector<StreamFault> stream_faults_;
  std::uint64_t healings_ = 0;
  SimTouched touched_;
  std::vector<SimProcess> processes_{SimProcess{}};  // by number
  std::vector<std::uint32_t> listening_;  // indexed by rank: the number of the process that accepts connections
  std::map<StationName, std::shared_ptr<SimStation>> stations_;
  std::map<StationName, std::uint32_t> incarnations_;
  std::map<CableName, std::shared_ptr<SimCable>> half_open_;  // cables that wait for their second side
  std::map<const SimStation*, std::vector<std::pair<std::weak_ptr<SimCable>, int>>>
      cables_;  // by station; never iterated
};

}  // namespace rondo
