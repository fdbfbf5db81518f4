// Tests that registered memory is sent without a copy, and is released when the device knows that the bytes have
// arrived. The test overwrites the memory as soon as it is released, and checks every byte when it arrives. Ports fail
// during some of the tests.
//
// Must run as root in a virtual machine of tools/dev/lab/rdma_vm (tests/vm). It takes the interface veth1, which the
// device rxe1 uses, down and up. The device rxe2 uses another interface.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/transport_ib/guest_pair.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMegabyte = 1024 * 1024;

bool AllReleased(Pair& pair) {
  bool all = true;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    pair[rank].OverwriteReleased();
    all = all && pair[rank].lane->released() == pair[rank].sent;
  }
  return all;
}

void SendZeroCopy(Pair& pair, std::uint64_t bytes) {
  for (std::size_t rank = 0; rank < 2; ++rank) pair[rank].Allocate(bytes);
}

TEST_CASE("what is overwritten when it is released arrives as it was, in rings of any size") {
  for (const std::size_t ring : {std::size_t{4096}, std::size_t{32 * 1024}, std::size_t{64 * 1024}, kMegabyte}) {
    CAPTURE(ring);
    Pair pair({"rxe0", "rxe1"}, false, ring);
    SendZeroCopy(pair, 5 * kMegabyte);
    pair.Exchange(kMegabyte, kMegabyte, 20'000);
    pair.Exchange(2 * kMegabyte, 2 * kMegabyte, 300'000);
    pair.Exchange(5 * kMegabyte, 5 * kMegabyte, 2 * kMegabyte);
    pair.Until([&] { return AllReleased(pair); });
    CHECK(pair.wrong() == 0);
  }
}

TEST_CASE("memory is sent without a copy, and released when it has arrived, although it is unread") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  pair[0].Allocate(kMegabyte);
  REQUIRE(pair[0].transport->capabilities().late_release);
  pair[0].SendLent(600'000, 300'000);
  CHECK(pair[0].sent == 600'000);
  CHECK(pair[0].lane->released() < 600'000);
  pair.Until([&] { return pair[0].lane->released() == 600'000; });
  CHECK(pair[1].read == 1);
}

TEST_CASE("small pieces, and those of other memory, are released at once") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  pair[0].Allocate(kMegabyte);
  pair[0].SendLent(20'000, 10'000);
  CHECK(pair[0].lane->released() == pair[0].lane->accepted());
  const std::vector<std::byte> other(100'000);
  const Bytes piece(other);
  REQUIRE(pair[0].lane->Write(std::span(&piece, 1)) == other.size());
  CHECK(pair[0].lane->released() == pair[0].lane->accepted());
}

TEST_CASE("memory of the user is sent without a copy while it is registered, wherever it begins, and no longer") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  std::vector<std::byte> bytes(200'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = Pattern(0, 1 + i % 100'000);
  auto registration = pair[0].transport->Register(MutableBytes(bytes).subspan(3, 150'000));
  REQUIRE_MESSAGE(registration, registration.error().ToString());
  Lane& lane = *pair[0].lane;
  const auto write = [&](Bytes piece) {
    REQUIRE(lane.Write(std::span(&piece, 1)) == piece.size());
    const bool zero_copy = lane.released() < lane.accepted();
    pair.Until([&] { return lane.released() == lane.accepted(); });
    return zero_copy;
  };
  CHECK(write(Bytes(bytes).subspan(3, 100'000)));
  CHECK_FALSE(write(Bytes(bytes).subspan(2, 100'000)));
  CHECK_FALSE(write(Bytes(bytes).subspan(60'000, 100'000)));
  registration->reset();
  CHECK_FALSE(write(Bytes(bytes).subspan(3, 100'000)));
}

TEST_CASE("an owner that sleeps until all is released is woken") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
  Side& side = pair[0];
  side.Allocate(40 * kMegabyte);
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    side.SendLent(side.sent + 16 * 1024 + random.Below(60'000), kMegabyte);
    while (side.lane->released() < side.lane->accepted()) {
      if (!side.endpoint->Arm()) {
        pollfd news{.fd = side.endpoint->wait_fd(), .events = POLLIN, .revents = 0};
        REQUIRE(poll(&news, 1, 5000) == 1);
      }
      side.endpoint->Disarm();
      side.endpoint->Poll(SteadyClock().Now());
    }
    side.OverwriteReleased();
    while (pair[1].read < side.sent) {
      pair.Poll();
      pair[1].Read(100'000);
    }
  }
  CHECK(pair.wrong() == 0);
}

TEST_CASE("after a revocation memory of a zero-copy send is the user's at once, to overwrite and to free") {
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    Pair pair({"rxe0", "rxe1"}, false, kMegabyte);
    pair[0].Allocate(2 * kMegabyte);
    pair[0].SendLent(kMegabyte, 200'000 + static_cast<std::size_t>(round) * 10'000);
    for (int polls = 0; polls < round; ++polls) pair.Poll();
    const TimePoint before = SteadyClock().Now();
    pair[0].lane->Revoke();
    CHECK(SteadyClock().Now() - before < std::chrono::seconds(10));
    const MutableBytes all = pair[0].source.memory->bytes();
    std::fill(all.begin(), all.end(), std::byte{0xDD});
    pair[0].source.memory.reset();
    pair.Until([&] {
      pair[1].Read(300'000);
      return pair[1].lane->state() != LaneState::kOpen;
    });
    CHECK(pair[1].read <= pair[0].sent);
    CHECK(pair.wrong() == 0);
  }
}

TEST_CASE("wherever in the stream its port goes down, a zero-copy send goes on by the next or by the base lane") {
  Random random(20261125);
  for (int round = 0; round < Rounds(8); ++round) {
    CAPTURE(round);
    {
      const bool spare = round % 2 == 0;
      const std::size_t ring = round % 4 < 2 ? kMegabyte : 128 * 1024;
      Pair pair({spare ? "rxe0+rxe2" : "rxe0", spare ? "rxe1+rxe2" : "rxe1"}, true, ring);
      SendZeroCopy(pair, 4 * kMegabyte);
      const std::uint64_t read = 1 + random.Below(kMegabyte);
      const std::uint64_t written = read + random.Below(FarthestAhead(ring));
      const std::size_t most = 1 + random.Below(200'000);
      pair.Exchange(written, read, most);
      SetLink(false);
      pair.Exchange(written + 2 * kMegabyte, written + 2 * kMegabyte, most);
      pair.Until([&] { return AllReleased(pair); });
      CHECK(pair.wrong() == 0);
      const std::string path = pair[0].endpoint->DescribePeer(1);
      CAPTURE(path);
      CHECK(path.find(spare ? "ib rxe2:1" : "no RDMA: ") == 0);
    }
    SetLink(true);
  }
}

}  // namespace
}  // namespace rondo
