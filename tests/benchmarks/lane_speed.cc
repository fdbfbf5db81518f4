// Measures the latency of small writes and the bandwidth of large ones on a lane, without an engine. The result shows
// how much of the cost belongs to which layer. Each of two threads has an endpoint.
//
//   lane_speed tcp | shm | ib [PORT,PORT]
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "transport/ib/ib.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

class Silent final : public PeerObserver {
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}
};

std::shared_ptr<Transport> Make(const std::string& name, const std::string& port) {
  TcpOptions tcp;
  tcp.job = "lane_speed";
  tcp.host_id = LocalHostId();
  auto made = MakeTcpTransport(tcp);
  if (made && name == "shm") made = MakeShmTransport(*made, {.host_id = LocalHostId()});
  if (made && name == "ib") made = MakeIbTransport(*made, {.port = port, .may_fall_back = false});
  RONDO_CHECK(made, "{}", made.error().ToString());
  return *made;
}

struct Side {
  std::unique_ptr<Endpoint> endpoint;
  Lane* lane = nullptr;
  unsigned polls = 0;

  void Poll() { endpoint->Poll(SteadyClock().Now()); }
  void Write(Bytes bytes) {
    while (!bytes.empty()) {
      const std::size_t sent = lane->Write(std::span(&bytes, 1));
      bytes = bytes.subspan(sent);
      if (sent == 0 && ++polls % 64 == 0) Poll();
    }
  }
  void Read(MutableBytes bytes) {
    while (!bytes.empty()) {
      const std::size_t got = lane->ReadInto(bytes);
      bytes = bytes.subspan(got);
      if (got == 0 && ++polls % 64 == 0) Poll();
    }
  }
};

double Us(TimePoint from, TimePoint to) { return std::chrono::duration<double, std::micro>(to - from).count(); }

void Run(const std::string& name, const std::vector<std::string>& ports) {
  Silent silent;
  std::vector<std::shared_ptr<Transport>> transports;
  EndpointConfig config{.communicator = 1, .observer = &silent};
  for (int rank = 0; rank < 2; ++rank) {
    transports.push_back(Make(name, ports[static_cast<std::size_t>(rank) % ports.size()]));
    config.addresses.push_back(transports.back()->Address());
  }
  std::vector<Side> sides(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    config.rank = rank;
    auto endpoint = transports[static_cast<std::size_t>(rank)]->OpenEndpoint(config);
    RONDO_CHECK(endpoint, "{}", endpoint.error().ToString());
    Side& side = sides[static_cast<std::size_t>(rank)];
    side.endpoint = std::move(*endpoint);
    auto lane = side.endpoint->Open(1 - rank, 0);
    RONDO_CHECK(lane, "{}", lane.error().ToString());
    side.lane = *lane;
  }
  while (sides[0].lane->state() == LaneState::kConnecting || sides[1].lane->state() == LaneState::kConnecting)
    for (Side& side : sides) side.Poll();

  const SteadyClock clock;
  for (const std::size_t bytes : {8, 128}) {
    constexpr int kTimes = 2000;
    std::vector<double> times;
    std::vector<std::byte> small(bytes), other(bytes);
    std::thread echo([&] {
      for (int i = 0; i < kTimes; ++i) {
        sides[1].Read(other);
        sides[1].Write(other);
      }
    });
    for (int i = 0; i < kTimes; ++i) {
      const TimePoint begin = clock.Now();
      sides[0].Write(small);
      sides[0].Read(small);
      times.push_back(Us(begin, clock.Now()) / 2);
    }
    echo.join();
    std::sort(times.begin(), times.end());
    fmt::print("{} lane, {} bytes: latency {:.2f} us median, {:.2f} min\n", name, bytes, times[kTimes / 2], times[0]);
  }
  for (const std::size_t bytes : {64u << 10, 1u << 20}) {
    const int times = static_cast<int>((32u << 20) / bytes);
    std::vector<std::byte> large(bytes), there(bytes);
    std::byte done{};
    std::thread reader([&] {
      for (int i = 0; i < times; ++i) sides[1].Read(there);
      sides[1].Write(std::span(&done, 1));
    });
    const TimePoint begin = clock.Now();
    for (int i = 0; i < times; ++i) sides[0].Write(large);
    std::byte theirs{};
    sides[0].Read(std::span(&theirs, 1));
    const double us = Us(begin, clock.Now());
    reader.join();
    fmt::print("{} lane, {} KiB: {:.1f} MiB/s\n", name, bytes >> 10,
               static_cast<double>(bytes) * times / (1 << 20) / us * 1e6);
  }
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "tcp";
  const std::string list = argc > 2 ? argv[2] : "";
  const std::size_t comma = list.find(',');
  rondo::Run(name, {list.substr(0, comma), comma == std::string::npos ? list : list.substr(comma + 1)});
}
