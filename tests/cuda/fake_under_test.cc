// Selects the fake driver (fake_driver/) for the tests of on_gpu.h.
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/on_gpu.h"

namespace rondo::cuda {

std::string LibraryUnderTest() { return FakeDriver::Path(); }
bool GpuMayBeMissing() { return false; }

}  // namespace rondo::cuda
