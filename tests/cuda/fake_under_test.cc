// Tests on a GPU that is played (fake_driver/).
#include "tests/cuda/fake_driver/fake_driver.h"
#include "tests/cuda/on_gpu.h"

namespace rondo::cuda {

std::string LibraryUnderTest() { return FakeDriver::Path(); }
bool GpuMayBeMissing() { return false; }

}  // namespace rondo::cuda
