// A name for one meeting of a group's ranks, on a store that may hold what earlier ones left there.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "making.h"
#include "rank_names.h"

namespace rondo_torch {

// The same for all ranks and like no earlier one, for rondo_connect's `job`. Every rank calls it. torchrun gives the
// ranks that it starts again the store of those that died, and says nothing by which all of them could tell the two
// apart. Throws, after `timeout`, naming who is missing by `names`, and at once what `making` ends with.
std::string NameOfMeeting(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
                          const RankNames& names, const Making& making);

}  // namespace rondo_torch
