#include "rendezvous/launchers/system_facts.h"

#include <sys/stat.h>

#include "rendezvous/launchers/pmix_library.h"

namespace rondo {

SystemFacts ThisSystem() {
  return {.is_socket =
              [](int fd) {
                struct stat file {};
                return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode);
              },
          .can_load_pmix = [](const std::string& library) -> Status {
            RONDO_TRY(pmix::Load(library));
            return {};
          }};
}

}  // namespace rondo
