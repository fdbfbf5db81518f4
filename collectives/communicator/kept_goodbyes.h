// Goodbyes that outlive the processes of their ranks. A communicator that closes while some peers were never connected
// to it keeps its goodbye here. A rank that later finds no process at a peer's address asks here whether the peer has
// left, before it reports the peer as lost. Connect gives this object to the communicator, so that communicators do not
// depend on stores.
//
// Thread rule: any thread. Every call ends within kKeptGoodbyeLimit, even if the store that keeps the goodbyes does not
// respond.
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

  // Names the store that keeps the goodbyes, for errors: "tcp://10.0.0.1:29500".
  virtual std::string Describe() const = 0;
  // Stores the goodbye of `rank` in the communicator with the id `communicator` (CommunicatorOptions::id).
  virtual Status Keep(std::uint64_t communicator, Rank rank, const std::string& goodbye) = 0;
  // The goodbye that Keep has stored for `rank`; nullopt: there is none.
  virtual Result<std::optional<std::string>> Find(std::uint64_t communicator, Rank rank) = 0;
};

}  // namespace rondo
