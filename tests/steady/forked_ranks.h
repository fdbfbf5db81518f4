// Ranks as processes of this host that meet in a file which goes with them.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace rondo {

// Forks `ranks` processes, each of which ends with the exit status that `run` gives for its rank and their rendezvous.
// Waits for all. 0 where each gave 0, else 1.
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
