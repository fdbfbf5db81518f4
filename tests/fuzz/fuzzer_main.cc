// Runs this project's commands before libFuzzer, which defines the main function, reads the arguments.
#include <cstdlib>

#include "tests/fuzz/commands.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (const auto status = rondo::fuzz::RunCommand(*argc, *argv)) std::exit(*status);
  return 0;
}
