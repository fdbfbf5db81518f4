// Slices: a large vector, worked off in pieces, each a whole run of the schedule.
//
// Within one host a large all-reduce is bound by memory. Run whole, what a rank has just received or summed has left
// its cache long before the schedule sends it on. In slices of a frame per chunk it is still there: measured 5 to 10%
// at 64 MiB and more. Scratch shrinks to that of one slice.
//
// It pays where ranks send and receive alike all through (AlgorithmTraits::in_slices): none waits long at a slice's
// end. Up and down a tree or along a chain every slice would wait for the depth. Between hosts the links decide, not
// memory, and nothing is sliced.
//
// All ranks must slice alike: the rule knows only what they have agreed on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

// Fewer slices cost more, in waiting at their ends, than they save.
inline constexpr std::uint64_t kLeastSlices = 8;

// How many elements a slice has of a vector of `count` elements that a schedule cuts into `chunks`; `count` itself
// where it is too short for slices.
inline std::uint64_t SliceElements(std::uint64_t count, std::size_t element_bytes, std::uint32_t chunks,
                                   std::uint32_t frame_bytes) {
  const std::uint64_t slice = std::uint64_t{chunks} * frame_bytes / element_bytes;
  return count >= kLeastSlices * slice ? slice : count;
}

}  // namespace rondo
