// Tests that a training loop survives network faults. This is the example program of docs/FAULTS.md. Two ranks train
// over connections that the test cuts in the middle of a step. Both find out which rank was lost, connect again, and
// end with the result of an undisturbed run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "transport/fault/proxied_transport.h"
#include "transport/fault/proxy.h"
#include "transport/fault/tcp_streams.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace training_loop_test {

constexpr int kSteps = 10;
constexpr std::size_t kWeights = 50'000;

// Takes the place of the user's training loop. It continues from `step` until the end or an error.
Status Train(Communicator& communicator, std::vector<float>& weights, int& step) {
  while (step < kSteps) {
    std::vector<float> gradient(kWeights, static_cast<float>(communicator.rank() + 1));
    Status status = communicator.AllReduce(gradient.data(), gradient.data(), kWeights, DataType::kFloat32,
                                           ReduceOp::kSum, {.algorithm = Algorithm::kRing});
    if (!status) return status;  // the weights are still those of the last complete step
    for (std::size_t i = 0; i < kWeights; ++i) weights[i] += gradient[i];
    ++step;
  }
  return communicator.Close();
}

// A step may have ended on one rank, while the connection was cut before it ended on the other. Both ranks continue
// from the later of their steps.
Status Agree(Communicator& communicator, std::vector<float>& weights, int& step) {
  const std::int32_t own = step;
  std::vector<std::int32_t> steps(static_cast<std::size_t>(communicator.world_size()));
  RONDO_TRY(communicator.AllGather(&own, steps.data(), 1, DataType::kInt32));
  const auto farthest = std::max_element(steps.begin(), steps.end());
  step = *farthest;
  return communicator.Broadcast(weights.data(), weights.data(), kWeights, DataType::kFloat32,
                                static_cast<Rank>(farthest - steps.begin()));
}

TEST_CASE("a training loop whose connection is cut in the midst of a step goes on from there in a new group") {
  auto proxy = fault::Proxy::Start({.seed = 1});
  REQUIRE(proxy);
  std::vector<std::shared_ptr<Transport>> transports;
  std::vector<PeerIdentity> peers;
  for (const Rank rank : {0, 1}) {
    auto tcp = MakeTcpTransport({.job = "training", .addresses = {"127.0.0.1"}});
    REQUIRE(tcp);
    auto transport = fault::MakeProxiedTransport(*tcp, *proxy, "rank " + std::to_string(rank));
    REQUIRE(transport);
    transports.push_back(*transport);
    peers.push_back({.host = "host" + std::to_string(rank), .address = (*transport)->Address()});
  }
  // Byte 500,000 of the stream from rank 0 to rank 1 is in the third step.
  auto cut = (*proxy)->Add({.stream = fault::LaneStream(0, 1), .from_byte = 500'000}, fault::ResetPeer{});
  REQUIRE(cut);

  std::vector<float> weights[2];
  std::vector<std::thread> ranks;
  for (const Rank rank : {0, 1}) {
    ranks.emplace_back([&, rank] {
      std::vector<float>& own = weights[rank];
      own.assign(kWeights, 0);
      int step = 0;
      for (std::uint64_t group = 1; group <= 2; ++group) {
        auto communicator = Communicator::Create({.rank = rank,
                                                  .peers = peers,
                                                  .id = group,
                                                  .transport = transports[static_cast<std::size_t>(rank)],
                                                  .timeout = std::chrono::seconds(20)});
        REQUIRE(communicator);
        if (group > 1) CHECK(Agree(**communicator, own, step));
        const Status status = Train(**communicator, own, step);
        if (group == 1) {
          CHECK_FALSE(status.has_value());
          if (!status) CHECK(status.error().code() == ErrorCode::kConnectionReset);
          if (!status) CHECK(status.error().culprit() == 0);
          (*proxy)->Remove(*cut);
        }
      }
      CHECK(step == kSteps);
    });
  }
  for (std::thread& rank : ranks) rank.join();

  CHECK((*cut)->fired.count() == 1);  // otherwise the test would prove nothing
  for (const auto& own : weights) CHECK(own == std::vector<float>(kWeights, 3.0f * kSteps));
}

}  // namespace training_loop_test
}  // namespace rondo
