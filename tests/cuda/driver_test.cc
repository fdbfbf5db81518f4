// Loads NVIDIA's driver. If the driver is missing or is a wrong library, the error says so, and nothing else happens.
#include "cuda/driver.h"

#include <doctest/doctest.h>

namespace rondo::cuda {
namespace driver_test {

TEST_CASE("Without a driver there is an error that names the file") {
  const auto driver = LoadDriver("/no/such/libcuda.so.1");
  REQUIRE(!driver);
  CHECK(driver.error().code() == ErrorCode::kUnsupported);
  CHECK(driver.error().message().find("no GPU: ") == 0);
  CHECK(driver.error().message().find("/no/such/libcuda.so.1") != std::string::npos);
}

TEST_CASE("A library that is another one is refused by the name of what it lacks") {
  const auto driver = LoadDriver("libc.so.6");
  REQUIRE(!driver);
  CHECK(driver.error().code() == ErrorCode::kUnsupported);
  CHECK(driver.error().message().find("libc.so.6 has no function cuInit") != std::string::npos);
}

}  // namespace driver_test
}  // namespace rondo::cuda
