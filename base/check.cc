#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rondo::internal {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  fmt::print(stderr, "{}:{}: broken invariant: {} {}\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace rondo::internal
