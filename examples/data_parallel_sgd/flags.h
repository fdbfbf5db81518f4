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
  std::uint64_t batch = 64;        // the samples of one step, over all ranks together
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
  bool survive = false;  // true: training continues after ranks are lost
  int refill = 0;        // after ranks are lost, joiners are admitted until there are this many ranks; 0: none
  std::chrono::duration<double> settle = std::chrono::seconds(5);
};

// The flags, or an exit code with which the program must end: 0 after --help, 2 after wrong usage. For wrong usage,
// ParseFlags has written an error with the flag's name to stderr.
struct Parsed {
  Flags flags;
  std::optional<int> exit_code;
};
Parsed ParseFlags(int argc, char** argv);

}  // namespace sgd
