// N ranks as threads over shared memory beside TCP, each with transports of its own, as if in a process of its own.
#pragma once

#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo::test {

struct ShmJob {
  int ranks = 2;
  std::function<void(Rank, ShmOptions&)> adjust_shm = nullptr;
  std::function<void(CommunicatorOptions&)> adjust = nullptr;
  Duration timeout = std::chrono::seconds(20);
};

// Runs `body` on a thread per rank. All communicators live until every body has returned.
inline void OnShmRanks(const ShmJob& job, const std::function<void(Communicator&)>& body) {
  std::vector<std::shared_ptr<Transport>> transports;
  std::vector<PeerIdentity> peers;
  for (Rank r = 0; r < job.ranks; ++r) {
    TcpOptions tcp;
    tcp.job = "shm";
    tcp.host_id = LocalHostId();
    tcp.addresses = {"127.0.0.1"};
    auto base = MakeTcpTransport(tcp);
    REQUIRE(base);
    ShmOptions shm{.host_id = LocalHostId()};
    if (job.adjust_shm) job.adjust_shm(r, shm);
    auto transport = MakeShmTransport(*base, shm);
    REQUIRE(transport);
    transports.push_back(*transport);
    peers.push_back({.host = "here", .host_id = LocalHostId(), .pid = 1, .address = (*transport)->Address()});
  }
  std::vector<std::thread> threads;
  std::barrier<> end(job.ranks);
  for (Rank r = 0; r < job.ranks; ++r) {
    threads.emplace_back([&, r] {
      CommunicatorOptions options;
      options.rank = r;
      options.peers = peers;
      options.transport = transports[static_cast<std::size_t>(r)];
      options.timeout = job.timeout;
      if (job.adjust) job.adjust(options);
      auto communicator = Communicator::Create(std::move(options));
      REQUIRE(communicator);
      body(**communicator);
      end.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo::test
