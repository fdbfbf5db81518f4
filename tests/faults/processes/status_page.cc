#include "tests/faults/processes/status_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace rondo::processes {

StatusPage& OpenStatusPage(const std::string& path) {
  if (path.empty()) return *new StatusPage;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(StatusPage)) == 0)
    memory = mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(2);
  }
  close(fd);
  return *new (memory) StatusPage;
}

}  // namespace rondo::processes
