// N ranks as threads. Each calls Connect, as a process of a job does.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/connect.h"
#include "tests/support/threads.h"

namespace rondo {

using Connected = Result<std::unique_ptr<Communicator>>;

// Connects all ranks at once; rank r uses the options each[r]. This function sets the rank and the world size.
inline std::vector<Connected> ConnectEach(std::vector<ConnectOptions> each) {
  std::vector<std::optional<Connected>> results(each.size());
  OnThreads(each.size(), [&](std::size_t rank) {
    ConnectOptions& options = each[rank];
    options.rank = static_cast<Rank>(rank);
    options.world_size = static_cast<int>(each.size());
    results[rank].emplace(Connect(options));
  });
  std::vector<Connected> connected;
  for (auto& result : results) connected.push_back(*std::move(result));
  return connected;
}

}  // namespace rondo
