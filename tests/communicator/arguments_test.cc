// The arguments of calls: which pointers are ignored, what in place means for each collective, and which arguments are
// refused before anything starts.
#include <doctest/doctest.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/ranks.h"

namespace rondo {
namespace arguments_test {

using Values = std::vector<std::int32_t>;
constexpr DataType kType = DataType::kInt32;
constexpr ReduceOp kSum = ReduceOp::kSum;

// The error of a call that must be refused.
struct Refused {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};
Refused RefusalOf(const Status& status) {
  if (status) return {ErrorCode::kInternal, "was not refused"};
  return {status.error().code(), status.error().message()};
}

void CheckRefused(const Status& status, ErrorCode code, const std::string& text) {
  const Refused refused = RefusalOf(status);
  CHECK(refused.code == code);
  CAPTURE(refused.message);
  CHECK(refused.message.find(text) != std::string::npos);
}
void CheckInvalid(const Status& status, const std::string& text) {
  CheckRefused(status, ErrorCode::kInvalidArgument, text);
}

TEST_CASE("pointers that a rank's part ignores may be null") {
  InprocNetwork network(3);
  OnRanks(network, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const std::vector<std::uint64_t> counts{1, 0, 4};
    for (Rank root = 0; root < 3; ++root) {
      const bool at_root = rank == root;
      Values own(4, rank), all(12, -1), sums(4);
      CHECK(communicator.Reduce(own.data(), at_root ? sums.data() : nullptr, 4, kType, kSum, root));
      if (at_root) CHECK(sums == Values(4, 3));
      CHECK(communicator.Gather(own.data(), at_root ? all.data() : nullptr, 4, kType, root));
      if (at_root) CHECK(all == Values{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
      Values part(4, -1);
      CHECK(communicator.Scatter(at_root ? all.data() : nullptr, part.data(), 4, kType, root));
      CHECK(part == Values(4, rank));
      // Rank 1 has no elements, so it needs no memory.
      const std::uint64_t count = counts[static_cast<std::size_t>(rank)];
      const std::span<const std::uint64_t> known = at_root ? std::span(counts) : std::span<const std::uint64_t>();
      CHECK(communicator.GatherV(count > 0 ? own.data() : nullptr, count, at_root ? all.data() : nullptr, known, kType,
                                 root));
      if (at_root) CHECK(Values(all.begin(), all.begin() + 5) == Values{0, 2, 2, 2, 2});
      CHECK(communicator.ScatterV(at_root ? all.data() : nullptr, known, count > 0 ? part.data() : nullptr, count,
                                  kType, root));
    }
    CHECK(communicator.AllReduce(nullptr, nullptr, 0, kType, kSum));
    CHECK(communicator.AllGather(nullptr, nullptr, 0, kType));
    CHECK(communicator.ReduceScatter(nullptr, nullptr, 0, kType, kSum));
    CHECK(communicator.AllToAll(nullptr, nullptr, 0, kType));
    CHECK(communicator.Close());
  });
}

TEST_CASE("an output of no elements leaves the input as it was") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    const std::vector<std::uint64_t> counts{0, 5};
    Values input(5, communicator.rank() + 1), output(5);
    CHECK(communicator.ReduceScatterV(input.data(), communicator.rank() == 0 ? nullptr : output.data(), counts, kType,
                                      kSum));
    CHECK(input == Values(5, communicator.rank() + 1));
    if (communicator.rank() == 1) CHECK(output == Values(5, 3));
    CHECK(communicator.Close());
  });
}

TEST_CASE("buffers that overlap otherwise than in place are refused, and the error says what in place is") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    Values a(20);
    const Rank rank = communicator.rank();
    std::int32_t* const other_block = a.data() + (rank == 0 ? 5 : 0);
    CheckInvalid(communicator.AllReduce(a.data(), a.data() + 1, 5, kType, kSum), "not the same memory");
    CheckInvalid(communicator.AllGather(other_block, a.data(), 5, kType),
                 "input is not this rank's block of the output");
    CheckInvalid(communicator.ReduceScatter(a.data(), other_block, 5, kType, kSum),
                 "output is not this rank's block of the input");
    CheckRefused(communicator.AllToAll(a.data(), a.data(), 5, kType), ErrorCode::kUnsupported,
                 "all_to_all has no in-place form");
    CheckInvalid(communicator.AllToAll(a.data(), a.data() + 9, 5, kType), "overlap");
    if (rank == 0) {
      CheckInvalid(communicator.Gather(a.data() + 5, a.data(), 5, kType, 0), "input is not the root's block");
      CheckInvalid(communicator.Scatter(a.data(), a.data() + 5, 5, kType, 0), "output is not the root's block");
    }
    CHECK(communicator.Barrier());  // no refused call has started anything
    CHECK(communicator.Close());
  });
}

TEST_CASE("counts that cannot be are refused and named") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    Values a(100), b(100);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    using Counts = std::vector<std::uint64_t>;
    const std::uint64_t huge = ~std::uint64_t{0} / 8;
    CheckInvalid(communicator.AllGather(a.data(), b.data(), huge, kType), "more than memory can hold");
    CheckInvalid(communicator.AllGatherV(a.data(), b.data(), Counts{1, huge * 4}, kType), "counts[1]");
    CheckInvalid(communicator.AllGatherV(a.data(), b.data(), Counts{1}, kType),
                 "counts has 1 entries, but there are 2");
    CheckInvalid(communicator.ReduceScatterV(a.data(), b.data(), Counts{1, 2, 3}, kType, kSum), "counts has 3 entries");
    CheckInvalid(communicator.AllToAllV(a.data(), Counts{1}, b.data(), Counts{1, 1}, kType), "input_counts has 1");
    CheckInvalid(communicator.AllToAllV(a.data(), Counts{1, 1}, b.data(), Counts{}, kType), "output_counts has 0");
    CheckInvalid(communicator.AllToAllV(a.data(), Counts{2, 2}, b.data(), Counts{3, 3}, kType),
                 "from this rank to itself");
    if (rank == 0) {
      CheckInvalid(communicator.GatherV(a.data(), 3, b.data(), Counts{2, 2}, kType, 0), "the root's own count is 3");
      CheckInvalid(communicator.ScatterV(a.data(), Counts{}, b.data(), 0, kType, 0), "counts has 0 entries");
    }
    CHECK(communicator.Barrier());
    CHECK(communicator.Close());
  });
}

TEST_CASE("null where elements are due, roots outside the world and algorithms that do not fit are refused") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    Values a(100), b(100);
    CheckInvalid(communicator.AllGather(nullptr, b.data(), 3, kType),
                 "input is null, but 3 elements are expected there");
    CheckInvalid(communicator.AllGather(a.data(), nullptr, 3, kType),
                 "output is null, but 6 elements are expected there");
    CheckInvalid(communicator.Reduce(a.data(), b.data(), 3, kType, kSum, 2), "root 2 is outside 0..1");
    CheckInvalid(communicator.Gather(a.data(), b.data(), 3, kType, -1), "root -1 is outside 0..1");
    CheckInvalid(communicator.Scatter(a.data(), b.data(), 3, static_cast<DataType>(99), 0), "99 is not a data type");
    CheckInvalid(communicator.Reduce(a.data(), b.data(), 3, DataType::kFloat32, ReduceOp::kBand, 0), "band");
    CheckInvalid(communicator.AllReduce(a.data(), b.data(), 3, kType, UserOp(3)),
                 "user_3 is not defined: this communicator has");
    CheckInvalid(communicator.AllToAll(a.data(), b.data(), 3, kType, {.algorithm = Algorithm::kDissemination}),
                 "dissemination does not support all_to_all");
    CheckInvalid(communicator.AllToAllV(a.data(), std::vector<std::uint64_t>{1, 1}, b.data(),
                                        std::vector<std::uint64_t>{1, 1}, kType, {.algorithm = Algorithm::kBruck}),
                 "it needs equal counts");
    CheckInvalid(communicator.ReduceScatter(a.data(), b.data(), 3, kType, kSum,
                                            {.algorithm = Algorithm::kRing, .reproducible = true}),
                 "left fold in rank order");
    CHECK(communicator.Barrier());
    CHECK(communicator.Close());
  });
}

// Every rank calls `call`. Every rank must get a mismatch error, either from the call or from Close. The error's text
// must contain all of `words`.
template <typename Call>
void CheckMismatch(int world, const std::vector<std::string>& words, const Call& call) {
  InprocNetwork network(world);
  std::mutex mutex;
  std::vector<std::string> texts;
  OnRanks(network, [&](Communicator& communicator) {
    Status status = call(communicator);
    if (status) status = communicator.Close();
    const std::lock_guard lock(mutex);
    texts.push_back(TextOf(status));
  });
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("mismatch") == 0);
    for (const std::string& word : words) CHECK(text.find(word) != std::string::npos);
  }
}

TEST_CASE("ranks in different collectives learn which, all of them") {
  CheckMismatch(3, {"all_gather int32 x 5", "all_to_all int32 x 5"}, [](Communicator& communicator) {
    Values a(15), b(15);
    if (communicator.rank() == 2) return communicator.AllToAll(a.data(), b.data(), 5, kType);
    return communicator.AllGather(a.data(), b.data(), 5, kType);
  });
}

TEST_CASE("ranks that give different counts to a collective with a block per rank learn both") {
  CheckMismatch(3, {"reduce_scatter int32 x 5 ", "reduce_scatter int32 x 4 "}, [](Communicator& communicator) {
    Values a(15), b(15);
    return communicator.ReduceScatter(a.data(), b.data(), communicator.rank() == 1 ? 4 : 5, kType, kSum);
  });
}

TEST_CASE("ranks that give different counts in all learn both totals") {
  CheckMismatch(2, {"all_gather_v int32 x 8 ", "all_gather_v int32 x 9 "}, [](Communicator& communicator) {
    Values a(15), b(15);
    const std::vector<std::uint64_t> counts{3, communicator.rank() == 0 ? 5u : 6u};
    return communicator.AllGatherV(a.data(), b.data(), counts, kType);
  });
}

TEST_CASE("ranks whose counts agree in all but not block by block learn the lengths of the block") {
  CheckMismatch(2, {"12 bytes", "20 bytes"}, [](Communicator& communicator) {
    Values a(15), b(15);
    const std::vector<std::uint64_t> counts =
        communicator.rank() == 0 ? std::vector<std::uint64_t>{3, 5} : std::vector<std::uint64_t>{5, 3};
    return communicator.AllGatherV(a.data(), b.data(), counts, kType, {.algorithm = Algorithm::kDirect});
  });
}

TEST_CASE("a root that expects another length than a rank sends gets both") {
  CheckMismatch(3, {"8 bytes", "12 bytes"}, [](Communicator& communicator) {
    Values a(15), b(15);
    const std::vector<std::uint64_t> counts{1, 2, 4};
    const std::uint64_t own = communicator.rank() == 1 ? 3 : counts[static_cast<std::size_t>(communicator.rank())];
    return communicator.GatherV(a.data(), own, b.data(), counts, kType, 0);
  });
}

TEST_CASE("two ranks that disagree about what goes between them in an all_to_all_v get both lengths") {
  CheckMismatch(2, {"8 bytes", "20 bytes"}, [](Communicator& communicator) {
    Values a(15), b(15);
    using Counts = std::vector<std::uint64_t>;
    if (communicator.rank() == 0) return communicator.AllToAllV(a.data(), Counts{1, 2}, b.data(), Counts{1, 3}, kType);
    return communicator.AllToAllV(a.data(), Counts{3, 1}, b.data(), Counts{5, 1}, kType);
  });
}

}  // namespace arguments_test
}  // namespace rondo
