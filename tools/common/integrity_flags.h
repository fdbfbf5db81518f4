// --checksums and --compare-results: the checks by which a communicator detects damaged data.
#pragma once

#include "collectives/communicator.h"

namespace CLI {
class App;
}  // namespace CLI

namespace rondo {

struct IntegrityFlags {
  bool checksums = false;
  bool compare_results = false;

  void ApplyTo(CommunicatorOptions& options) const {
    options.checksums = checksums;
    options.compare_results = compare_results;
  }
};

void AddIntegrity(CLI::App& app, IntegrityFlags& flags);

}  // namespace rondo
