// Tests which bytes of a stream are sent without a copy, and when they are released.
#include "transport/ib/zero_copy_sends.h"

#include <doctest/doctest.h>

#include <vector>

namespace rondo::ib {
namespace zero_copy_sends_test {

const std::vector<std::byte> memory(1000);
const Region region{.memory = memory, .keys = {}};

TEST_CASE("a stream is made of runs that were copied and runs that are lent") {
  ZeroCopySends sends;
  sends.Add(100, Bytes(memory).first(50), region);
  sends.Add(150, Bytes(memory).subspan(500, 50), region);
  sends.Add(300, Bytes(memory).subspan(600, 10), region);
  std::string runs;
  for (std::uint64_t at = 40; at < 400;) {
    const ZeroCopySends::Run run = sends.At(at, 400);
    REQUIRE(run.end > at);
    REQUIRE((run.region == nullptr || run.memory.size() == run.end - at));
    runs += run.region == nullptr ? "copied" : "lent " + std::to_string(run.memory.data() - memory.data());
    runs += (run.is_end ? "| " : " ") + std::to_string(run.end) + ", ";
    at = run.end;
  }
  CHECK(runs == "copied 100, lent 0| 150, lent 500| 200, copied 300, lent 600| 310, copied 400, ");
}

TEST_CASE("a run ends at its limit, and may begin in the middle of a send") {
  ZeroCopySends sends;
  sends.Add(100, Bytes(memory).first(50), region);
  const ZeroCopySends::Run run = sends.At(120, 140);
  CHECK(run.memory.data() == memory.data() + 20);
  CHECK(run.end == 140);
  CHECK_FALSE(run.is_end);
  CHECK(sends.At(140, 150).is_end);
  CHECK(sends.At(10, 20).end == 20);
}

TEST_CASE("everything is released in front of the first byte that is lent") {
  ZeroCopySends sends;
  CHECK(sends.released(70) == 70);
  sends.Add(100, Bytes(memory).first(50), region);
  sends.Add(200, Bytes(memory).first(50), region);
  CHECK(sends.released(300) == 100);
  CHECK_FALSE(sends.GiveBack(100));  // copied bytes release nothing
  CHECK(sends.GiveBack(120));
  CHECK(sends.released(300) == 120);
  CHECK_FALSE(sends.GiveBack(110));
  CHECK(sends.released(300) == 120);
  CHECK(sends.GiveBack(180));
  CHECK(sends.released(300) == 200);
  CHECK(sends.given_back() == 150);
  CHECK(sends.GiveBack(260));
  CHECK(sends.released(300) == 300);
  CHECK(sends.given_back() == 250);
  CHECK_FALSE(sends.GiveBack(300));
}

TEST_CASE("there is room for so many, and again for each that was given back") {
  ZeroCopySends sends;
  std::uint64_t at = 0;
  for (int round = 0; round < 3; ++round) {
    for (; !sends.full(); at += 20) sends.Add(at, Bytes(memory).first(10), region);
    CHECK(sends.released(at) == at - 20 * ZeroCopySends::kMax);
    sends.GiveBack(at - 20 * (ZeroCopySends::kMax / 2));
    CHECK(sends.released(at) == at - 20 * (ZeroCopySends::kMax / 2));
  }
  sends.Clear();
  CHECK(sends.released(at) == at);
}

}  // namespace zero_copy_sends_test
}  // namespace rondo::ib
