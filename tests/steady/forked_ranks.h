// Ranks as processes of this host. Their rendezvous uses a file that is removed at the end.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace rondo {

// Forks `ranks` processes, and waits for all. Each process calls `run` with the common rendezvous and its rank, and
// exits with the status that `run` returns. Returns 0 if all returned 0, otherwise 1.
inline int RunForked(int ranks, const std::function<int(const std::string& rendezvous, int rank)>& run) {
  char directory[] = "/tmp/rondo-ranks-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  const std::string file = std::string(directory) + "/store";
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) std::exit(run("file://" + file, rank));
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status != 0;
  }
  unlink(file.c_str());
  rmdir(directory);
  return failed;
}

}  // namespace rondo
