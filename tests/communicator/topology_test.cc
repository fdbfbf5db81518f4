// Tests which topology a communicator assumes. The time that the communicator expects for a barrier shows this.
// Ranks of one host share its CPU cores. Ranks of different hosts have a network between them. A group has a share of
// the cores of each host, and has a network only if its ranks are on different hosts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/engine/slices.h"
#include "collectives/model/profile.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace topology_test {

// A profile in which only hops cost time. Hops of each kind cost far more than any number of hops of the kind before
// it.
std::shared_ptr<const Profile> HopsAlone() {
  Profile profile;
  profile.name = "made up";
  profile.costs = {.hop_us = 1, .oversubscribed_latency_us = 100, .remote_hop_us = 10'000};
  return std::make_shared<const Profile>(std::move(profile));
}

std::string WhatHopsAre(const Communicator& communicator) {
  const auto choice = communicator.Choose({.collective = Collective::kBarrier});
  if (!choice) return choice.error().ToString();
  if (choice->expected_us >= 10'000) return "remote";
  return choice->expected_us >= 100 ? "oversubscribed" : "spread";
}

// Runs ranks on these hosts, each with `cores` CPU cores, in groups by `color`. Returns the kind of hops that the whole
// communicator expects, then the kind that rank 0's group expects.
std::vector<std::string> WhatHopsAreOn(const std::vector<std::string>& hosts, int cores,
                                       const std::vector<int>& color) {
  std::vector<std::string> found(2);
  InprocNetwork network(static_cast<int>(hosts.size()));
  OnRanks(
      network,
      [&](Communicator& communicator) {
        const Rank rank = communicator.rank();
        auto group = communicator.Split(color[static_cast<std::size_t>(rank)], rank);
        REQUIRE(group);
        if (rank == 0) found = {WhatHopsAre(communicator), WhatHopsAre(**group)};
        CHECK((*group)->Close());
        CHECK(communicator.Close());
      },
      [&](CommunicatorOptions& options) {
        options.profile = HopsAlone();
        for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
          options.peers[rank].host_id = hosts[rank];
          options.peers[rank].cores = cores;
        }
      });
  return found;
}

using Found = std::vector<std::string>;

TEST_CASE("ranks of one host are oversubscribed if they outnumber its cores, and an unknown number of cores suffices") {
  CHECK(WhatHopsAreOn({"a", "a", "a", "a"}, 4, {0, 0, 0, 0}) == Found{"spread", "spread"});
  CHECK(WhatHopsAreOn({"a", "a", "a", "a"}, 3, {0, 0, 0, 0}) == Found{"oversubscribed", "oversubscribed"});
  CHECK(WhatHopsAreOn({"a", "a", "a", "a"}, 0, {0, 0, 0, 0}) == Found{"spread", "spread"});
}

TEST_CASE("a group has its part of a host's cores: the ranks outside of it run on them too") {
  CHECK(WhatHopsAreOn({"a", "a", "a", "a"}, 4, {0, 0, 1, 1}) == Found{"spread", "spread"});
  CHECK(WhatHopsAreOn({"a", "a", "a", "a"}, 2, {0, 0, 1, 1}) == Found{"oversubscribed", "oversubscribed"});
}

TEST_CASE("a group within a host has no network in it, one across hosts has") {
  CHECK(WhatHopsAreOn({"a", "a", "b", "b"}, 2, {0, 0, 1, 1}) == Found{"remote", "spread"});
  CHECK(WhatHopsAreOn({"a", "b", "a", "b"}, 2, {0, 0, 1, 1}) == Found{"remote", "remote"});
}

// Sums a vector that is long enough for slices, with scratch memory for only one slice. Returns whether all ranks get
// the right sum.
bool SumsInSlicesOn(const std::vector<std::string>& hosts) {
  constexpr std::uint32_t kFrameBytes = 64;
  const int ranks = static_cast<int>(hosts.size());
  std::vector<std::uint8_t> sums(hosts.size(), 1);
  InprocNetwork network(ranks);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::uint8_t> vector(kLeastSlices * hosts.size() * kFrameBytes, 1);
        OperationOptions two_shot;
        two_shot.algorithm = Algorithm::kTwoShot;
        const Status summed = communicator.AllReduce(vector.data(), vector.data(), vector.size(), DataType::kUint8,
                                                     ReduceOp::kSum, two_shot);
        if (!summed || vector.back() != ranks) sums[static_cast<std::size_t>(communicator.rank())] = 0;
      },
      [&](CommunicatorOptions& options) {
        options.frame_bytes = kFrameBytes;
        options.max_scratch_bytes = kFrameBytes;
        for (std::size_t rank = 0; rank < hosts.size(); ++rank) options.peers[rank].host_id = hosts[rank];
      });
  return std::count(sums.begin(), sums.end(), 1) == ranks;
}

TEST_CASE("large vectors go in slices where all ranks share a host, and whole where they do not") {
  CHECK(SumsInSlicesOn({"a", "a", "a", "a"}));
  CHECK(!SumsInSlicesOn({"a", "a", "b", "b"}));
}

TEST_CASE("ranks that do not say their host count as on one each, in groups too") {
  CHECK(WhatHopsAreOn({"", "", ""}, 1, {0, 0, 1}) == Found{"remote", "remote"});
}

}  // namespace topology_test
}  // namespace rondo
