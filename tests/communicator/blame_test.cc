// Who is blamed when a connection breaks and the news of it are slower than what follows from them.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/communicator/sim_ranks.h"

namespace rondo {
namespace {

// Rank 3 speaks first, and whoever hears it takes its lanes away: a rank may see that before it hears why.
TEST_CASE("of a lane that breaks all ranks blame one of its two ends, and nobody who merely ended because of it") {
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
      if (status) continue;  // it had all it needed
      ++failed;
      CAPTURE(status.error().ToString());
      CHECK((status.error().culprit() == 1 || status.error().culprit() == 3));
    }
  }
  CHECK(failed > 300);
}

}  // namespace
}  // namespace rondo
