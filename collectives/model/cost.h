// The resources that an algorithm uses, counted from its transfers: numbers of messages, and multiples of a vector for
// any size. The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman, 1995) with one addition: ranks of one host
// share its cores.
//
// A *vector* is the largest buffer of a rank (layout.h). A call's "bytes" is its size.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/model/place.h"

namespace rondo {

// Work of one rank or core: number of messages sent or received, of vectors sent or received, and of vectors combined.
struct BusyWork {
  double messages = 0;
  double moved = 0;
  double reduced = 0;
};

struct ScheduleCost {
  // Length of the longest chain of messages in which each depends on the one before; and how many of them cross between
  // hosts.
  int hops = 0;
  int remote_hops = 0;
  BusyWork rank;    // work of the busiest rank
  BusyWork core;    // work of one core of the busiest host, if its ranks share the work evenly
  double wire = 0;  // vectors that enter or leave the busiest host, whichever is more
};

// Counts with root 0, by running the generator for the whole world. For more than kCountedRanks ranks, it counts two
// smaller worlds and extrapolates their growth in proportion.
inline constexpr int kCountedRanks = 256;
ScheduleCost CostOf(const AlgorithmEntry& entry, const Place& place);

// Costs of a message and a byte on certain machines. All >= 0.
struct MachineCosts {
  double hop_us = 0;            // latency of a message within a host if each rank has a core
  double crowded_hop_us = 0;    // the same if ranks outnumber cores
  double remote_hop_us = 0;     // latency of a message between hosts
  double message_us = 0;        // time of a core to send or receive a message
  double byte_ns = 0;           // time of a core to send or receive a byte
  double reduce_byte_ns = 0;    // time of a core to combine a byte
  double wire_gbit_per_s = 25;  // bandwidth of a host's link, each way; > 0
  bool operator==(const MachineCosts&) const = default;
};

// Predicted duration of a call on vectors of `bytes`: latency of the longest chain, plus the time of the busiest rank,
// core or link.
double PredictUs(const ScheduleCost& cost, bool crowded, const MachineCosts& machine, double bytes);

}  // namespace rondo
