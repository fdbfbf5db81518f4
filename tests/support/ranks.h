// N ranks as threads, each with a communicator. All tests that run ranks in one process use it.
#pragma once

#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/status_text.h"
#include "tests/support/threads.h"
#include "transport/inproc/inproc.h"

namespace rondo {

struct RankJob {
  std::vector<std::shared_ptr<Transport>> transports;  // indexed by rank
  std::vector<PeerIdentity> peers;                     // indexed by rank
  Duration timeout = std::chrono::seconds(20);         // far longer than anything in a test takes
  std::uint64_t id = 1;
  std::function<void(CommunicatorOptions&)> adjust = nullptr;  // changes the options of every rank; null: no change
};

inline std::vector<PeerIdentity> IdentitiesOf(const std::vector<std::shared_ptr<Transport>>& transports,
                                              const std::string& host_id = "here") {
  std::vector<PeerIdentity> peers;
  for (const auto& transport : transports)
    peers.push_back({.host = "host" + std::to_string(peers.size()),
                     .host_id = host_id,
                     .pid = 100 + peers.size(),
                     .address = transport->Address()});
  return peers;
}

inline std::vector<std::shared_ptr<Transport>> TransportsOf(const InprocNetwork& network) {
  std::vector<std::shared_ptr<Transport>> transports;
  for (Rank r = 0; r < network.world_size(); ++r) transports.push_back(network.transport(r));
  return transports;
}

inline std::vector<PeerIdentity> IdentitiesOf(const InprocNetwork& network) {
  return IdentitiesOf(TransportsOf(network));
}

inline Result<std::unique_ptr<Communicator>> MakeRank(const RankJob& job, Rank rank) {
  CommunicatorOptions options;
  options.rank = rank;
  options.id = job.id;
  options.peers = job.peers;
  options.transport = job.transports[static_cast<std::size_t>(rank)];
  options.timeout = job.timeout;
  if (job.adjust) job.adjust(options);
  return Communicator::Create(std::move(options));
}

// Makes each rank's communicator on a separate thread and runs `body` there. All communicators live until every body
// has returned, as in a job whose ranks end together.
inline void OnRanks(const RankJob& job, const std::function<void(Communicator&)>& body) {
  const auto ranks = static_cast<int>(job.transports.size());
  std::barrier<> end(ranks);
  OnThreads(ranks, [&](Rank rank) {
    auto communicator = MakeRank(job, rank);
    REQUIRE_MESSAGE(communicator, communicator.error().ToString());
    body(**communicator);
    end.arrive_and_wait();
  });
}

inline void OnRanks(const InprocNetwork& network, const std::function<void(Communicator&)>& body,
                    std::function<void(CommunicatorOptions&)> adjust = nullptr) {
  OnRanks({.transports = TransportsOf(network), .peers = IdentitiesOf(network), .adjust = std::move(adjust)}, body);
}

}  // namespace rondo
