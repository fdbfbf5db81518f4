// Tests the loading of libibverbs. If the library is missing or is a wrong one, the error must say so, and nothing else
// happens.
#include "transport/ib/verbs_library.h"

#include <doctest/doctest.h>

namespace rondo::ib {
namespace verbs_library_test {

TEST_CASE("Without libibverbs there is an error that names the file and the package") {
  const auto library = LoadVerbs("/no/such/libibverbs.so.1");
  REQUIRE(!library);
  CHECK(library.error().code() == ErrorCode::kUnsupported);
  CHECK(library.error().message().find("/no/such/libibverbs.so.1") != std::string::npos);
  CHECK(library.error().message().find("libibverbs1") != std::string::npos);
}

TEST_CASE("A library that is another one is refused by the name of what it lacks") {
  const auto library = LoadVerbs("libc.so.6");
  REQUIRE(!library);
  CHECK(library.error().code() == ErrorCode::kUnsupported);
  CHECK(library.error().message().find("libc.so.6 has no function ") != std::string::npos);
}

}  // namespace verbs_library_test
}  // namespace rondo::ib
