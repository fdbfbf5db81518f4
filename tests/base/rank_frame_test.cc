// Tests how messages name the ranks of a group.
#include "base/rank_frame.h"

#include <doctest/doctest.h>

#include <memory>

#include "base/error.h"

namespace rondo {
namespace rank_frame_test {

const RankFrame kFrame{"tp", {1, 3, 12}};

TEST_CASE("A rank of a group is named by its number in the job, with the group's beside") {
  CHECK(kFrame.Name(1) == "rank 3 (rank 1 of group tp)");
  CHECK(kFrame.Name(3) == "rank 3 of group tp");
  CHECK(NameOfRank(&kFrame, 0) == "rank 1 (rank 0 of group tp)");
  CHECK(NameOfRank(nullptr, 7) == "rank 7");
}

TEST_CASE("Every rank that a text names is named so, lists too, and nothing else changes") {
  CHECK(kFrame.Reword("rank 1 died: rank 0 waits for 1 byte") ==
        "rank 3 (rank 1 of group tp) died: rank 1 (rank 0 of group tp) waits for 1 byte");
  CHECK(kFrame.Reword("missing: rank 0, 2; ranks 0 and 1") ==
        "missing: rank 1 (rank 0 of group tp), rank 12 (rank 2 of group tp); rank 1 (rank 0 of group tp) and rank 3 "
        "(rank 1 of group tp)");
  CHECK(kFrame.Reword("rank 2, on lane 1, step 0, frank 1, ranks, rank of, prank 0") ==
        "rank 12 (rank 2 of group tp), on lane 1, step 0, frank 1, ranks, rank of, prank 0");
  CHECK(kFrame.Reword("").empty());
  CHECK(kFrame.Reword("rank ") == "rank ");
  CHECK(kFrame.Reword("rank 99999999999999999999") == "rank 99999999999999999999");
}

TEST_CASE("A program's own reason for an abort stays as it is") {
  CHECK(kFrame.Reword("rank 1 aborted: rank 0 of my table is empty") ==
        "rank 3 (rank 1 of group tp) aborted: rank 0 of my table is empty");
}

TEST_CASE("An error with a frame names its culprit and its reporter so") {
  ErrorDetails details;
  details.code = ErrorCode::kPeerLost;
  details.message = kFrame.Reword("rank 1 died");
  details.rank = 0;
  details.culprit = 1;
  details.host = "b";
  details.frame = std::make_shared<const RankFrame>(kFrame);
  CHECK(
      Error(details).ToString() ==
      "peer_lost: rank 3 (rank 1 of group tp) died; caused by rank 3 (rank 1 of group tp) (host b); reported by rank 1 "
      "(rank 0 of group tp)");
}

}  // namespace rank_frame_test
}  // namespace rondo
