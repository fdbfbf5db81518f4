// Goodbyes that outlive the processes of their ranks. A communicator that closes while some peers were never connected
// to it keeps its goodbye here. A rank that later finds no process at a peer's addresses asks here whether the peer has
// left, before it reports the peer as lost. Like a rebuilder, this is handed in: a communicator knows no stores.
//
// Thread rule: any thread. Every call ends within kKeptGoodbyeLimit, whatever has happened to the place of the
// goodbyes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"

namespace rondo {

inline constexpr Duration kKeptGoodbyeLimit = std::chrono::seconds(2);

class KeptGoodbyes {
 public:
  virtual ~KeptGoodbyes() = default;

  // Where they are, for errors: "tcp://10.0.0.1:29500".
  virtual std::string Describe() const = 0;
  // `communicator` is its id (CommunicatorOptions), `rank` a rank of it.
  virtual Status Keep(std::uint64_t communicator, Rank rank, const std::string& goodbye) = 0;
  // What that rank has kept; nullopt: nothing.
  virtual Result<std::optional<std::string>> Find(std::uint64_t communicator, Rank rank) = 0;
};

}  // namespace rondo
