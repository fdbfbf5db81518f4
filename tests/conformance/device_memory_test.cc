// Memory of devices: a transport either accepts it, or refuses it with an error that says what to do instead.
#include "transport/device_memory.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/conformance/world.h"

namespace rondo::conformance {
namespace device_memory_test {

TEST_CASE("memory of a device is registered, or it is said whose and that it is to be staged") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    Transport& transport = *world.network().transport(0);
    const std::vector<std::byte> memory(100'000);
    const auto registration = RegisterDevice(transport, {.bytes = memory, .device = "GPU 7"});
    if (registration) continue;
    CAPTURE(registration.error().message());
    CHECK((registration.error().code() == ErrorCode::kUnsupported ||
           registration.error().code() == ErrorCode::kResource));
    CHECK(registration.error().message().find("GPU 7") != std::string::npos);
    CHECK(registration.error().message().find("pinned host memory") != std::string::npos);
  }
}

TEST_CASE("no bytes of a device are a mistake") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 1);
    const auto registration = RegisterDevice(*world.network().transport(0), {.bytes = {}, .device = "GPU 7"});
    REQUIRE(!registration);
    CHECK(registration.error().code() == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("a lane sends from memory of devices only where its transport registers such") {
  for (const Fixture& fixture : Fixtures()) {
    CAPTURE(fixture.name);
    World world = World::Everybody(fixture, 2);
    world.Connect(0, 1);
    const bool registers = world.network().transport(0)->device_registrar() != nullptr;
    CHECK((registers || !world.lane(0, 1).sends_device_memory()));
  }
}

}  // namespace device_memory_test
}  // namespace rondo::conformance
