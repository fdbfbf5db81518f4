// The command line of data_parallel_sgd.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/connect.h"

namespace sgd {

struct Flags {
  std::uint64_t steps = 20;
  std::uint64_t batch = 64;        // samples of a step, of all ranks together
  std::uint64_t accumulation = 2;  // micro-batches per rank and step
  std::size_t bucket_bytes = 16 << 10;
  rondo::DataType gradient_type = rondo::DataType::kFloat32;
  std::vector<std::size_t> hidden{64, 64, 64};
  float learning_rate = 0.05f;
  float momentum = 0.9f;
  std::uint64_t seed = 1;
  std::string rendezvous = "env://";
  rondo::Path path = rondo::Path::kAuto;
  std::chrono::duration<double> timeout = std::chrono::seconds(60);
  bool survive = false;  // go on without ranks that are lost
  int refill = 0;        // and admit newcomers up to this many ranks
  std::chrono::duration<double> settle = std::chrono::seconds(5);
};

// The flags, or the exit code with which to end at once: 0 after --help, 2 after wrong usage, which has been told on
// stderr by the flag's name.
struct Parsed {
  Flags flags;
  std::optional<int> exit_code;
};
Parsed ParseFlags(int argc, char** argv);

}  // namespace sgd
