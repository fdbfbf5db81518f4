// A transport between ranks of one process, which are threads or share one thread. It is the reference implementation
// of the contract in transport.h and lane.h: a few lines of plain C++ keep each promise. InprocOptions makes it use
// every freedom that the contract allows (short writes, late release, memory read in place, refused buffers ...). So
// code that uses lanes shows errors here, under sanitizers, that a network would show once a month. In the plain mode
// it is also the fastest transport, for benchmarks of the layers above.
//
//   InprocNetwork network(4);
//   auto transport = network.transport(2);   // give it to rank 2; transport->Address() names network and rank
//
// A lane is two bounded single-producer single-consumer rings. Lanes of one (communicator, rail) are connected by name,
// in any order in which the two ends open them; bytes that were written before wait in the ring. A name that was closed
// on all ranks can be used again: the k-th endpoint of a name on one rank is connected to the k-th on the others.
//
// The observer is called from inside the receiver's Endpoint::Poll, on the owner's thread; a sleeping owner is woken
// for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "transport/transport.h"

namespace rondo {

class InprocFabric;

// The modes combine freely. Random numbers depend on `seed`, the lane's name and the lane's own calls, never on the
// timing of threads.
struct InprocOptions {
  std::size_t ring_bytes = 256 * 1024;  // capacity of one direction of a lane: a multiple of kLineBytes, at least one
  std::uint32_t max_lanes = 4096;       // per endpoint; one more gives kResource
  std::uint64_t seed = 1;

  // True: released() lags behind. Only Poll advances it, in pieces of random length.
  bool late_release = false;
  // Not 0: per call, Write takes and Peek and ReadInto return only a random 1..slice_bytes more bytes.
  std::size_t slice_bytes = 0;
  // True: Write copies nothing, and released() follows the peer's consumed(). The receiver reads the sender's memory
  // during Peek or ReadInto, so that overwriting it too early shows as corruption. With `push` this applies only to
  // bytes without an advertised buffer.
  bool reluctant = false;
  // Capabilities::push: Write copies straight into memory that the receiver has advertised by Expect.
  bool push = false;
  // The probability that Expect returns false.
  double refuse_windows = 0;
  // Not 0: a new lane stays kConnecting for a random 1..slow_connect_polls of its owner's Polls.
  std::uint32_t slow_connect_polls = 0;
};

// Counts the effects of each mode, summed over all ranks. A test of a mode asserts that its effects happened.
struct InprocCounters {
  std::uint64_t writes = 0;           // calls of Write with at least one byte
  std::uint64_t pushed_bytes = 0;     // bytes written straight into an advertised buffer
  std::uint64_t lent_bytes = 0;       // bytes accepted without a copy, in the reluctant mode
  std::uint64_t windows_refused = 0;  // how often Expect returned false
};

// Thread rule: any thread. The transports keep the objects that they need, so the network may be destroyed before them.
class InprocNetwork {
 public:
  // REQUIRES: world_size >= 1 and valid options.
  explicit InprocNetwork(int world_size, const InprocOptions& options = {});
  ~InprocNetwork();
  InprocNetwork(const InprocNetwork&) = delete;
  InprocNetwork& operator=(const InprocNetwork&) = delete;

  int world_size() const;
  // Every call returns the same transport. REQUIRES: 0 <= rank < world_size().
  std::shared_ptr<Transport> transport(Rank rank) const;

  // Has the effects of the death of the rank's process: no byte that the rank writes from now on is sent, and no byte
  // reaches the rank. Its peers can still read the bytes accepted before; then their lanes fail and OnPeerLost is
  // called (kPeerLost, culprit: the rank). The rank's own lanes fail with kClosed, so that its code ends. A death
  // cannot be undone.
  void Kill(Rank rank);

  InprocCounters counters() const;

 private:
  std::shared_ptr<InprocFabric> fabric_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
