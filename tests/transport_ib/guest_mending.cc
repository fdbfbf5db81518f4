// Tests a lane whose RDMA port goes down during a transfer. The bytes continue on the next port, or on the base lane if
// no port remains. If neither is possible, the lane's error names the failed port. No byte is lost, duplicated or
// changed.
//
// Must run as root in a virtual machine of tools/dev/lab/rdma_vm (tests/vm). It takes the interface veth1, which the
// device rxe1 uses, down and up. The device rxe2 uses another interface.
#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "base/random.h"
#include "tests/transport_ib/guest_pair.h"

namespace rondo {
namespace {

constexpr std::uint64_t kBefore = 300'000;
constexpr std::uint64_t kAll = 1'000'000;

// How many packets have been sent by the device rxe2 and have reached no queue pair. It sends to itself.
long PacketsLostByRxe2() {
  const auto count = [](const std::string& counter) {
    long value = -1;
    std::ifstream("/sys/class/infiniband/rxe2/ports/1/hw_counters/" + counter) >> value;
    REQUIRE(value >= 0);
    return value;
  };
  return count("sent_pkts") - count("rcvd_pkts");
}

TEST_CASE("the bytes go on by the next port, with those that were on their way") {
  {
    Pair pair({"rxe0+rxe2", "rxe1+rxe2"}, false);
    const long lost_before = PacketsLostByRxe2();
    pair.Exchange(kBefore + 20'000, kBefore, 10'000);
    SetLink(false);
    pair.Exchange(kAll, kAll, 10'000);
    CHECK(pair.wrong() == 0);
    // Neither side has sent before the other could receive: it would have lost some 8 packets. An acknowledgement may
    // be on its way.
    CHECK(PacketsLostByRxe2() - lost_before < 4);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string path = pair[rank].endpoint->DescribePeer(static_cast<Rank>(1 - rank));
      CAPTURE(path);
      CHECK(path.find("ib rxe2:1") == 0);
      CHECK(path.find("RDMA by rxe") != std::string::npos);  // the reason for the change of path names the failed port
      CHECK(pair[rank].endpoint->TransportTo(static_cast<Rank>(1 - rank)) == "ib");
    }
  }
  SetLink(true);
}

TEST_CASE("where no port is left they go by the base lane, if that is allowed") {
  {
    Pair pair({"rxe0", "rxe1"}, true);
    pair.Exchange(kBefore + 20'000, kBefore, 10'000);
    SetLink(false);
    pair.Exchange(kAll, kAll, 10'000);
    CHECK(pair.wrong() == 0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string path = pair[rank].endpoint->DescribePeer(static_cast<Rank>(1 - rank));
      CAPTURE(path);
      CHECK(path.find("no RDMA: ") == 0);
      CHECK(pair[rank].endpoint->TransportTo(static_cast<Rank>(1 - rank)) == "tcp");
    }
    // The lane must still end in an orderly way.
    pair[0].endpoint->ShutDown();
    pair.Until([&] { return pair[1].lane->state() == LaneState::kEnded; });
  }
  SetLink(true);
}

TEST_CASE("where that is not allowed both ends say whose port it was") {
  {
    Pair pair({"rxe0", "rxe1"}, false);
    SetLink(false);
    pair.Until([&] {
      for (std::size_t rank = 0; rank < 2; ++rank)
        if (pair[rank].lane->state() == LaneState::kOpen) pair[rank].Send(kAll, 10'000);
      return pair[0].lane->state() == LaneState::kFailed && pair[1].lane->state() == LaneState::kFailed;
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const Error& error = *pair[rank].lane->failure();
      CAPTURE(error.ToString());
      CHECK(error.code() == ErrorCode::kConnectionReset);
      CHECK(error.culprit() == 1);
      CHECK(error.message().find("RDMA by rxe") != std::string::npos);
    }
  }
  SetLink(true);
}

TEST_CASE("wherever in the stream it happens") {
  Random random(20261124);
  for (int round = 0; round < Rounds(6); ++round) {
    CAPTURE(round);
    {
      const bool spare = round % 2 == 0;
      Pair pair({spare ? "rxe0+rxe2" : "rxe0", spare ? "rxe1+rxe2" : "rxe1"}, true);
      const std::uint64_t read = 1 + random.Below(200'000);
      const std::uint64_t written = read + random.Below(FarthestAhead(kRingBytes));
      const std::size_t most = 1 + random.Below(30'000);
      pair.Exchange(written, read, most);
      SetLink(false);
      pair.Exchange(written + 300'000, written + 300'000, most);
      CHECK(pair.wrong() == 0);
    }
    SetLink(true);
  }
}

}  // namespace
}  // namespace rondo
