// A page that outlives its process, in a file that the script reads: where a rank was when it was killed, and how often
// what was staged in it has happened.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace rondo::processes {

struct Witness {
  std::atomic<std::uint64_t> step{0};      // the index of the script's step, from 1
  std::atomic<std::uint64_t> inside{0};    // 1 while the rank is inside a call of the library
  std::atomic<std::uint64_t> calls{0};     // that were begun
  std::atomic<std::uint64_t> combines{0};  // calls of the user's reduction
  std::atomic<std::uint64_t> fired{0};     // faults that this process staged in itself
};

// In the file, which is made; never unmapped. In memory alone where `path` is empty. Ends the process
// where that is impossible.
Witness& OpenWitness(const std::string& path);

}  // namespace rondo::processes
