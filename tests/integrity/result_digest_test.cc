// Tests which ranks are reported to have a different result, given the checksums of all ranks' results.
#include "collectives/integrity/result_digest.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rondo {
namespace result_digest_test {

std::optional<Error> Compared(const std::vector<std::uint32_t>& digests) { return FindOddResults(digests); }

bool Has(const std::optional<Error>& error, const std::string& part) {
  return error && error->message().find(part) != std::string::npos;
}

TEST_CASE("equal results are no error") {
  CHECK(!Compared({}));
  CHECK(!Compared({7}));
  CHECK(!Compared({7, 7, 7}));
  CHECK(!Compared({0, 0}));
}

TEST_CASE("those who differ from more than half of the ranks are named") {
  const auto one = Compared({5, 5, 9, 5});
  REQUIRE(one);
  CHECK(one->code() == ErrorCode::kCorrupt);
  CHECK(one->culprit() == 2);
  CHECK(one->message() == "the ranks got different results; checksums: rank 2 0x00000009, all 3 others 0x00000005");
  const auto two = Compared({8, 5, 5, 9, 5});
  REQUIRE(two);
  CHECK(two->culprit() == 0);
  CHECK(Has(two, "rank 0 0x00000008, rank 3 0x00000009, all 3 others 0x00000005"));
}

TEST_CASE("where no result has more than half of the ranks none is named, and all report it") {
  for (const auto& digests : {std::vector<std::uint32_t>{1, 2}, {1, 1, 2, 2}, {1, 2, 3}, {2, 1, 3, 1}}) {
    const auto error = Compared(digests);
    REQUIRE(error);
    CHECK(error->culprit() == kNoRank);
    CHECK(Has(error, "no majority"));
    for (std::size_t rank = 0; rank < digests.size(); ++rank)
      CHECK(Has(error, "rank " + std::to_string(rank) + " 0x0000000" + std::to_string(digests[rank])));
  }
}

TEST_CASE("of many ranks the text stays short") {
  std::vector<std::uint32_t> digests(4096);
  for (std::uint32_t rank = 0; rank < digests.size(); ++rank) digests[rank] = rank;
  const auto error = Compared(digests);
  REQUIRE(error);
  CHECK(error->message().size() < 760);  // so the message fits into the text of an abort notice
  CHECK(Has(error, "4080 more"));
}

TEST_CASE("all_reduce, broadcast and all_gather give all ranks the same") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllGather})
    CHECK(HasEqualResults(collective));
  for (const Collective collective : {Collective::kBarrier, Collective::kReduce, Collective::kReduceScatter,
                                      Collective::kGather, Collective::kScatter, Collective::kAllToAll})
    CHECK_FALSE(HasEqualResults(collective));
}

}  // namespace result_digest_test
}  // namespace rondo
