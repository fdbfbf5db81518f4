// What this process holds of the system: descriptors, threads, shared memory of Rondo's, memory in all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::processes {

struct Footprint {
  std::map<int, std::string> descriptors;  // what each is: "socket:[17]", "/memfd:rondo (deleted)"
  std::map<int, std::string> threads;      // their names; without those that may have been joined
  int shared_mappings = 0;                 // of Rondo's memory
  std::uint64_t resident_bytes = 0;

  static Footprint Take();
  // In words, what is here and was not in `before`; resident memory is not looked at.
  std::vector<std::string> MoreThan(const Footprint& before) const;
};

// User and system, of all threads.
double CpuSeconds();

}  // namespace rondo::processes
