// N ranks as threads, each with its own TCP transport behind a proxy. Tests use them to check how communicators react
// to faults of real sockets.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/status_text.h"
#include "tests/support/threads.h"
#include "transport/fault/proxied_transport.h"
#include "transport/fault/proxy.h"
#include "transport/fault/tcp_streams.h"
#include "transport/tcp/tcp.h"

namespace rondo::fault {

inline constexpr std::chrono::seconds kFiring{20};  // the longest time to wait for a fault to fire

struct JobOptions {
  int ranks = 2;
  Duration timeout = std::chrono::seconds(20);  // far longer than anything in a test takes
  std::uint64_t seed = 1;
  std::function<void(Rank, TcpOptions&)> adjust_tcp = nullptr;
  std::function<void(Rank, CommunicatorOptions&)> adjust = nullptr;
};

class ProxiedJob {
 public:
  explicit ProxiedJob(JobOptions options = {}) : options_(std::move(options)) {
    auto proxy = Proxy::Start({.seed = options_.seed});
    REQUIRE_MESSAGE(proxy, proxy.error().ToString());
    proxy_ = *proxy;
    for (Rank r = 0; r < options_.ranks; ++r) {
      TcpOptions tcp;
      tcp.job = "faults";
      tcp.host_id = LocalHostId();
      tcp.addresses = {"127.0.0.1"};
      if (options_.adjust_tcp) options_.adjust_tcp(r, tcp);
      auto own = MakeTcpTransport(std::move(tcp));
      REQUIRE_MESSAGE(own, own.error().ToString());
      auto transport = MakeProxiedTransport(*own, proxy_, "rank " + std::to_string(r));
      REQUIRE_MESSAGE(transport, transport.error().ToString());
      transports_.push_back(*transport);
      peers_.push_back(
          {.host = "host" + std::to_string(r), .host_id = "", .pid = 1, .address = (*transport)->Address()});
    }
  }

  Proxy& proxy() { return *proxy_; }
  ToxicHandle Add(Scope scope, Toxic toxic) {
    auto handle = proxy_->Add(std::move(scope), toxic);
    REQUIRE_MESSAGE(handle, handle.error().ToString());
    return *handle;
  }

  // The time that the latest Run took, including the creation of communicators. It is an upper bound of the time until
  // a rank got its error.
  Duration took() const { return took_; }

  // Runs `body` on a thread for each rank and returns each result. All bodies begin after all communicators have been
  // made. All communicators live until all bodies have returned, as in a job whose ranks begin and end together.
  std::vector<Status> Run(const std::function<Status(Communicator&)>& body) {
    const SteadyClock clock;
    const TimePoint begun = clock.Now();
    RankJob job{.transports = transports_, .peers = peers_, .timeout = options_.timeout};
    job.id = ++runs_;  // a new id, so that bytes that remain from an earlier run belong to another communicator
    if (options_.adjust) job.adjust = [this](CommunicatorOptions& options) { options_.adjust(options.rank, options); };
    std::vector<Status> statuses(transports_.size());
    std::barrier<> all(options_.ranks);
    OnThreads(options_.ranks, [&](Rank rank) {
      const auto communicator = MakeRank(job, rank);
      all.arrive_and_wait();
      statuses[static_cast<std::size_t>(rank)] =
          communicator ? body(**communicator) : Status(tl::unexpected(communicator.error()));
      all.arrive_and_wait();
    });
    took_ = clock.Now() - begun;
    return statuses;
  }

 private:
  const JobOptions options_;
  std::uint64_t runs_ = 0;
  Duration took_{};
  std::shared_ptr<Proxy> proxy_;
  std::vector<std::shared_ptr<Transport>> transports_;
  std::vector<PeerIdentity> peers_;
};

inline std::string TextOf(const std::vector<Status>& statuses) {
  std::string text;
  for (const Status& status : statuses) text += "\n  " + TextOf(status);
  return text;
}
inline ErrorCode CodeOf(const Status& status) { return status ? ErrorCode{} : status.error().code(); }

// Sums over all ranks by the ring algorithm. If the sum succeeds, checks every element.
inline Status SumByRing(Communicator& communicator, std::size_t count, Duration timeout = std::chrono::seconds(20)) {
  const int world = communicator.world_size();
  const int sum_of_ranks = world * (world - 1) / 2;
  std::vector<float> input(count), output(count, -1);
  for (std::size_t i = 0; i < count; ++i) input[i] = static_cast<float>(i % 1000) + communicator.rank();
  Status status = communicator.AllReduce(input.data(), output.data(), count, DataType::kFloat32, ReduceOp::kSum,
                                         {.timeout = timeout, .algorithm = Algorithm::kRing});
  if (!status) return status;
  for (std::size_t i = 0; i < count; ++i) {
    const float expected = static_cast<float>(sum_of_ranks + world * static_cast<int>(i % 1000));
    if (output[i] != expected) return Fail(ErrorCode::kInternal, "element {} is {}, not {}", i, output[i], expected);
  }
  return {};
}

// Broadcasts from rank 0, which uses a separate lane to every rank. If the broadcast succeeds, checks every element.
inline Status BroadcastDirectly(Communicator& communicator, std::size_t count, Duration timeout) {
  std::vector<std::uint32_t> values(count, 0);
  if (communicator.rank() == 0)
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761u);
  Status status = communicator.Broadcast(values.data(), values.data(), count, DataType::kUint32, 0,
                                         {.timeout = timeout, .algorithm = Algorithm::kDirect});
  if (!status) return status;
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != static_cast<std::uint32_t>(i * 2654435761u)) return Fail(ErrorCode::kInternal, "element {}", i);
  return {};
}

// Returns the operation's error. If it has none, returns the result of a barrier after it.
inline Status ThenBarrier(Communicator& communicator, const Status& status) {
  return status ? communicator.Barrier() : status;
}

// Returns the operation's error. If it has none, returns the result of Close after it.
inline Status ThenClose(Communicator& communicator, const Status& status) {
  return status ? communicator.Close() : status;
}

// Checks that every rank failed with this code, names this culprit, and has the same text as the other ranks.
inline void CheckAllName(const std::vector<Status>& statuses, ErrorCode code, Rank culprit) {
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) {
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code() == code);
    CHECK(status.error().culprit() == culprit);
    CHECK(status.error().message() == statuses.front().error().message());
  }
}

}  // namespace rondo::fault
