// The system resources of this process: descriptors, threads, Rondo's shared memory, and all resident memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::processes {

struct Footprint {
  std::map<int, std::string> descriptors;  // number and target: "socket:[17]", "/memfd:rondo (deleted)"
  std::map<int, std::string> threads;      // id and name; without threads that are exiting
  int shared_mappings = 0;                 // mappings of Rondo's memory
  std::uint64_t resident_bytes = 0;

  static Footprint Take();
  // Describes what is here and was not in `before`. It does not compare resident memory.
  std::vector<std::string> MoreThan(const Footprint& before) const;
};

// User and system time of all threads.
double CpuSeconds();

}  // namespace rondo::processes
