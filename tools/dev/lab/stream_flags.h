// The flags that both programs behind tools/dev/lab/wire_rate share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>

namespace rondo {

struct StreamFlags {
  std::size_t bytes = 1 << 20;  // of one round
  double warm_seconds = 1;      // not counted: empties the token buckets of shaped links, opens TCP windows
  double seconds = 2;           // minimum time to count

  void AddTo(CLI::App& app) {
    app.option_defaults()->always_capture_default();
    app.add_option("--bytes", bytes, "Bytes of a round, a multiple of 4")->check(CLI::Range(4, 1 << 30));
    app.add_option("--warm-seconds", warm_seconds, "Seconds before anything is counted")->check(CLI::Range(0.0, 1e3));
    app.add_option("--seconds", seconds, "Seconds to count, at least")->check(CLI::Range(0.01, 1e3));
  }
};

}  // namespace rondo
