// A unique name for one rendezvous of a group's ranks, on a store that may hold values of earlier ones.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "making.h"
#include "rank_names.h"

namespace rondo_torch {

// Returns a name that is equal on all ranks and different from all earlier ones, for rondo_connect's `job`. Every rank
// must call it. It is necessary because torchrun gives restarted ranks the store of the ranks that died, and nothing
// else lets the ranks tell the two apart. Throws after `timeout`, naming the missing ranks by `names`. Throws at once
// if making.Check() throws.
std::string NameOfMeeting(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
                          const RankNames& names, const Making& making);

}  // namespace rondo_torch
