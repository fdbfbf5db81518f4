// File descriptors as a limit: how many this process has open, and the words for a call that got none.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace rondo {

// How many descriptors this process has open, and how many it may have.
struct DescriptorUse {
  std::size_t open = 0;
  std::size_t limit = 0;
};
DescriptorUse CountDescriptors();

// What a failed system call says, in words. Where the limit on descriptors made it fail (EMFILE, ENFILE) the words name
// the need, which is `descriptors`, the limit, and the remedy. Leaves errno as it is.
std::string SystemWords(int error, std::size_t descriptors = 1);

// Whether `count` descriptors can be had now: takes them and gives them back. kResource, with need, limit and remedy:
// there are not so many for `what`, "a communicator".
Status CheckDescriptorsLeft(std::size_t count, const std::string& what);

}  // namespace rondo
