// A simulated network: N ranks in one thread on virtual time, with all random choices drawn from one seed. It keeps the
// contract of every transport, over links with random delays, short deliveries and clogs, and with ranks that die. A
// run can be replayed, because a seed gives the same trace on every machine. Compare trace_hash() to check this.
//
//   SimNetwork network({.world_size = 4, .seed = 7, .link = {.max_slice_bytes = 100, .clog_probability = 0.01}});
//   network.Kill(2, network.clock()->Now() + 3ms);
//   while (!done) {
//     for (Rank rank : network.RanksToPoll()) Advance(rank);   // polls the rank's endpoints, advances its engine
//     if (!network.Step()) break;                            // no event will ever happen again
//   }
//
// Each direction of a lane is a bounded buffer, like a pair of sockets. Write copies the bytes, and they arrive some
// virtual time later. Room becomes free when the receiver's acknowledgement arrives. Bytes of a lane keep their order,
// and so do the control messages between two ranks. All other events have no guaranteed order. Observers are called
// from inside Endpoint::Poll.
//
// Each kind of fault is a method: Kill, Partition, Cut, Corrupt, Pause. A fault is counted when it fires (SimCounters)
// and becomes part of the trace, so a test can prove that it happened. Heal() ends all faults, but dead ranks stay
// dead.
//
// Connections are made by name only, or with the handshake of transport/tcp (SimOptions::handshakes). With the
// handshake, the bytes of hellos and replies are sent over the links, and checked as a TCP listener checks them. So
// generations, restarted ranks and foreign clients can be simulated, too.
//
// Thread rule: one thread uses the network and all objects made from it, even if transport.h allows any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "transport/transport.h"

namespace rondo {

class SimCore;

// The properties of the link from one rank to another. Every delay is drawn uniformly from its range.
struct SimLink {
  Duration min_delay = std::chrono::microseconds(1);
  Duration max_delay = std::chrono::microseconds(50);
  Duration min_connect = std::chrono::microseconds(1);  // the time from Open until the lane is kOpen on both sides
  Duration max_connect = std::chrono::microseconds(200);
  std::uint64_t bytes_per_second = 0;  // shared by all lanes of the link; 0: no limit
  // Bytes arrive in pieces of a random 1..max_slice_bytes; 0: in the pieces that were written.
  std::size_t max_slice_bytes = 0;
  double clog_probability = 0;  // for each delivery: the probability that the link stops for a while
  Duration min_clog = std::chrono::microseconds(100);
  Duration max_clog = std::chrono::milliseconds(5);
};

// Deliberate violations of the contract. A test uses them to show that its checks detect such violations.
struct SimSabotage {
  bool ignores_losses = false;  // no rank is notified that a connection or a lane has ended
  bool releases_early = false;  // released() equals accepted(), although the source has not been read yet
};

struct SimOptions {
  int world_size = 0;  // at least 1; in this file "rank" is a rank of the network, not of a communicator
  std::uint64_t seed = 1;
  SimLink link;                          // the link of every ordered pair of ranks, until SetLink changes it
  std::size_t buffer_bytes = 64 * 1024;  // per direction of a lane: a positive multiple of kLineBytes
  bool late_release = false;  // released() follows the receiver's acknowledgement, as if bytes might be retransmitted
  // The bytes of a Write are read from the sender's memory only when they arrive, as a network card may do. released()
  // advances only after that read. So a rank that overwrites its memory too early sends the new bytes.
  bool reads_late = false;
  Duration min_loss_delay{};  // the time from a death until each peer is notified, in addition to the link's delay
  Duration max_loss_delay = std::chrono::milliseconds(1);
  std::uint32_t max_lanes = 4096;  // the largest number of lanes of an endpoint; beyond it, Open gives kResource
  // True: the observer is called from inside Step, as by a transport's own thread, whether or not the rank polls.
  // False: it is called from inside Endpoint::Poll.
  bool control_thread = false;
  // True: connections begin with hellos that the other side checks (SimProcess). False: they are made by name.
  bool handshakes = false;
  // If a pair of ranks cannot reach each other for this long, its connections end, as by TCP_USER_TIMEOUT and
  // keepalive. One blocked direction is enough, because a connection needs both.
  Duration silence_timeout = std::chrono::seconds(30);
  SimSabotage sabotage;
  std::shared_ptr<ManualClock> clock;  // Step advances it; null: the network makes its own clock
};

// The values that a process sends in its hellos, and checks in the hellos of others (transport/tcp/handshake.h).
struct SimProcess {
  std::string job;
  std::uint64_t generation = 0;
  std::string instance;  // different in every process, and in every generation
};

// One direction of one connection between two ranks.
struct SimStream {
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::optional<std::uint32_t> lane = 0;        // nullopt: the control connection
  std::optional<std::uint64_t> communicator{};  // nullopt: any communicator
};

// Called with the pieces of a stream as they arrive. Returns the bit to flip, counted from the first bit of the piece,
// or nullopt for none. After it has returned a bit, it is not called again.
using SimFlip = std::function<std::optional<std::uint64_t>(std::uint64_t stream_offset, Bytes piece)>;

// Counts what has happened so far. A test of a fault must check that the fault fired.
struct SimCounters {
  std::uint64_t events = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t slices = 0;  // deliveries of fewer bytes than were waiting
  std::uint64_t clogs = 0;
  std::uint64_t kills = 0;
  std::uint64_t losses = 0;       // calls of OnPeerLost
  std::uint64_t full_writes = 0;  // Write calls that took only a part because the buffer was full
  std::uint64_t held_back = 0;    // events that a partition held back
  std::uint64_t silences = 0;     // pairs of ranks whose connections ended by silence_timeout
  std::uint64_t cuts = 0;         // connections that were reset
  std::uint64_t flips = 0;        // bits that were flipped
  std::uint64_t pauses = 0;
  std::uint64_t hellos = 0;    // hellos that were checked
  std::uint64_t refusals = 0;  // hellos that were answered with "refused"
  std::uint64_t unknown = 0;   // connections whose first bytes were not a hello of this version
  auto operator<=>(const SimCounters&) const = default;
};

class SimNetwork {
 public:
  // REQUIRES: valid options.
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  int world_size() const;
  const std::shared_ptr<ManualClock>& clock() const;
  // Every call returns the same transport. Its process has no name. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> transport(Rank rank) const;
  // Makes the transport of a process that has started at this rank, or has begun a new generation. From now on only
  // this process accepts connections to the rank; earlier processes accept none. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> OpenTransport(Rank rank, SimProcess process);

  // Sets the properties of a link for everything that is sent from now on.
  void SetLink(Rank from, Rank to, const SimLink& link);

  // From `at` on no byte that the rank writes is sent, and no byte reaches the rank. Bytes that it has written before
  // still arrive. Then its peers' lanes fail and OnPeerLost is called (kPeerLost, culprit: the rank), at each peer
  // after a separate random delay. The dead rank itself notices nothing.
  void Kill(Rank rank, TimePoint at);
  // Kills the rank at the first event whose number is `event` or higher (SimCounters::events). So a test can place a
  // death at any step of any operation.
  void KillAtEvent(Rank rank, std::uint64_t event);
  bool killed(Rank rank) const;

  // From `at` until `until`, no bytes or messages get from a rank of `from` to a rank of `to`. They are held back and
  // arrive afterwards, in order, as if the sender had retransmitted them. A partition in both directions takes two
  // calls. If a partition lasts for SimOptions::silence_timeout, the connections of the pair end on both sides
  // (kPeerLost; each side names the other).
  void Partition(std::span<const Rank> from, std::span<const Rank> to, TimePoint at,
                 TimePoint until = TimePoint::max());

  // Resets the first connection that matches `stream` and on which byte `at_byte` of the stream would arrive. That byte
  // and all later bytes are lost in both directions. A lane fails at both ends (kConnectionReset), and no death is
  // reported. If a control connection is reset, each side loses the other (kPeerLost).
  void Cut(const SimStream& stream, std::uint64_t at_byte);

  // The two overloads of Corrupt flip one bit of a lane's stream on its way. They do not support control connections.
  void Corrupt(const SimStream& stream, SimFlip choose);
  void Corrupt(const SimStream& stream, std::uint64_t byte, int bit);

  // Stops the rank's process, as by SIGSTOP. RanksToPoll omits the rank, and the rank's control messages and clients
  // wait. The network continues to take bytes for the rank until buffers are full.
  void Pause(Rank rank, TimePoint at, TimePoint until = TimePoint::max());
  bool paused(Rank rank) const;

  // Connects to a rank's port and sends `bytes`, like a foreign client, a scanner or an outdated process. `answer` is
  // called with the reply if the listener sends one. REQUIRES: SimOptions::handshakes.
  void Call(Rank to, std::vector<std::byte> bytes, TimePoint at, std::function<void(Bytes)> answer = nullptr);

  // Ends partitions and pauses, and cancels all faults that have not fired.
  void Heal();

  // Makes the network call `notifier` with a text for every fault that fires.
  void TellFaults(std::function<void(TimePoint, std::string_view)> notifier);

  // Runs `action` at the time `when`, as an event of the queue.
  void At(TimePoint when, std::function<void()> action);

  // The time of the next event; nullopt: there is none.
  std::optional<TimePoint> NextEventTime() const;
  // Moves the clock to the next event and runs that event. False: there was no event.
  bool Step();

  // The living ranks that have an endpoint to which something has happened since its latest Poll, in order.
  std::vector<Rank> RanksToPoll() const;
  // The ranks to which anything has happened since the latest call, each once. A death and the end of a pause count as
  // well. A scheduler can call it after every step, because it costs nothing if nothing has happened.
  std::vector<Rank> TakeTouched();

  // A hash of all events so far: their times, kinds, ranks and bytes.
  std::uint64_t trace_hash() const;
  SimCounters counters() const;

 private:
  std::shared_ptr<SimCore> core_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
