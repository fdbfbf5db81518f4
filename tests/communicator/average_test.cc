// Averages that fit their type, although the sum of the operands does not.
#include <doctest/doctest.h>

#include <string>

#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "tests/communicator/extreme_averages.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace average_test {

TEST_CASE("an average that fits its type is right although its sum does not, by every algorithm") {
  for (const int world : {1, 2, 3, 5}) {
    InprocNetwork network(world, {.ring_bytes = 1024, .slice_bytes = 77});
    OnRanks(network, [](Communicator& communicator) {
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        if (!Reduces(entry.collective)) continue;
        for (const DataType type : extreme::kTypes)
          for (const bool in_place : {false, true}) {
            CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
            CAPTURE(std::string(Name(type)) + (in_place ? " in place" : ""));
            CHECK(extreme::Run(communicator,
                               {.collective = entry.collective, .algorithm = entry.algorithm, .in_place = in_place},
                               type) == "");
          }
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("such averages are right in the reproducible mode, with checksums, over rails and with results compared") {
  InprocNetwork network(3);
  OnRanks(
      network,
      [](Communicator& communicator) {
        for (const DataType type : extreme::kTypes) {
          CAPTURE(std::string(Name(type)));
          CHECK(extreme::Run(communicator, {.count = 3000}, type) == "");
        }
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) {
        options.reproducible = options.checksums = options.compare_results = options.fp32_accumulate = true;
        options.rails = 2;
        options.least_rail_bytes = 64;
      });
}

TEST_CASE("ranks that average elements of different types get both in the error, although these travel in one type") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    float values[4] = {};
    const DataType type = communicator.rank() == 0 ? DataType::kFloat16 : DataType::kFloat32;
    const Status status = communicator.AllReduce(values, values, 4, type, ReduceOp::kAvg);
    const std::string text = TextOf(status ? communicator.Close() : status);
    CAPTURE(text);
    CHECK(text.find("mismatch") == 0);
    CHECK(text.find("all_reduce float16 x 4 avg in float32 by") != std::string::npos);
    CHECK(text.find("all_reduce float32 x 4 avg by") != std::string::npos);
  });
}

TEST_CASE("the type in which averages travel is no type of a user") {
  InprocNetwork network(1);
  OnRanks(network, [](Communicator& communicator) {
    std::byte memory[16] = {};
    const Status status = communicator.AllReduce(memory, memory, 1, kInt128, ReduceOp::kSum);
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kInvalidArgument);
    CHECK(TextOf(status).find("12 is not a data type") != std::string::npos);
  });
}

}  // namespace average_test
}  // namespace rondo
