// Which bytes of a stream are lent, and until when.
#include "transport/ib/loans.h"

#include <doctest/doctest.h>

#include <vector>

namespace rondo::ib {
namespace loans_test {

const std::vector<std::byte> memory(1000);
const Region region{.memory = memory, .keys = {}};

TEST_CASE("a stream is made of runs that were copied and runs that are lent") {
  Loans loans;
  loans.Add(100, Bytes(memory).first(50), region);
  loans.Add(150, Bytes(memory).subspan(500, 50), region);
  loans.Add(300, Bytes(memory).subspan(600, 10), region);
  std::string runs;
  for (std::uint64_t at = 40; at < 400;) {
    const Loans::Run run = loans.At(at, 400);
    REQUIRE(run.end > at);
    REQUIRE((run.region == nullptr || run.lent.size() == run.end - at));
    runs += run.region == nullptr ? "copied" : "lent " + std::to_string(run.lent.data() - memory.data());
    runs += (run.is_end ? "| " : " ") + std::to_string(run.end) + ", ";
    at = run.end;
  }
  CHECK(runs == "copied 100, lent 0| 150, lent 500| 200, copied 300, lent 600| 310, copied 400, ");
}

TEST_CASE("a run ends where it is told to, and begins in the midst of a loan") {
  Loans loans;
  loans.Add(100, Bytes(memory).first(50), region);
  const Loans::Run run = loans.At(120, 140);
  CHECK(run.lent.data() == memory.data() + 20);
  CHECK(run.end == 140);
  CHECK_FALSE(run.is_end);
  CHECK(loans.At(140, 150).is_end);
  CHECK(loans.At(10, 20).end == 20);
}

TEST_CASE("everything is released in front of the first byte that is lent") {
  Loans loans;
  CHECK(loans.released(70) == 70);
  loans.Add(100, Bytes(memory).first(50), region);
  loans.Add(200, Bytes(memory).first(50), region);
  CHECK(loans.released(300) == 100);
  CHECK_FALSE(loans.GiveBack(100));  // copied bytes are no news
  CHECK(loans.GiveBack(120));
  CHECK(loans.released(300) == 120);
  CHECK_FALSE(loans.GiveBack(110));
  CHECK(loans.released(300) == 120);
  CHECK(loans.GiveBack(180));
  CHECK(loans.released(300) == 200);
  CHECK(loans.given_back() == 150);
  CHECK(loans.GiveBack(260));
  CHECK(loans.released(300) == 300);
  CHECK(loans.given_back() == 250);
  CHECK_FALSE(loans.GiveBack(300));
}

TEST_CASE("there is room for so many, and again for each that was given back") {
  Loans loans;
  std::uint64_t at = 0;
  for (int round = 0; round < 3; ++round) {
    for (; !loans.full(); at += 20) loans.Add(at, Bytes(memory).first(10), region);
    CHECK(loans.released(at) == at - 20 * Loans::kMost);
    loans.GiveBack(at - 20 * (Loans::kMost / 2));
    CHECK(loans.released(at) == at - 20 * (Loans::kMost / 2));
  }
  loans.Clear();
  CHECK(loans.released(at) == at);
}

}  // namespace loans_test
}  // namespace rondo::ib
