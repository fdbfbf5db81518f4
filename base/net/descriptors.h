// Error texts for the limit on file descriptors, and how many descriptors this process has open.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace rondo {

// The number of open descriptors of this process, and its limit.
struct DescriptorUse {
  std::size_t open = 0;
  std::size_t limit = 0;
};
DescriptorUse CountDescriptors();

// Describes in words why a system call failed; `error` is its errno. If the limit on descriptors caused the failure
// (EMFILE, ENFILE), the text names the limit and the remedy. For EMFILE it also says that `descriptors` more were
// needed. Preserves errno.
std::string SystemWords(int error, std::size_t descriptors = 1);

// Whether `count` more descriptors are available now: opens and closes that many. kResource: fewer are available. The
// message says what needs them (`what`, for example "a communicator"), how many it needs, the limit and the remedy.
Status CheckDescriptorsLeft(std::size_t count, const std::string& what);

}  // namespace rondo
