// Data for measurements whose every element can be checked exactly.
//
// What a rank puts in, and what every rank must get out, are functions of the element's index that repeat after a prime
// number of elements. So filling is copying a table and checking is comparing with one, both at memory speed for every
// type and operation, without a second buffer of full size. A prime period makes a chunk that lies in the wrong place
// visible, wherever the boundaries of chunks fall.
//
// The values are chosen so that the result has one right bit pattern whatever the order and grouping of the reduction:
// integers wrap anyway; floating sums stay within the integers that the type holds exactly; floating products are
// signed powers of two within its range; an average divides such a sum once, in float32 for the 16-bit types, as the
// contract of ReduceOp::kAvg says; what is only moved are random bit patterns, NaNs included.
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

// A run of elements, repeated for ever. Copies share it.
class RepeatedElements {
 public:
  RepeatedElements() : RepeatedElements({std::byte{0}}, 1) {}
  // REQUIRES: at least one element.
  RepeatedElements(std::vector<std::byte> period, std::size_t element_bytes)
      : period_(std::make_shared<const std::vector<std::byte>>(std::move(period))), element_bytes_(element_bytes) {}

  // The same, beginning with the element at `index`.
  RepeatedElements From(std::uint64_t index) const;

  // REQUIRES: whole elements, also below.
  void Fill(MutableBytes destination) const;

  struct Difference {
    std::uint64_t count = 0;        // of elements that differ, in any bit
    std::uint64_t first_index = 0;  // the lowest of them
  };
  Difference Compare(Bytes actual) const;

  // The element at `index`.
  Bytes At(std::uint64_t index) const;

  std::size_t element_bytes() const { return element_bytes_; }

 private:
  std::shared_ptr<const std::vector<std::byte>> period_;
  std::size_t element_bytes_;
  std::size_t begin_ = 0;  // of element 0 in the period, bytes
};

// What a reduction is checked with on one rank.
struct CheckedData {
  RepeatedElements input;   // this rank's
  RepeatedElements output;  // the result
  double scale = 1.0;       // this rank's factor for kPremulSum
};

// REQUIRES: CheckPairing(type, op) succeeds; 0 <= rank < world_size. At most `max_count` elements will be used.
CheckedData MakeReduceData(DataType type, ReduceOp op, int world_size, Rank rank, std::uint64_t max_count);

// What ranks bring where elements are only moved: one table of random bits, in which every rank begins elsewhere.
class MovedElements {
 public:
  explicit MovedElements(DataType type);
  RepeatedElements Of(Rank rank) const;

 private:
  RepeatedElements all_;
};

// An element in words: "-3", "0x1p-4", "nan".
std::string FormatElement(DataType type, Bytes element);

}  // namespace rondo
