// N ranks as threads, each with a communicator over one in-process network: the fixture of the communicator's tests.
#pragma once

#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/status_text.h"
#include "transport/inproc/inproc.h"

namespace rondo {

inline std::vector<PeerIdentity> IdentitiesOf(const InprocNetwork& network) {
  std::vector<PeerIdentity> peers;
  for (Rank r = 0; r < network.world_size(); ++r)
    peers.push_back({.host = "host" + std::to_string(r),
                     .host_id = "here",
                     .pid = 100 + static_cast<std::uint64_t>(r),
                     .address = network.transport(r)->Address()});
  return peers;
}

// Builds a communicator per rank and runs `body` on a thread each. All communicators live until every body has
// returned, as in a job whose ranks end together. `adjust` changes the options of every rank.
inline void OnRanks(InprocNetwork& network, const std::function<void(Communicator&)>& body,
                    const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  std::vector<std::thread> threads;
  std::barrier<> end(network.world_size());
  for (Rank r = 0; r < network.world_size(); ++r) {
    threads.emplace_back([&, r] {
      CommunicatorOptions options;
      options.rank = r;
      options.peers = IdentitiesOf(network);
      options.transport = network.transport(r);
      options.timeout = std::chrono::seconds(20);
      if (adjust) adjust(options);
      auto communicator = Communicator::Create(std::move(options));
      REQUIRE(communicator);
      body(**communicator);
      end.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo
