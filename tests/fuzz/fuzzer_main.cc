// Runs this project's commands before libFuzzer reads the arguments. libFuzzer defines the main function.
#include <cstdlib>

#include "tests/fuzz/commands.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (const auto status = rondo::fuzz::RunCommand(*argc, *argv)) std::exit(*status);
  return 0;
}
