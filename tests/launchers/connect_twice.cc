// A program that connects twice through its launcher: connect_twice GENERATION GENERATION. Exit code 1 if a rendezvous
// fails.
#include <fmt/core.h>

#include <cstdio>
#include <string>

#include "collectives/connect.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    rondo::ConnectOptions options;
    options.rendezvous = "env://";
    options.environment = rondo::ProcessEnvironment;
    options.generation = std::stoull(argv[i]);
    options.timeout = std::chrono::seconds(20);
    const auto communicator = rondo::Connect(options);
    if (!communicator) {
      fmt::print(stderr, "generation {}: {}\n", options.generation, communicator.error().ToString());
      return 1;
    }
    const rondo::Status closed = (*communicator)->Close();
    fmt::print("rank {} connected in generation {}{}\n", (*communicator)->rank(), options.generation,
               closed ? "" : ", but " + closed.error().ToString());
    std::fflush(stdout);
  }
  return 0;
}
