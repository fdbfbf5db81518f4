// Two or more ranks in one process, over real loopback sockets: connecting, streams, control messages, sleeping, and
// how things end.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/transport_tcp/world.h"

namespace rondo::test {
namespace {

bool IsOpen(const Lane& lane) { return lane.state() == LaneState::kOpen; }

// Writes all of `out` and reads all of `in` at once, as an engine would: whatever moves first.
bool Exchange(Endpoint& endpoint, Lane& lane, Bytes out, MutableBytes in) {
  std::size_t written = 0, read = 0;
  return DriveOne(endpoint,
                  [&] {
                    bool moved = true;
                    while (moved && (written < out.size() || read < in.size())) {
                      const Bytes rest = out.subspan(written);
                      const std::size_t sent = rest.empty() ? 0 : lane.Write({&rest, 1});
                      const std::size_t got = lane.ReadInto(in.subspan(read));
                      written += sent;
                      read += got;
                      moved = sent + got != 0;
                      if (lane.state() == LaneState::kFailed) return true;
                    }
                    return written == out.size() && read == in.size();
                  }) &&
         lane.state() != LaneState::kFailed;
}

TEST_CASE("a lane opens when both ends open it, whoever comes first") {
  for (const bool lower_first : {true, false}) {
    World world(2);
    world.OpenAll();
    Lane& first = world.Open(lower_first ? 0 : 1, lower_first ? 1 : 0);
    CHECK(world.Drive([&] { return IsOpen(first); }));
    Lane& second = world.Open(lower_first ? 1 : 0, lower_first ? 0 : 1);
    CHECK(world.Drive([&] { return IsOpen(second); }));
  }
}

TEST_CASE("bytes written before the other end opened its lane wait in the wire") {
  World world(2);
  world.OpenAll();
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.Drive([&] { return IsOpen(lane); }));
  const auto data = Pattern(1000, 1);
  const Bytes piece = data;
  REQUIRE(lane.Write({&piece, 1}) == 1000);
  CHECK(lane.accepted() == 1000);
  CHECK(lane.released() == 1000);
  Lane& other = world.Open(1, 0);
  Arrived seen;
  REQUIRE(world.Drive([&] { return (seen = other.Peek(1000)).size() == 1000; }));
  CHECK(std::memcmp(seen.first.data(), data.data(), seen.first.size()) == 0);
}

TEST_CASE("large streams keep their order in both directions at once") {
  for (const bool split : {true, false}) {
    World world(2, [&](int, TcpOptions& options) { options.split_local_lanes = split; });
    world.OpenAll();
    const auto a = Pattern(16 << 20, 1);
    const auto b = Pattern((16 << 20) + 12345, 2);
    std::vector<std::byte> at0(b.size()), at1(a.size());
    bool fine0 = false;
    Lane& lane0 = world.Open(0, 1);
    Lane& lane1 = world.Open(1, 0);
    std::thread other([&] { fine0 = Exchange(world[0], lane0, a, at0); });
    const bool fine1 = Exchange(world[1], lane1, b, at1);
    other.join();
    CHECK(fine0);
    CHECK(fine1);
    CHECK(at0 == b);
    CHECK(at1 == a);
  }
}

}  // namespace
}  // namespace rondo::test
