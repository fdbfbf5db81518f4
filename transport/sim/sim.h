// N ranks in one thread on virtual time, from one seed: the contract of every transport, on a network whose delays,
// short deliveries, clogs and deaths are random and can be replayed. One seed gives one trace on every machine, which
// trace_hash() proves.
//
//   SimNetwork network({.world_size = 4, .seed = 7, .link = {.max_slice_bytes = 100, .clog_probability = 0.01}});
//   network.Kill(2, network.clock()->Now() + 3ms);
//   while (!done) {
//     for (Rank rank : network.RanksToPoll()) Drive(rank);   // polls its endpoints, moves its engine
//     if (!network.Step()) break;                            // nothing will ever happen any more
//   }
//
// A direction of a lane is a bounded buffer, as two sockets are: Write copies, the bytes arrive some virtual time
// later, room comes back when the receiver's acknowledgement does. Bytes of a lane keep their order, as do the control
// messages of a pair; nothing else has an order. Observers are called from inside Endpoint::Poll.
//
// Faults are methods beside Kill: partitions, resets at a byte, flipped bits, stopped processes. Each is counted when
// it fires (SimCounters) and becomes part of the trace, so a test can prove that its fault happened. Heal() ends all of
// them, but dead ranks stay dead.
//
// Connections are made by name alone, or (SimOptions::handshakes) by the hellos and replies of transport/tcp, byte for
// byte over the links and checked as a TCP listener does. Then generations, restarted ranks and foreign clients are
// simulated, too.
//
// Thread rule: one thread for the network and all objects made from it, even where transport.h allows any thread.
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

// How bytes get from one rank to another. Every delay is drawn uniformly from its range.
struct SimLink {
  Duration min_delay = std::chrono::microseconds(1);
  Duration max_delay = std::chrono::microseconds(50);
  Duration min_connect = std::chrono::microseconds(1);  // from Open to kOpen, and until the peer knows of it
  Duration max_connect = std::chrono::microseconds(200);
  std::uint64_t bytes_per_second = 0;  // shared by all lanes of the link; 0: without limit
  std::size_t max_slice_bytes = 0;     // bytes arrive in pieces of a random 1..max_slice_bytes; 0: as they were written
  double clog_probability = 0;         // of each delivery: the link stops for a while
  Duration min_clog = std::chrono::microseconds(100);
  Duration max_clog = std::chrono::milliseconds(5);
};

// Mistakes on purpose, so that a test can show that they would be noticed.
struct SimSabotage {
  bool ignores_losses = false;  // no rank learns that a connection or a lane has ended
  bool releases_early = false;  // released() equals accepted(), though the source is still to be read
};

struct SimOptions {
  int world_size = 0;  // at least 1; here "rank" is a place on this network, wherever a communicator counts it
  std::uint64_t seed = 1;
  SimLink link;                          // of every ordered pair, until SetLink
  std::size_t buffer_bytes = 64 * 1024;  // per direction of a lane: a multiple of kLineBytes, at least one
  bool late_release = false;             // released() follows the receiver's acknowledgement, as with retransmission
  // The source of a Write is read when its bytes arrive, as a network card may do; released() follows that. A rank that
  // overwrites memory too early sends the new bytes.
  bool reads_late = false;
  Duration min_loss_delay{};  // from a death until each peer knows of it, on top of the link's delay
  Duration max_loss_delay = std::chrono::milliseconds(1);
  std::uint32_t max_lanes = 4096;  // per endpoint; one more gives kResource
  // The observer is called from inside Step, as by a transport's own thread, whether or not the rank polls. Otherwise
  // it is called from inside Endpoint::Poll.
  bool control_thread = false;
  // Connections begin with hellos that the other side checks (SimProcess). Otherwise they are made by name.
  bool handshakes = false;
  // A pair of ranks that cannot reach each other for this long loses its connections, as by TCP_USER_TIMEOUT and
  // keepalive. A connection needs both directions.
  Duration silence_timeout = std::chrono::seconds(30);
  SimSabotage sabotage;
  std::shared_ptr<ManualClock> clock;  // moved by Step; null: a clock of its own
};

// What a process sends in its hellos, and checks in those of others (transport/tcp/handshake.h).
struct SimProcess {
  std::string job;
  std::uint64_t generation = 0;
  std::string instance;  // new in every process, and in every generation
};

// One direction of one connection between two ranks.
struct SimStream {
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::optional<std::uint32_t> lane = 0;        // nullopt: the control connection
  std::optional<std::uint64_t> communicator{};  // nullopt: any
};

// Called with the pieces of a stream as they arrive. Returns the bit to flip, counted from the piece's first, or none.
// After it has chosen one it is not called again.
using SimFlip = std::function<std::optional<std::uint64_t>(std::uint64_t stream_offset, Bytes piece)>;

// Counts what has happened so far. A test of a fault asserts that it fired.
struct SimCounters {
  std::uint64_t events = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t slices = 0;  // deliveries shorter than what was waiting
  std::uint64_t clogs = 0;
  std::uint64_t kills = 0;
  std::uint64_t losses = 0;       // OnPeerLost calls made
  std::uint64_t full_writes = 0;  // calls that took less than offered because the buffer was full
  std::uint64_t held_back = 0;    // events that a partition held back
  std::uint64_t silences = 0;     // pairs of ranks whose connections ended by silence_timeout
  std::uint64_t cuts = 0;         // connections reset
  std::uint64_t flips = 0;        // bits flipped
  std::uint64_t pauses = 0;
  std::uint64_t hellos = 0;    // hellos that were checked
  std::uint64_t refusals = 0;  // hellos that were answered with "refused"
  std::uint64_t unknown = 0;   // connections whose first bytes were no hello of this version
  auto operator<=>(const SimCounters&) const = default;
};

class SimNetwork {
 public:
  // REQUIRES: sound options.
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  int world_size() const;
  const std::shared_ptr<ManualClock>& clock() const;
  // Every call returns the same one, of a process without a name. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> transport(Rank rank) const;
  // The transport of a process that has started, or begun a new generation, at this rank. From now on it accepts the
  // connections to this rank, and no earlier process does. REQUIRES: as above.
  std::shared_ptr<Transport> OpenTransport(Rank rank, SimProcess process);

  // Holds for all that is sent from now on.
  void SetLink(Rank from, Rank to, const SimLink& link);

  // From `at` on no byte that the rank writes leaves it, and none reaches it. Bytes that it had written still arrive;
  // then its peers' lanes fail and OnPeerLost is called (kPeerLost, culprit: the rank), at each peer after a delay of
  // its own. The dead rank itself notices nothing.
  void Kill(Rank rank, TimePoint at);
  // The same at the first event from number `event` on (SimCounters::events). So a death can hit any step of any
  // operation.
  void KillAtEvent(Rank rank, std::uint64_t event);
  bool killed(Rank rank) const;

  // From `at` until `until` nothing gets from a rank of `from` to one of `to`: it is held back and arrives afterwards,
  // in order, as if it was sent again and again. A partition both ways takes two calls. One that lasts for
  // SimOptions::silence_timeout ends the connections of the pair, on both sides (kPeerLost, each names the other).
  void Partition(std::span<const Rank> from, std::span<const Rank> to, TimePoint at,
                 TimePoint until = TimePoint::max());

  // Resets the first connection of that name of which byte `at_byte` of this direction would arrive: that byte and all
  // later ones are lost in both directions. A lane fails at both ends (kConnectionReset), and no death is reported. Of
  // a control connection each side loses the other (kPeerLost).
  void Cut(const SimStream& stream, std::uint64_t at_byte);

  // Flips one bit on the way. For lanes only.
  void Corrupt(const SimStream& stream, SimFlip choose);
  void Corrupt(const SimStream& stream, std::uint64_t byte, int bit);

  // The process stops, as by SIGSTOP: RanksToPoll leaves it out, its control messages and clients wait. Its side of the
  // network goes on taking bytes until buffers are full.
  void Pause(Rank rank, TimePoint at, TimePoint until = TimePoint::max());
  bool paused(Rank rank) const;

  // Connects to a rank's port and sends `bytes`, like a foreign client, a scanner or an old hello. `answer` gets the
  // reply that comes back, if the listener sends one. REQUIRES: handshakes.
  void Call(Rank to, std::vector<std::byte> bytes, TimePoint at, std::function<void(Bytes)> answer = nullptr);

  // Ends partitions and pauses, and forgets all faults that have not fired.
  void Heal();

  // Calls `teller` with a text for every fault that fires.
  void TellFaults(std::function<void(TimePoint, std::string_view)> teller);

  // Runs any action at a time, from the same queue.
  void At(TimePoint when, std::function<void()> action);

  // The time of the next event; nullopt: there is none.
  std::optional<TimePoint> NextEventTime() const;
  // Moves the clock to the next event and runs it. False: there was none.
  bool Step();

  // The living ranks with an endpoint to which something happened since its last Poll, in order.
  std::vector<Rank> RanksToPoll() const;
  // The ranks to which anything happened since the last call, once each; also death, and the end of a pause. A
  // scheduler calls it after every step, for it costs nothing if nothing happened.
  std::vector<Rank> TakeTouched();

  // A hash of all events so far: their times, kinds, ranks and bytes.
  std::uint64_t trace_hash() const;
  SimCounters counters() const;

 private:
  std::shared_ptr<SimCore> core_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
