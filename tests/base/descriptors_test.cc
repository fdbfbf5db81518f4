// Tests the error text of a process that has used all its file descriptors.
#include "base/net/descriptors.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace rondo {
namespace descriptors_test {

TEST_CASE("Where descriptors ran out the words have need, limit and remedy; else they are the system's") {
  errno = EAGAIN;
  const std::string words = SystemWords(EMFILE, 3);
  const DescriptorUse use = CountDescriptors();
  CHECK(words == "Too many open files: it takes 3 more file descriptors, and " + std::to_string(use.open) + " of " +
                     std::to_string(use.limit) + " are open; raise the limit (ulimit -n)");
  CHECK(SystemWords(EMFILE).find("it takes 1 more file descriptor, and ") != std::string::npos);
  CHECK(errno == EAGAIN);
  CHECK(SystemWords(ENFILE).find("fs.file-max") != std::string::npos);
  CHECK(SystemWords(ECONNREFUSED) == "Connection refused");
}

TEST_CASE("Whether there are so many descriptors is found out without keeping any") {
  const std::size_t before = CountDescriptors().open;
  CHECK(CheckDescriptorsLeft(5, "a test"));
  CHECK(CheckDescriptorsLeft(0, "a test"));
  CHECK(CountDescriptors().open == before);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
  rlimit low = old;
  low.rlim_cur = before + 20;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  const auto refused = CheckDescriptorsLeft(200, "a test");
  REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == ErrorCode::kResource);
  CHECK(refused.error().message().find("a test needs 200 more file descriptors, and ") == 0);
  CHECK(CountDescriptors().open == before);
}

}  // namespace descriptors_test
}  // namespace rondo
