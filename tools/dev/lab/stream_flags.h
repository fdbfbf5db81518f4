// The flags of both programs that tools/dev/lab/wire_rate runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>

namespace rondo {

struct StreamFlags {
  std::size_t bytes = 1 << 20;  // the number of bytes of one round
  // The duration of the warm-up, which is not measured. The warm-up empties the token buckets of rate-limited links and
  // grows TCP windows.
  double warm_seconds = 1;
  double seconds = 2;  // minimum time to count

  void AddTo(CLI::App& app) {
    app.option_defaults()->always_capture_default();
    app.add_option("--bytes", bytes, "Number of bytes in one round, a multiple of 4")->check(CLI::Range(4, 1 << 30));
    app.add_option("--warm-seconds", warm_seconds, "Time before bytes are counted, in seconds")
        ->check(CLI::Range(0.0, 1e3));
    app.add_option("--seconds", seconds, "Minimum time for which bytes are counted, in seconds")
        ->check(CLI::Range(0.01, 1e3));
  }
};

}  // namespace rondo
