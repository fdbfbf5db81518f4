// A page of memory that outlives its process, in a file that the script reads. It shows where a rank was when it was
// killed, and how often its injected faults have fired.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace rondo::processes {

struct Witness {
  std::atomic<std::uint64_t> step{0};      // the index of the script's step, from 1
  std::atomic<std::uint64_t> inside{0};    // 1 while the rank is inside a call of the library
  std::atomic<std::uint64_t> calls{0};     // calls of the library begun so far
  std::atomic<std::uint64_t> combines{0};  // calls of the user's reduction
  std::atomic<std::uint64_t> fired{0};     // faults that this process injected into itself
};

// Makes the file `path` and maps it; never unmaps it. If `path` is empty, the page is in memory only. Ends the process
// on failure.
Witness& OpenWitness(const std::string& path);

}  // namespace rondo::processes
