// Which rank is named as the culprit, and which rank reports it, when ranks learn of the failure in an unusual order.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/communicator/sim_ranks.h"
#include "tests/support/own_places.h"

namespace rondo {
namespace culprit_test {

// Rank 3 is the first rank that reports the broken lane. Each rank that gets the report closes its lanes. So a rank may
// see a lane end before it gets rank 3's report.
TEST_CASE("of a lane that breaks all ranks name one of its two ends, and none that merely ended because of it") {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    SimRanks ranks({.world_size = 4, .seed = seed, .link = {.max_delay = std::chrono::milliseconds(20)}},
                   [](CommunicatorOptions& options) { options.timeout = std::chrono::seconds(30); });
    ranks.network().Cut({.from = 3, .to = 1, .communicator = 1}, 240);
    std::vector<std::vector<float>> values(4, std::vector<float>(1000, 1));
    std::vector<Work> works;
    for (Rank rank = 0; rank < 4; ++rank) {
      float* const own = values[static_cast<std::size_t>(rank)].data();
      works.push_back(ranks.communicator(rank).AllReduceAsync(own, own, 1000, DataType::kFloat32, ReduceOp::kSum,
                                                              {.algorithm = Algorithm::kRecursiveHalving}));
    }
    for (const Status& status : ranks.FinishAll(works)) {
      if (status) continue;  // the rank had all the bytes that it needed
      ++failed;
      CAPTURE(status.error().ToString());
      CHECK((status.error().culprit() == 1 || status.error().culprit() == 3));
    }
  }
  CHECK(failed > 300);
}

// No thread waits when the notice arrives, and there is no progress thread. So the call that is refused is the last
// chance to write the records.
TEST_CASE("a call that is refused says who reports the failure, and has the records of it written") {
  for (const bool blocks : {false, true}) {
    CAPTURE(blocks);
    const TemporaryDirectory records;
    SimRanks ranks({.world_size = 2}, [&](CommunicatorOptions& options) {
      options.record_dir = records.path();
      options.job = "own";
    });
    std::vector<Work> works;
    for (Rank rank = 0; rank < 2; ++rank) works.push_back(ranks.communicator(rank).BarrierAsync());
    CHECK(ranks.Finish(works) == "");
    ranks.communicator(1).Abort("by this test");
    while (ranks.network().Step()) continue;
    ranks.communicator(0).Progress();  // receives the notice, and does nothing else
    const std::string file = records.File("rondo-own-g0-group0-rank0.json");
    REQUIRE_FALSE(std::filesystem::exists(file));
    const Status status = blocks ? ranks.communicator(0).Barrier() : ranks.communicator(0).BarrierAsync().Wait();
    REQUIRE_FALSE(status);
    CHECK(status.error().code() == ErrorCode::kPeerAborted);
    CHECK(status.error().culprit() == 1);
    CHECK(status.error().details().rank == 0);
    CHECK(std::filesystem::exists(file));
  }
}

}  // namespace culprit_test
}  // namespace rondo
