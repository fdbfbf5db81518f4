// Tests which bytes of a stream belong to advertised buffers, as the receiver and the sender compute it.
#include "transport/ib/advertised_buffers.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace rondo::ib {
namespace advertised_buffers_test {

class Received {
 public:
  AdvertisedBuffers buffers;
  MutableBytes At(std::size_t from, std::size_t bytes) { return MutableBytes(memory_).subspan(from, bytes); }
  void Tell() {
    while (buffers.Unadvertised(0) > 0) buffers.OnAdvertised(1);
  }
  std::string Runs(std::uint64_t from, std::uint64_t until) const {
    std::string runs;
    while (from < until) {
      const AdvertisedBuffers::Run run = buffers.At(from, until);
      REQUIRE(run.end > from);
      REQUIRE((run.direct.empty() || run.direct.size() == run.end - from));
      runs += run.direct.empty() ? "ring" : "window " + std::to_string(run.direct.data() - memory_.data());
      runs += " " + std::to_string(from = run.end) + ", ";
    }
    return runs;
  }

 private:
  std::array<std::byte, 1000> memory_{};
};

TEST_CASE("what came by windows lies there, and all else in the ring") {
  Received r;
  r.buffers.Add(100, r.At(0, 50), 7);
  r.buffers.Add(150, r.At(500, 50), 7);
  r.buffers.Add(300, r.At(600, 100), 7);
  CHECK(r.Runs(0, 400) == "ring 400, ");
  r.Tell();
  CHECK(r.buffers.Take(100, 50));
  CHECK(r.buffers.Take(150, 20));
  CHECK(r.buffers.Take(170, 30));
  CHECK(r.buffers.Take(360, 20));  // the first 60 bytes came through the ring
  CHECK(r.Runs(90, 380) == "ring 100, window 0 150, window 500 200, ring 360, window 660 380, ");
  CHECK(r.Runs(120, 160) == "window 20 150, window 500 160, ");
  CHECK(r.Runs(310, 370) == "ring 360, window 660 370, ");
}

TEST_CASE("nothing arrives in a buffer that does not exist, or is not advertised, or beyond its end, or with a gap") {
  Received r;
  CHECK_FALSE(r.buffers.Take(0, 1));
  r.buffers.Add(100, r.At(0, 50), 7);
  CHECK_FALSE(r.buffers.Take(100, 50));
  r.Tell();
  CHECK_FALSE(r.buffers.Take(99, 2));
  CHECK_FALSE(r.buffers.Take(100, 51));
  CHECK_FALSE(r.buffers.Take(150, 1));
  CHECK_FALSE(r.buffers.Take(140, std::numeric_limits<std::uint64_t>::max()));
  CHECK(r.buffers.Take(110, 10));
  CHECK_FALSE(r.buffers.Take(130, 10));
  CHECK(r.buffers.Take(120, 30));
}

TEST_CASE("a buffer is advertised as it is, once, unless all its bytes have arrived") {
  Received r;
  r.buffers.Add(100, r.At(0, 50), 7);
  r.buffers.Add(150, r.At(500, 50), 8);
  CHECK(r.buffers.Unadvertised(149) == 2);
  REQUIRE(r.buffers.Unadvertised(150) == 1);
  const Grant grant = r.buffers.UnadvertisedAt(0);
  CHECK(grant.begin == 150);
  CHECK(grant.bytes == 50);
  CHECK(grant.address == reinterpret_cast<std::uintptr_t>(r.At(500, 1).data()));
  CHECK(grant.key == 8);
  r.buffers.OnAdvertised(1);
  CHECK(r.buffers.Unadvertised(150) == 0);
  CHECK_FALSE(r.buffers.Take(100, 50));
  CHECK(r.buffers.Take(150, 50));
}

TEST_CASE("when the connection is gone nothing more comes by its windows, and what has come stays") {
  Received r;
  r.buffers.Add(100, r.At(0, 50), 7);
  r.buffers.Add(150, r.At(500, 50), 7);
  r.Tell();
  r.buffers.Add(200, r.At(600, 50), 7);
  REQUIRE(r.buffers.Take(100, 20));
  r.buffers.Disconnect();
  CHECK(r.buffers.Unadvertised(0) == 0);
  CHECK_FALSE(r.buffers.Take(120, 10));
  CHECK_FALSE(r.buffers.Take(150, 10));
  CHECK(r.Runs(100, 250) == "window 0 120, ring 250, ");
  r.buffers.Add(250, r.At(700, 50), 9);
  CHECK(r.buffers.Unadvertised(0) == 1);
  r.buffers.OnAdvertised(1);
  CHECK_FALSE(r.buffers.Take(200, 10));
  CHECK(r.buffers.Take(250, 10));
}

TEST_CASE("room grows by what is consumed, whether it was advertised or not") {
  Received r;
  std::uint64_t begin = 0;
  while (!r.buffers.full()) r.buffers.Add(std::exchange(begin, begin + 10), r.At(0, 10), 7);
  CHECK(begin == 10 * kMaxAdvertised);
  r.buffers.OnAdvertised(3);
  r.buffers.Consume(9);
  CHECK(r.buffers.full());
  r.buffers.Consume(55);
  CHECK_FALSE(r.buffers.full());
  CHECK(r.buffers.Unadvertised(0) == kMaxAdvertised - 5);
  CHECK(r.buffers.UnadvertisedAt(0).begin == 50);
  for (int i = 0; i < 5; ++i) r.buffers.Add(std::exchange(begin, begin + 10), r.At(0, 10), 7);
  CHECK(r.buffers.full());
  CHECK(r.buffers.UnadvertisedAt(kMaxAdvertised - 1).begin == 10 * kMaxAdvertised + 40);
  r.buffers.Clear();
  CHECK(r.buffers.empty());
  CHECK(r.buffers.Unadvertised(0) == 0);
}

Grant At(std::uint64_t begin, std::uint64_t bytes) { return {.begin = begin, .bytes = bytes, .address = begin + 5000}; }

TEST_CASE("a sender goes from ring to buffer to ring, as advertised by then") {
  Grants grants;
  const auto way = [&](std::uint64_t from, std::uint64_t until) {
    const Grant* const grant = grants.At(from, until);
    return (grant == nullptr ? "ring to " : std::to_string(grant->begin) + " to ") + std::to_string(until);
  };
  CHECK(way(0, 500) == "ring to 500");
  REQUIRE(grants.Add(At(100, 50), 20));
  REQUIRE(grants.Add(At(150, 50), 20));
  REQUIRE(grants.Add(At(300, 50), 20));
  CHECK(way(20, 90) == "ring to 90");
  CHECK(way(20, 500) == "ring to 100");
  CHECK(way(100, 500) == "100 to 150");
  CHECK(way(120, 130) == "100 to 130");
  CHECK(way(150, 500) == "150 to 200");
  CHECK(way(200, 500) == "ring to 300");
  CHECK(way(340, 500) == "300 to 350");
  CHECK(way(350, 500) == "ring to 500");
}

TEST_CASE("a grant that comes late counts from where the sender is; too many, or some that overlap, are none") {
  Grants grants;
  CHECK(grants.Add(At(100, 50), 200));
  std::uint64_t until = 500;
  CHECK(grants.At(200, until) == nullptr);
  CHECK(until == 500);
  CHECK_FALSE(grants.Add(At(149, 50), 200));
  CHECK_FALSE(grants.Add(At(200, 0), 200));
  CHECK_FALSE(grants.Add(At(200, std::numeric_limits<std::uint64_t>::max()), 200));
  for (std::uint64_t i = 0; i < kMaxAdvertised; ++i) REQUIRE(grants.Add(At(200 + 10 * i, 10), 200));
  CHECK_FALSE(grants.Add(At(5000, 10), 209));
  CHECK(grants.Add(At(5000, 10), 210));
}

}  // namespace advertised_buffers_test
}  // namespace rondo::ib
