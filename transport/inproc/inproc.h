// Ranks of one process: threads, or all driven by one thread. The reference implementation of the contract in
// transport.h and lane.h: every promise is kept by a few lines of plain C++, and InprocOptions makes it use every
// freedom that the contract leaves (short writes, late release, memory read in place, refused windows ...), so that
// whoever builds on lanes finds out here, under sanitizers, what a network would show once a month. In the plain mode
// it is also the fastest transport there is, for benchmarks of what stands above.
//
//   InprocNetwork network(4);
//   auto transport = network.transport(2);   // give it to rank 2; transport->Address() names network and rank
//
// A lane is two bounded single-producer single-consumer rings. Lanes of one (communicator, rail) find each other by
// name, in whatever order the two ends open them; bytes written before wait in the ring. A name that was closed on all
// ranks can be used again: the k-th endpoint of a name on one rank meets the k-th on the others.
//
// The observer is called from inside the receiver's Endpoint::Poll, on the owner's thread; a blocked owner is woken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "transport/transport.h"

namespace rondo {

class InprocFabric;

// The modes combine freely. Everything random is drawn from `seed`, the lane's name and the lane's own calls, never
// from the timing of threads.
struct InprocOptions {
  std::size_t ring_bytes = 256 * 1024;  // capacity of one direction of a lane: a multiple of kLineBytes, at least one
  std::uint32_t max_lanes = 4096;       // per endpoint; one more gives kResource
  std::uint64_t seed = 1;

  // released() lags behind: only Polls advance it, in pieces of random length.
  bool late_release = false;
  // When not 0: Write takes, and Peek and ReadInto reveal, a random 1..slice_bytes more bytes per call.
  std::size_t slice_bytes = 0;
  // Write lends the caller's memory itself, and released() follows the peer's consumed(): the receiver reads the
  // sender's memory when it looks, so that overwriting it too early is seen as corruption. With `push`, Write lends
  // only the bytes that no window covers.
  bool reluctant = false;
  // Capabilities::push: Write copies straight into memory that the receiver has granted by Expect.
  bool push = false;
  // Probability that Expect says no.
  double refuse_windows = 0;
  // When not 0: a new lane stays kConnecting for a random 1..slow_connect_polls of its owner's Polls.
  std::uint32_t slow_connect_polls = 0;
};

// What was done, and by which mode, summed over all ranks: a test of a mode asserts that it fired.
struct InprocCounters {
  std::uint64_t writes = 0;           // calls of Write that had something to write
  std::uint64_t pushed_bytes = 0;     // written straight into a window
  std::uint64_t lent_bytes = 0;       // accepted without a copy, in the reluctant mode
  std::uint64_t windows_refused = 0;  // Expect answered false
};

// Thread rule: any thread. The transports keep what they need alive; the network may be destroyed before them.
class InprocNetwork {
 public:
  // REQUIRES: world_size >= 1 and sound options.
  explicit InprocNetwork(int world_size, const InprocOptions& options = {});
  ~InprocNetwork();
  InprocNetwork(const InprocNetwork&) = delete;
  InprocNetwork& operator=(const InprocNetwork&) = delete;

  int world_size() const;
  // The same one at every call. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> transport(Rank rank) const;

  // What a killed process would show: nothing the rank writes from now on leaves it, and nothing reaches it; at its
  // peers the bytes accepted before can still be read, then their lanes fail and OnPeerLost is told (kPeerLost,
  // culprit: the rank). Its own lanes fail with kClosed, so that the code driving it comes to an end. For ever.
  void Kill(Rank rank);

  InprocCounters counters() const;

 private:
  std::shared_ptr<InprocFabric> fabric_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
