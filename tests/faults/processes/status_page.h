// A page of memory in a file that outlives its process, so that the script can read it. It shows where a rank was when
// it was killed, and how often its injected faults have fired.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace rondo::processes {

struct StatusPage {
  std::atomic<std::uint64_t> step{0};      // the index of the current step of the script, from 1
  std::atomic<std::uint64_t> inside{0};    // 1 while the rank is inside a call of the library
  std::atomic<std::uint64_t> calls{0};     // number of library calls begun so far
  std::atomic<std::uint64_t> combines{0};  // number of calls of the user's reduction
  std::atomic<std::uint64_t> fired{0};     // number of faults that this process injected into itself
};

// Makes the file `path` and maps it. The mapping stays until the process ends. If `path` is empty, the page is only in
// memory. Ends the process on failure.
StatusPage& OpenStatusPage(const std::string& path);

}  // namespace rondo::processes
