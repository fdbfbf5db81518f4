// What an algorithm asks of machines, counted off its transfers: numbers of messages and shares of a vector, for any
// size. The model is LogGP's (Alexandrov, Ionescu, Schauser, Scheiman, 1995) with one addition: ranks of one host share
// its cores.
//
// A *vector* is the largest buffer of a rank (layout.h): what "bytes" of a call counts.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/model/place.h"

namespace rondo {

// Work of one place: messages sent or received, vectors sent or received, vectors combined.
struct BusyWork {
  double messages = 0;
  double moved = 0;
  double reduced = 0;
};

struct ScheduleCost {
  // The longest chain of messages of which each carries what the one before brought; and how many of it cross from host
  // to host.
  int hops = 0;
  int remote_hops = 0;
  BusyWork rank;    // of the busiest rank
  BusyWork core;    // of a core of the busiest host, where its ranks share the work evenly
  double wire = 0;  // vectors that enter or leave the busiest host, whichever are more
};

// Counts with root 0, by running the generator for the whole world. Where that would take long, beyond kCountedRanks,
// it runs for two smaller worlds, and what grew from one to the other is taken to grow on in the same proportion.
inline constexpr int kCountedRanks = 256;
ScheduleCost CostOf(const AlgorithmEntry& entry, const Place& place);

// What a message and a byte cost on some machines. All >= 0.
struct MachineCosts {
  double hop_us = 0;            // a message from rank to rank of one host, each on a core of its own
  double crowded_hop_us = 0;    // the same where ranks outnumber cores
  double remote_hop_us = 0;     // from host to host
  double message_us = 0;        // of a core, to send or receive one
  double byte_ns = 0;           // of a core, to send or receive one
  double reduce_byte_ns = 0;    // of a core, to combine one
  double wire_gbit_per_s = 25;  // of a host's link, each way; > 0
  bool operator==(const MachineCosts&) const = default;
};

// How long a call on vectors of `bytes` takes: the chain's latency, and behind it the busiest of rank, core and link.
double PredictUs(const ScheduleCost& cost, bool crowded, const MachineCosts& machine, double bytes);

}  // namespace rondo
