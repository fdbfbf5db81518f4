// The resources that an algorithm uses, counted from its transfers: numbers of messages, and amounts of data as
// multiples of the vector, which hold for any size. The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman, 1995)
// with one addition: ranks of one host share its cores.
//
// A *vector* is the largest buffer of a rank (layout.h). The "bytes" of a call are the size of its vector.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/model/topology.h"

namespace rondo {

// Work of one rank or core: number of messages sent or received, of vectors sent or received, and of vectors combined.
struct BusyWork {
  double messages = 0;
  double moved = 0;
  double reduced = 0;
};

struct ScheduleCost {
  // Length of the longest chain of messages in which each depends on the one before; and how many messages of that
  // chain cross between hosts.
  int hops = 0;
  int remote_hops = 0;
  BusyWork rank;    // work of the busiest rank
  BusyWork core;    // work of one core of the busiest host, if the cores in use share the work evenly
  double wire = 0;  // vectors that enter the busiest host or leave it, whichever is more
};

// Runs the generator for the whole world, with root 0, and counts its transfers. For more than kCountedRanks ranks,
// counts the transfers in two smaller worlds instead and extrapolates. It assumes that each doubling of the world
// multiplies a count by the same factor.
inline constexpr int kCountedRanks = 256;
ScheduleCost CostOf(const AlgorithmEntry& entry, const Topology& topology);

// The costs of a message and of a byte on the machines of a job. All >= 0.
struct MachineCosts {
  double hop_us = 0;                     // latency of a message within a host if each rank has a core
  double oversubscribed_latency_us = 0;  // latency of a message within a host if ranks outnumber cores
  double remote_hop_us = 0;              // latency of a message between hosts
  double message_us = 0;                 // time that a core takes to send or receive a message
  double byte_ns = 0;                    // time that a core takes to send or receive a byte
  double reduce_byte_ns = 0;             // time that a core takes to combine a byte
  double wire_gbit_per_s = 25;           // bandwidth of a host's link in each direction; > 0
  bool operator==(const MachineCosts&) const = default;
};

// Predicted duration of a call on vectors of `bytes`: latency of the longest chain, plus the time of the busiest rank,
// core or link.
double PredictUs(const ScheduleCost& cost, bool oversubscribed, const MachineCosts& machine, double bytes);

}  // namespace rondo
