// Tests when the library's choice of an algorithm counts as bad, and which times of several rounds a profile keeps.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tests/support/ranks.h"
#include "tools/tune/sweep.h"
#include "transport/inproc/inproc.h"

namespace rondo {
namespace tune_sweep_test {

// Five rounds in which the tree takes 100 us, and the chosen ring takes the given times.
SweepRow Row(std::vector<double> first_us, std::vector<double> last_us) {
  SweepRow row;
  row.chosen = Algorithm::kRing;
  row.chosen_first_us = std::move(first_us);
  row.chosen_last_us = std::move(last_us);
  row.forced = {{Algorithm::kRing, row.chosen_first_us}, {Algorithm::kTree, {100, 100, 100, 100, 100}}};
  return row;
}

TEST_CASE("a choice that takes more than 10% longer than the best, in every round, is missed") {
  const SweepRow row = Row({120, 120, 120, 120, 120}, {120, 120, 120, 120, 120});
  CHECK(row.Best().algorithm == Algorithm::kTree);
  CHECK(row.ChosenUs() == 120);
  CHECK(row.Noise() == 1);
  CHECK(row.Missed());
}

TEST_CASE("up to 10% is not missed") {
  CHECK_FALSE(Row({109, 109, 109, 109, 109}, {109, 109, 109, 109, 109}).Missed());
}

TEST_CASE("what lies within the noise of the choice itself is not missed") {
  const SweepRow row = Row({110, 110, 110, 110, 110}, {130, 130, 130, 130, 130});
  CHECK(row.Noise() == doctest::Approx(130.0 / 110));
  CHECK_FALSE(row.Missed());
}

TEST_CASE("it takes four of five rounds") {
  CHECK(Row({120, 120, 120, 120, 90}, {120, 120, 120, 120, 90}).Missed());
  CHECK_FALSE(Row({120, 120, 120, 90, 90}, {120, 120, 120, 90, 90}).Missed());
}

TEST_CASE("who chose the best algorithm has missed nothing, whatever it took") {
  SweepRow row = Row({120, 120, 120, 120, 120}, {120, 120, 120, 120, 120});
  row.chosen = Algorithm::kTree;
  CHECK_FALSE(row.Missed());
}

TEST_CASE("rounds add up, and a profile keeps their medians") {
  InprocNetwork network(2);
  RankJob job{.transports = TransportsOf(network), .peers = IdentitiesOf(network)};
  for (PeerIdentity& peer : job.peers) peer.cores = 2;
  SweepOptions options;
  options.collectives = {Collective::kBarrier, Collective::kBroadcast};
  options.max_bytes = 64;
  options.step_factor = 16;
  options.time_per_round = std::chrono::milliseconds(1);
  options.with_choice = true;
  std::vector<std::vector<SweepRow>> rows(2);
  Topology topology;
  OnRanks(job, [&](Communicator& communicator) {
    const SteadyClock clock;
    for (int round = 0; round < 3; ++round)
      CHECK(SweepOnce(communicator, clock, options, rows[static_cast<std::size_t>(communicator.rank())]));
    if (communicator.rank() == 0) topology = communicator.topology();
    CHECK(communicator.Close());
  });

  REQUIRE(rows[0].size() == 3);  // a barrier, and broadcasts of 4 and 64 bytes
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    CHECK(rows[0][i].chosen_first_us.size() == 3);
    CHECK(rows[0][i].chosen_last_us.size() == 3);
    CHECK(rows[0][i].Best().us.size() == 3);
    CHECK(rows[0][i].Best().us == rows[1][i].Best().us);  // all ranks have the same results
  }
  const std::vector<MeasuredWorld> measured = ToMeasured(rows[0], topology);
  REQUIRE(measured.size() == 2);
  const MeasuredWorld& broadcast = measured[0].collective == Collective::kBroadcast ? measured[0] : measured[1];
  CHECK(broadcast.bytes == std::vector<std::uint64_t>{4, 64});
  CHECK(broadcast.world_size == 2);
  CHECK(broadcast.hosts == 1);
  CHECK_FALSE(broadcast.oversubscribed);
}

}  // namespace tune_sweep_test
}  // namespace rondo
