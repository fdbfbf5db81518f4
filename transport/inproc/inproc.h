// A transport between ranks of one process. The ranks are threads, or share one thread. It is the reference
// implementation of the contract in transport.h and lane.h: a few lines of plain C++ keep each promise. InprocOptions
// can make it use every freedom that the contract allows (short writes, late release, memory read in place, refused
// buffers ...). So errors in code that uses lanes show here, under sanitizers. A network would show them once a month.
// With default options it is also the fastest transport, for benchmarks of the layers above.
//
//   InprocNetwork network(4);
//   auto transport = network.transport(2);   // give it to rank 2; transport->Address() names network and rank
//
// A lane is two bounded single-producer single-consumer rings. Lanes of one (communicator, rail) are connected by name.
// The two ends may open them in any order, and bytes that were written earlier wait in the ring. A name that was closed
// on all ranks can be used again: the k-th endpoint of a name on one rank is connected to the k-th on the others.
//
// The observer is called from inside the receiver's Endpoint::Poll, on the owner's thread. If the owner sleeps, it is
// woken first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "transport/transport.h"

namespace rondo {

class InprocFabric;

// All modes can be combined. Random numbers depend on `seed`, the lane's name and the lane's own calls. They never
// depend on the timing of threads.
struct InprocOptions {
  std::size_t ring_bytes = 256 * 1024;  // capacity of one direction of a lane: a positive multiple of kLineBytes
  std::uint32_t max_lanes = 4096;       // the largest number of lanes of an endpoint; beyond it, Open gives kResource
  std::uint64_t seed = 1;

  // True: released() lags behind accepted(). Only Poll advances it, in pieces of random length.
  bool late_release = false;
  // If not 0: each call chooses a random limit from 1 to slice_bytes. Write takes at most that many bytes. Peek and
  // ReadInto return at most that many new bytes.
  std::size_t slice_bytes = 0;
  // True: Write copies nothing, and released() follows the peer's consumed(). The receiver reads the sender's memory
  // during Peek or ReadInto, so memory that the sender overwrites too early shows as corruption. With `push` this
  // applies only to bytes without an advertised buffer.
  bool reluctant = false;
  // Capabilities::push: Write copies straight into memory that the receiver has advertised by Expect.
  bool push = false;
  // The probability that Expect returns false.
  double refuse_windows = 0;
  // If not 0: a new lane stays kConnecting for a random 1..slow_connect_polls of its owner's Polls.
  std::uint32_t slow_connect_polls = 0;
};

// Counts the effects of each mode, summed over all ranks. A test of a mode must check that its effects happened.
struct InprocCounters {
  std::uint64_t writes = 0;           // calls of Write with at least one byte
  std::uint64_t pushed_bytes = 0;     // bytes written straight into an advertised buffer
  std::uint64_t zero_copy_bytes = 0;  // bytes accepted without a copy, in the reluctant mode
  std::uint64_t windows_refused = 0;  // calls of Expect that returned false
};

// Thread rule: any thread. The network may be destroyed before its transports, because they keep the objects that they
// need.
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

  // Simulates the death of the rank's process. No byte that the rank writes from now on is sent, and no byte reaches
  // the rank. Its peers can still read the bytes that were accepted before. Then their lanes fail and OnPeerLost is
  // called (kPeerLost, culprit: the rank). The rank's own lanes fail with kClosed, so that its code ends. A death
  // cannot be undone.
  void Kill(Rank rank);

  InprocCounters counters() const;

 private:
  std::shared_ptr<InprocFabric> fabric_;
  std::vector<std::shared_ptr<Transport>> transports_;  // by rank
};

}  // namespace rondo
