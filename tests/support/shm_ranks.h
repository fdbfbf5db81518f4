// N ranks as threads, which use shared memory and TCP. Each rank has its own transports, as if it were a separate
// process.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/ranks.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo::test {

struct ShmJob {
  int ranks = 2;
  std::function<void(Rank, ShmOptions&)> adjust_shm = nullptr;
  std::function<void(CommunicatorOptions&)> adjust = nullptr;
  Duration timeout = std::chrono::seconds(20);
};

inline void OnShmRanks(const ShmJob& job, const std::function<void(Communicator&)>& body) {
  std::vector<std::shared_ptr<Transport>> transports;
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
  }
  OnRanks({.transports = transports,
           .peers = IdentitiesOf(transports, LocalHostId()),
           .timeout = job.timeout,
           .adjust = job.adjust},
          body);
}

}  // namespace rondo::test
