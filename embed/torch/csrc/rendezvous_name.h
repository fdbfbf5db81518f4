// A unique name for one rendezvous of a group's ranks, on a store that may hold values of earlier rendezvous.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "making.h"
#include "rank_names.h"

namespace rondo_torch {

// Returns a name that is equal on all ranks and different from all earlier ones, for rondo_connect's `job`. Every rank
// must call this function. The name is necessary because torchrun gives restarted ranks the store of the ranks that
// died. Without it, ranks could not distinguish their keys from those of the dead ranks. If ranks are missing after
// `timeout`, throws an error that lists them by their `names`. Throws at once if making.Check() throws.
std::string UniqueRendezvousName(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
                                 const RankNames& names, const Making& making);

}  // namespace rondo_torch
