#include "tools/common/integrity_flags.h"

#include <CLI/CLI.hpp>

namespace rondo {

void AddIntegrity(CLI::App& app, IntegrityFlags& flags) {
  app.add_flag("--checksums", flags.checksums,
               "Add a checksum to every frame between ranks; all ranks must set this. Memory that ranks of one host "
               "read directly has no checksums (--transport tcp avoids such reads)");
  app.add_flag("--compare-results", flags.compare_results,
               "Compare the ranks' checksums of the result after every collective whose result is the same on all "
               "ranks; all ranks must set this");
}

}  // namespace rondo
