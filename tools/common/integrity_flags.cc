#include "tools/common/integrity_flags.h"

#include <CLI/CLI.hpp>

namespace rondo {

void AddIntegrity(CLI::App& app, IntegrityFlags& flags) {
  app.add_flag("--checksums", flags.checksums,
               "Every frame between ranks has checksums, on every rank; not what ranks of a host read in each other's "
               "memory (--transport tcp keeps them from it)");
  app.add_flag("--compare-results", flags.compare_results,
               "After every collective that gives all ranks the same they compare its checksum, on every rank");
}

}  // namespace rondo
