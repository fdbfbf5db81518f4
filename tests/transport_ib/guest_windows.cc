// Tests windows: parts of registered memory in which one side expects bytes of its stream. The other side's device must
// write these bytes into the window, nowhere else, and only until the window is consumed or revoked. The test checks
// every byte when it arrives, and overwrites it after it is read. At the end it checks all memory around the windows.
// Ports fail during some of the tests.
//
// Must run as root in a virtual machine of tools/dev/lab/rdma_vm (tests/vm). It takes the interface veth1, which the
// device rxe1 uses, down and up. The device rxe2 uses another interface.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/transport_ib/guest_pair.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMegabyte = 1024 * 1024;
constexpr std::byte kUntouched{0xEE};
constexpr std::byte kRead{0xDD};

// The memory in which a side expects its stream. If byte o of the stream is in a window, it must arrive at offset o of
// this memory. Bytes between windows are read into other memory, so this memory must stay unchanged at their offsets.
class Expected {
 public:
  Expected(Side& side, std::uint64_t bytes) : side_(side) {
    auto memory = side.transport->Allocate(bytes);
    REQUIRE(memory);
    memory_ = std::move(*memory);
    std::fill(all().begin(), all().end(), kUntouched);
    reach_ = side.read;
  }

  MutableBytes all() const { return memory_->bytes(); }
  std::uint64_t reach() const { return reach_; }
  std::uint64_t direct() const { return direct_; }
  bool Expect(std::uint64_t begin, std::uint64_t bytes) {
    if (!side_.lane->Expect(begin, all().subspan(begin, bytes))) return false;
    windows_.push_back({begin, begin + bytes});
    reach_ = begin + bytes;
    return true;
  }
  // Expects the stream in a few random windows ahead of the read position. They have at most `most` bytes each, and
  // some are adjacent.
  void ExpectSome(Random& random, std::uint64_t most) {
    for (std::uint64_t left = 1 + random.Below(4); left > 0; --left) {
      const std::uint64_t begin = std::max(reach_, side_.read) + random.Below(2) * random.Below(200);
      const std::uint64_t bytes = 1 + random.Below(most);
      if (begin + bytes > all().size() || !Expect(begin, bytes)) return;
    }
  }

  // Reads bytes that have arrived, but at most `most` bytes.
  void Read(std::size_t most) {
    const std::uint64_t until = side_.read + most;
    for (std::uint64_t before = side_.read; ReadPart(until), side_.read != before && side_.read < until;)
      before = side_.read;
  }

  // Whether all bytes that were read from windows still have the value that the test wrote after reading them, and
  // whether all memory outside of windows is unchanged.
  bool Intact() const {
    std::size_t window = 0;
    for (std::uint64_t at = 0; at < all().size(); ++at) {
      while (window < windows_.size() && windows_[window].end <= at) ++window;
      const bool inside = window < windows_.size() && windows_[window].begin <= at;
      if (!inside && all()[at] != kUntouched) return false;
      if (inside && at < side_.read && all()[at] != kRead) return false;
    }
    return true;
  }

 private:
  struct Window {
    std::uint64_t begin;
    std::uint64_t end;
  };
  // Reads bytes of one window, or bytes between two windows.
  void ReadPart(std::uint64_t until) {
    while (next_ < windows_.size() && windows_[next_].end <= side_.read) ++next_;
    const bool inside = next_ < windows_.size() && windows_[next_].begin <= side_.read;
    if (next_ < windows_.size()) until = std::min(until, inside ? windows_[next_].end : windows_[next_].begin);
    if (!inside) return side_.Read(until - side_.read);
    const MutableBytes place = all().subspan(side_.read, until - side_.read);
    const Arrived arrived = side_.lane->Peek(place.size());
    for (const Bytes run : {arrived.first, arrived.second})
      if (run.data() >= place.data() && run.data() < place.data() + place.size())
        direct_ += std::min<std::size_t>(run.size(), place.data() + place.size() - run.data());
    const std::size_t got = side_.lane->ReadInto(place);
    for (std::size_t i = 0; i < got; ++i) side_.wrong += place[i] != Pattern(1 - side_.rank, side_.read + i);
    std::fill_n(place.begin(), got, kRead);
    side_.read += got;
  }

  Side& side_;
  std::unique_ptr<Memory> memory_;
  std::vector<Window> windows_;
  std::size_t next_ = 0;
  std::uint64_t reach_ = 0;
  std::uint64_t direct_ = 0;
};

TEST_CASE("bytes that are expected in time arrive in place before any read, and are read without a copy") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  REQUIRE(pair[0].transport->capabilities().push);
  for (const bool lent : {false, true}) {
    CAPTURE(lent);
    if (lent) pair[0].Allocate(kMegabyte);
    const std::uint64_t begin = pair[1].read + 100;
    Expected expected(pair[1], kMegabyte);
    REQUIRE(expected.Expect(begin, 200'000));
    // The window is advertised in the owner's next Poll, and the peer learns of it in its own next Poll.
    for (int i = 0; i < 100; ++i) pair.Poll();
    const std::uint64_t end = begin + 300'000;
    pair.Until([&] {
      pair[0].Send(end, 100'000);
      return pair[0].sent == end;
    });
    const MutableBytes window = expected.all().subspan(begin, 200'000);
    pair.Until([&] { return window.back() == Pattern(0, begin + 199'999); });
    for (std::size_t i = 0; i < window.size(); ++i) REQUIRE(window[i] == Pattern(0, begin + i));
    CHECK(pair[1].lane->consumed() < begin);
    pair.Until([&] {
      expected.Read(30'000);
      return pair[1].read == end;
    });
    CHECK(expected.direct() == 200'000);
    CHECK(pair.wrong() == 0);
    CHECK(expected.Intact());
  }
}

TEST_CASE("what was sent before it was expected comes by the ring, and what follows goes there") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  Expected expected(pair[1], kMegabyte);
  const auto send = [&](std::uint64_t until) {
    pair.Until([&] {
      pair[0].Send(until, 20'000);
      return pair[0].sent == until;
    });
    for (int i = 0; i < 100; ++i) pair.Poll();
  };
  send(150'000);
  REQUIRE(expected.Expect(50'000, 50'000));    // all bytes of this window have already arrived
  REQUIRE(expected.Expect(100'000, 100'000));  // half of the bytes of this window have already arrived
  for (int i = 0; i < 100; ++i) pair.Poll();
  send(250'000);
  CHECK(expected.all()[149'999] == kUntouched);
  CHECK(expected.all()[150'000] == Pattern(0, 150'000));
  pair.Until([&] {
    expected.Read(30'000);
    return pair[1].read == 250'000;
  });
  CHECK(expected.direct() == 50'000);
  CHECK(pair.wrong() == 0);
  CHECK(expected.Intact());
}

TEST_CASE("memory that is not registered is no window, nor that which is not any more") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  Lane& lane = *pair[1].lane;
  std::vector<std::byte> bytes(100'000);
  const MutableBytes memory(bytes);
  CHECK_FALSE(lane.Expect(1000, memory));
  auto registration = pair[1].transport->Register(memory.subspan(1, 90'000));
  REQUIRE_MESSAGE(registration, registration.error().ToString());
  CHECK_FALSE(lane.Expect(1000, memory.first(10)));
  CHECK_FALSE(lane.Expect(1000, memory.subspan(90'000, 2)));
  // The memory is registered with the other side's transport, so it cannot be advertised.
  CHECK_FALSE(pair[0].lane->Expect(1000, memory.subspan(1, 90'000)));
  CHECK(lane.Expect(1000, memory.subspan(1, 10)));
  pair.Exchange(2000, 1010, 1000);
  CHECK(pair.wrong() == 0);
  registration->reset();
  CHECK_FALSE(lane.Expect(5000, memory.subspan(1, 10)));
}

TEST_CASE("windows of any size, in rings of any size, hold what was sent there, and nothing else is touched") {
  for (const std::size_t ring : {std::size_t{4096}, std::size_t{64 * 1024}, kMegabyte})
    for (const bool lent : {false, true}) {
      CAPTURE(ring);
      CAPTURE(lent);
      Pair pair({"rxe0", "rxe1"}, false, ring);
      Random random(ring + lent);
      const std::uint64_t all = std::min(2 * kMegabyte, 100 * ring);
      std::vector<std::unique_ptr<Expected>> expected;
      for (std::size_t rank = 0; rank < 2; ++rank) {
        if (lent) pair[rank].Allocate(all);
        expected.push_back(std::make_unique<Expected>(pair[rank], all));
      }
      pair.Until([&] {
        bool done = true;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          if (random.Below(3) == 0) expected[rank]->ExpectSome(random, random.Below(2) == 0 ? 3000 : ring);
          pair[rank].Send(all, 1 + random.Below(random.Below(2) == 0 ? 2000 : ring / 4));
          if (random.Below(2) == 0) expected[rank]->Read(1 + random.Below(ring / 2));
          done = done && pair[rank].sent == all && pair[rank].read == all;
        }
        return done;
      });
      for (const auto& one : expected) {
        CHECK(one->direct() > 0);
        CHECK(one->Intact());
      }
      CHECK(pair.wrong() == 0);
    }
}

TEST_CASE("only so many windows are granted at a time, and others when these are read, also where all goes one way") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  constexpr std::uint64_t kEach = 100;
  constexpr std::uint64_t kAll = kMegabyte / 2;
  Expected expected(pair[1], kAll + 1000);
  std::uint64_t refused = 0;
  while (expected.reach() + kEach <= kAll)
    if (!expected.Expect(expected.reach(), kEach)) {
      REQUIRE(++refused < 5000);
      for (int i = 0; i < 20; ++i) pair.Poll();
      pair[0].Send(std::min(pair[0].sent + 1000, kAll), 1000);
      pair.Until([&] {
        expected.Read(1000);
        return pair[1].read == pair[0].sent;
      });
    }
  pair.Until([&] {
    pair[0].Send(kAll, 10'000);
    expected.Read(10'000);
    return pair[1].read == kAll;
  });
  CHECK(refused > 0);
  CHECK(expected.direct() > kAll / 2);
  CHECK(pair.wrong() == 0);
  CHECK(expected.Intact());
}

TEST_CASE("a rank that gives a lane up has its buffers back at once, whatever the other side does") {
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
    pair[0].Allocate(kMegabyte);
    auto expected = std::make_unique<Expected>(pair[1], kMegabyte);
    REQUIRE(expected->Expect(expected->reach(), 900'000));
    for (int i = 0; i < 20; ++i) pair.Poll();
    pair[0].SendLent(round * 100'000, 50'000);
    pair[0].SendLent(900'000, 100'000);
    for (int polls = 0; polls < round; ++polls) pair.Poll();
    pair[1].lane->Revoke();
    std::fill(expected->all().begin(), expected->all().end(), kRead);
    for (int i = 0; i < 200; ++i) {
      pair[0].endpoint->Poll(SteadyClock().Now());
      if (pair[0].lane->state() == LaneState::kOpen) pair[0].SendLent(900'000, 100'000);
    }
    CHECK(std::all_of(expected->all().begin(), expected->all().end(), [](std::byte b) { return b == kRead; }));
    CHECK_FALSE(pair[1].lane->Expect(1'000'000, expected->all()));
    expected.reset();
    pair.Until([&] { return pair[0].lane->state() != LaneState::kOpen; });
  }
}

TEST_CASE("wherever in a window its port goes down, the rest comes by the ring, or by the base lane") {
  Random random(20261126);
  std::uint64_t direct = 0;
  for (int round = 0; round < Rounds(8); ++round) {
    CAPTURE(round);
    {
      const bool spare = round % 2 == 0;
      const std::size_t ring = round % 4 < 2 ? kMegabyte : 128 * 1024;
      Pair pair({spare ? "rxe0+rxe2" : "rxe0", spare ? "rxe1+rxe2" : "rxe1"}, true, ring);
      constexpr std::uint64_t kAll = 2 * kMegabyte;
      std::vector<std::unique_ptr<Expected>> expected;
      for (std::size_t rank = 0; rank < 2; ++rank) {
        pair[rank].Allocate(kAll);
        expected.push_back(std::make_unique<Expected>(pair[rank], kAll));
      }
      const std::size_t most = 5000 + random.Below(200'000);
      const auto go_on = [&](std::uint64_t sent, std::uint64_t read) {
        pair.Until([&] {
          bool done = true;
          for (std::size_t rank = 0; rank < 2; ++rank) {
            Side& side = pair[rank];
            if (random.Below(2) == 0) expected[rank]->ExpectSome(random, 150'000);
            side.Send(std::max(sent, side.sent), most);
            if (side.read < read) expected[rank]->Read(std::min<std::uint64_t>(most, read - side.read));
            done = done && side.sent >= sent && side.read >= read;
            REQUIRE_MESSAGE(side.lane->state() == LaneState::kOpen,
                            (side.lane->failure() == nullptr ? "ended" : side.lane->failure()->ToString()));
          }
          return done;
        });
      };
      const std::uint64_t read = 1 + random.Below(kMegabyte);
      // The sender is at most half a ring ahead of the reader, because the reader reports its progress only after each
      // quarter of a ring.
      const std::uint64_t sent = read + random.Below(ring / 2);
      go_on(sent, read);
      SetLink(false);
      go_on(kAll, kAll);
      for (const auto& one : expected) {
        direct += one->direct();
        CHECK(one->Intact());
      }
      CHECK(pair.wrong() == 0);
      const std::string path = pair[0].endpoint->DescribePeer(1);
      CAPTURE(path);
      CHECK(path.find(spare ? "ib rxe2:1" : "no RDMA: ") == 0);
    }
    SetLink(true);
  }
  CHECK(direct > 4 * kMegabyte);
}

}  // namespace
}  // namespace rondo
