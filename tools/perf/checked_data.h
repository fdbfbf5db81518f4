// Data for measurements. Every element of a result can be checked exactly.
//
// The input of a rank and the expected output are periodic functions of the element's index. The period is a prime
// number of elements. So Fill copies a table and Compare compares with a table. Both run at memory speed for every type
// and operation, and need no second buffer of full size. With a prime period the check finds a chunk in the wrong
// place, wherever the boundaries of chunks are.
//
// The values are chosen so that the order and grouping of a reduction do not change any bit of the result:
//
//   - Integers wrap.
//   - Floating sums stay within the integers that the type holds exactly.
//   - Floating products are signed powers of two within the type's range.
//   - An average divides such a sum once, for 16-bit types in float32, as ReduceOp::kAvg promises.
//   - Elements that are only moved are random bit patterns, including NaNs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/reduce_op.h"

namespace rondo {

// An endless sequence that repeats a few elements. Copies of the object share the elements.
class RepeatedElements {
 public:
  RepeatedElements() : RepeatedElements({std::byte{0}}, 1) {}
  // REQUIRES: at least one element.
  RepeatedElements(std::vector<std::byte> period, std::size_t element_bytes)
      : period_(std::make_shared<const std::vector<std::byte>>(std::move(period))), element_bytes_(element_bytes) {}

  // Returns the same sequence, beginning with the element at `index`.
  RepeatedElements From(std::uint64_t index) const;

  // Writes the sequence to `destination`. REQUIRES, here and in Compare: the size is a whole number of elements.
  void Fill(MutableBytes destination) const;

  struct Difference {
    std::uint64_t count = 0;        // number of elements that differ in any bit
    std::uint64_t first_index = 0;  // the lowest index of such an element
  };
  Difference Compare(Bytes actual) const;

  // The element at `index`.
  Bytes At(std::uint64_t index) const;

  std::size_t element_bytes() const { return element_bytes_; }

 private:
  std::shared_ptr<const std::vector<std::byte>> period_;
  std::size_t element_bytes_;
  std::size_t begin_ = 0;  // where the sequence begins within the period, in bytes
};

// The data for the check of a reduction on one rank.
struct CheckedData {
  RepeatedElements input;   // of this rank
  RepeatedElements output;  // the expected result
  double scale = 1.0;       // this rank's factor for kPremulSum
};

// REQUIRES: CheckPairing(type, op) succeeds; 0 <= rank < world_size. The caller uses at most `max_count` elements.
CheckedData MakeReduceData(DataType type, ReduceOp op, int world_size, Rank rank, std::uint64_t max_count);

// The data of ranks in operations that only move elements. All ranks use one table of random bits, each rank from its
// own start.
class MovedElements {
 public:
  explicit MovedElements(DataType type);
  RepeatedElements Of(Rank rank) const;

 private:
  RepeatedElements all_;
};

// An element as text: "-3", "0x1p-4", "nan".
std::string FormatElement(DataType type, Bytes element);

}  // namespace rondo
