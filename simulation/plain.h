// Computes every collective in the simplest form: each rank's input and expected output follow from the definition,
// without blocks, chunks or lanes. Also runs such a case through the public interface.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/schedule/layout.h"

namespace rondo::plain {

using Counts = std::vector<std::uint64_t>;
using Values = std::vector<std::int64_t>;

struct Case {
  Collective collective = Collective::kAllReduce;
  std::optional<Algorithm> algorithm;
  Rank root = 0;
  bool in_place = false;
  bool varying = false;  // uses the ...V form
  // The count of each rank's block. If all ranks work on the same elements, only counts[0] is used. For all_to_all: the
  // counts that rank 0 sends; rank i sends counts[(i + j) % P] to rank j.
  Counts counts;
  std::int64_t salt = 0;  // makes the values of one operation differ from those of the next
};

inline std::uint64_t Sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}
inline std::uint64_t Before(const Counts& counts, Rank rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
}
inline std::uint64_t At(const Counts& counts, Rank rank) { return counts[static_cast<std::size_t>(rank)]; }

// The counts that rank `from` sends in all_to_all.
inline Counts Row(const Case& c, Rank from) {
  Counts row;
  for (std::size_t to = 0; to < c.counts.size(); ++to)
    row.push_back(c.counts[(static_cast<std::size_t>(from) + to) % c.counts.size()]);
  return row;
}
inline Counts Column(const Case& c, Rank to) {
  Counts column;
  for (Rank from = 0; from < static_cast<Rank>(c.counts.size()); ++from) column.push_back(At(Row(c, from), to));
  return column;
}

inline Values InputOf(const Case& c, Rank rank) {
  const bool at_root = rank == c.root;
  std::uint64_t count = 0;
  switch (c.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: count = c.counts[0]; break;
    case Collective::kBroadcast: count = at_root ? c.counts[0] : 0; break;
    case Collective::kAllGather:
    case Collective::kGather: count = At(c.counts, rank); break;
    case Collective::kReduceScatter:
    case Collective::kAllToAll: count = Sum(c.counts); break;
    case Collective::kScatter: count = at_root ? Sum(c.counts) : 0; break;
    case Collective::kBarrier: break;
  }
  Values values(count);
  for (std::uint64_t i = 0; i < count; ++i)
    values[i] = (rank + 1) * std::int64_t{1'000'000'007} + static_cast<std::int64_t>(i * i + 7 * i) + c.salt;
  return values;
}

inline Values OutputOf(const Case& c, Rank rank, int world) {
  const bool at_root = rank == c.root;
  const auto sum = [&] {
    Values sums = InputOf(c, 0);
    for (Rank other = 1; other < world; ++other) {
      const Values more = InputOf(c, other);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
    }
    return sums;
  };
  const auto part = [](const Values& values, std::uint64_t first, std::uint64_t count) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    return Values(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  switch (c.collective) {
    case Collective::kAllReduce: return sum();
    case Collective::kReduce: return at_root ? sum() : Values();
    case Collective::kBroadcast: return InputOf(c, c.root);
    case Collective::kReduceScatter: return part(sum(), Before(c.counts, rank), At(c.counts, rank));
    case Collective::kScatter: return part(InputOf(c, c.root), Before(c.counts, rank), At(c.counts, rank));
    case Collective::kAllGather:
    case Collective::kGather: {
      Values all;
      for (Rank from = 0; from < world && (at_root || c.collective == Collective::kAllGather); ++from) {
        const Values more = InputOf(c, from);
        all.insert(all.end(), more.begin(), more.end());
      }
      return all;
    }
    case Collective::kAllToAll: {
      Values all;
      for (Rank from = 0; from < world; ++from) {
        const Values more = part(InputOf(c, from), Before(Row(c, from), rank), At(Row(c, from), rank));
        all.insert(all.end(), more.begin(), more.end());
      }
      return all;
    }
    case Collective::kBarrier: break;
  }
  return {};
}

// The offset of the smaller buffer in the larger one, if the case is in place.
inline std::uint64_t OwnAt(const Case& c, Rank rank) {
  return BlocksOf(c.collective, 2) > 1 ? Before(c.counts, rank) : 0;
}

// Issues the case for `rank`, with elements of any type and size.
inline Work Issue(Communicator& communicator, const Case& c, const void* in, void* out, DataType type, ReduceOp op,
                  OperationOptions options = {}) {
  const Rank rank = communicator.rank();
  options.algorithm = c.algorithm;
  const std::uint64_t count = c.counts.empty() ? 0 : c.counts[0];
  const Counts& counts = c.counts;
  const bool at_root = rank == c.root;
  switch (c.collective) {
    case Collective::kAllReduce: return communicator.AllReduceAsync(in, out, count, type, op, options);
    case Collective::kReduce: return communicator.ReduceAsync(in, out, count, type, op, c.root, options);
    case Collective::kBroadcast: return communicator.BroadcastAsync(in, out, count, type, c.root, options);
    case Collective::kAllGather:
      return c.varying ? communicator.AllGatherVAsync(in, out, counts, type, options)
                       : communicator.AllGatherAsync(in, out, count, type, options);
    case Collective::kReduceScatter:
      return c.varying ? communicator.ReduceScatterVAsync(in, out, counts, type, op, options)
                       : communicator.ReduceScatterAsync(in, out, count, type, op, options);
    case Collective::kGather:
      if (!c.varying) return communicator.GatherAsync(in, out, count, type, c.root, options);
      return communicator.GatherVAsync(in, At(counts, rank), out, at_root ? counts : Counts(), type, c.root, options);
    case Collective::kScatter:
      if (!c.varying) return communicator.ScatterAsync(in, out, count, type, c.root, options);
      return communicator.ScatterVAsync(in, at_root ? counts : Counts(), out, At(counts, rank), type, c.root, options);
    case Collective::kAllToAll:
      if (!c.varying) return communicator.AllToAllAsync(in, out, count, type, options);
      return communicator.AllToAllVAsync(in, Row(c, rank), out, Column(c, rank), type, options);
    case Collective::kBarrier: break;
  }
  return communicator.BarrierAsync(options);
}

// One rank's memory for a case of int64: separate buffers, or one for input and output.
struct Buffers {
  Values input, output;
  bool one = false;
  std::uint64_t input_at = 0, output_at = 0;

  Buffers(const Case& c, Rank rank, int world) : input(InputOf(c, rank)) {
    const std::size_t due = OutputOf(c, rank, world).size();
    one = c.in_place && HasInPlace(c.collective) && (!HasRoot(c.collective) || rank == c.root);
    output.assign(due, -1);
    if (!one) return;
    if (input.size() < due) {
      input_at = OwnAt(c, rank);
      std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(input_at));
    } else {
      output = input;
      if (due < input.size()) output_at = OwnAt(c, rank);
    }
  }
  const void* in() const { return one ? output.data() + input_at : input.data(); }
  void* out() { return output.data() + output_at; }

  // Describes the first wrong value; "" if there is none.
  std::string Wrong(const Case& c, Rank rank, int world) const {
    const Values due = OutputOf(c, rank, world);
    for (std::size_t i = 0; i < due.size(); ++i)
      if (output[output_at + i] != due[i])
        return "rank " + std::to_string(rank) + " element " + std::to_string(i) + ": " +
               std::to_string(output[output_at + i]) + " instead of " + std::to_string(due[i]);
    if (!one && input != InputOf(c, rank)) return "rank " + std::to_string(rank) + ": the input has changed";
    return "";
  }
};

inline std::string Describe(const Case& c) {
  std::string text(Name(c.collective));
  if (c.varying) text += "_v";
  text += " by " + (c.algorithm ? std::string(Name(*c.algorithm)) : "the free choice");
  text += ", root " + std::to_string(c.root) + (c.in_place ? ", in place, counts" : ", counts");
  for (const std::uint64_t count : c.counts) text += " " + std::to_string(count);
  return text;
}

}  // namespace rondo::plain
