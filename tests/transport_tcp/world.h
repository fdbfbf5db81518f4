// The fixture of the TCP tests. It has a few ranks in one process, each with a transport, an endpoint and an observer
// that records events. Its loops poll all endpoints until a condition is true, and fail the test after kPatience. No
// test sleeps in order to synchronise.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace rondo::test {

inline constexpr auto kPatience = std::chrono::seconds(60);

// Records the events of an endpoint. Any thread may wait for more events.
class Recorder final : public PeerObserver {
 public:
  void OnControl(Rank from, ControlMessage message) override {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(from, std::move(message));
    changed_.notify_all();
  }
  void OnPeerLost(Rank peer, Error error) override {
    const std::lock_guard lock(mutex_);
    lost_.emplace_back(peer, std::move(error));
    changed_.notify_all();
  }

  std::vector<std::pair<Rank, ControlMessage>> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  std::vector<std::pair<Rank, Error>> lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  bool WaitForMessages(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return messages_.size() >= count; });
  }
  bool WaitForLost(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return lost_.size() >= count; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<Rank, ControlMessage>> messages_;
  std::vector<std::pair<Rank, Error>> lost_;
};

class Lines final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(text);
  }
  bool Contains(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) { return line.find(part) != line.npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

inline TcpOptions LocalOptions() {
  TcpOptions options;
  options.job = "test";
  options.host_id = LocalHostId();
  return options;
}

inline std::shared_ptr<Transport> MakeTransport(TcpOptions options) {
  auto transport = MakeTcpTransport(std::move(options));
  REQUIRE_MESSAGE(transport, transport.error().ToString());
  return *transport;
}

inline std::unique_ptr<Endpoint> OpenEndpoint(Transport& transport, Rank rank, std::vector<std::string> addresses,
                                              PeerObserver& observer, std::uint64_t communicator = 1,
                                              Duration connect_timeout = std::chrono::seconds(30)) {
  EndpointConfig config;
  config.communicator = communicator;
  config.rank = rank;
  config.addresses = std::move(addresses);
  config.observer = &observer;
  config.connect_timeout = connect_timeout;
  auto endpoint = transport.OpenEndpoint(config);
  REQUIRE_MESSAGE(endpoint, endpoint.error().ToString());
  return std::move(*endpoint);
}

// Sleeps as an engine does: it announces that it will sleep, checks once more, and only then blocks on the endpoint's
// descriptor.
inline void SleepUntilNews(Endpoint& endpoint, int timeout_ms) {
  if (!endpoint.Arm()) {
    pollfd waiting{endpoint.wait_fd(), POLLIN, 0};
    poll(&waiting, 1, timeout_ms);
  }
  endpoint.Disarm();
}

// Polls one endpoint, and sleeps between polls, until `done` returns true.
inline bool PollOneUntil(Endpoint& endpoint, const std::function<bool()>& done) {
  const SteadyClock clock;
  const TimePoint deadline = clock.Now() + kPatience;
  while (true) {
    endpoint.Poll(clock.Now());
    if (done()) return true;
    if (clock.Now() > deadline) return false;
    SleepUntilNews(endpoint, 1000);
  }
}

struct World {
  explicit World(int ranks, const std::function<void(int, TcpOptions&)>& adjust = nullptr) {
    for (int rank = 0; rank < ranks; ++rank) {
      TcpOptions options = LocalOptions();
      if (adjust) adjust(rank, options);
      transports.push_back(MakeTransport(std::move(options)));
      addresses.push_back(transports.back()->Address());
      observers.push_back(std::make_unique<Recorder>());
    }
    endpoints.resize(static_cast<std::size_t>(ranks));
  }
  Endpoint& OpenRank(int rank, std::uint64_t communicator = 1, Duration timeout = std::chrono::seconds(30)) {
    const auto at = static_cast<std::size_t>(rank);
    endpoints[at] = OpenEndpoint(*transports[at], rank, addresses, *observers[at], communicator, timeout);
    return *endpoints[at];
  }
  void OpenAll() {
    for (int rank = 0; rank < static_cast<int>(transports.size()); ++rank) OpenRank(rank);
  }
  Endpoint& operator[](int rank) { return *endpoints[static_cast<std::size_t>(rank)]; }
  Recorder& RecorderOf(int rank) { return *observers[static_cast<std::size_t>(rank)]; }

  Lane& Open(int rank, Rank peer, std::uint32_t index = 0) {
    auto lane = endpoints[static_cast<std::size_t>(rank)]->Open(peer, index);
    REQUIRE_MESSAGE(lane, lane.error().ToString());
    return **lane;
  }

  // Polls every endpoint until `done` returns true.
  bool PollUntil(const std::function<bool()>& done) {
    const SteadyClock clock;
    const TimePoint deadline = clock.Now() + kPatience;
    while (clock.Now() < deadline) {
      for (auto& endpoint : endpoints) {
        if (endpoint) endpoint->Poll(clock.Now());
      }
      if (done()) return true;
      poll(nullptr, 0, 1);  // lets the control threads run
    }
    return false;
  }

  std::vector<std::shared_ptr<Transport>> transports;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<Recorder>> observers;  // destroyed after the endpoints
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

inline std::vector<std::byte> Pattern(std::size_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t value = random.Next();
    std::memcpy(data.data() + i, &value, std::min<std::size_t>(8, bytes - i));
  }
  return data;
}

}  // namespace rondo::test
