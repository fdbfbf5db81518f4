// The system resources of this process: descriptors, threads, Rondo's shared memory, and all resident memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo::processes {

struct Footprint {
  std::map<int, std::string> descriptors;  // by number: the target, such as "socket:[17]" or "/memfd:rondo (deleted)"
  std::map<int, std::string> threads;      // by id: names of the threads, except those that are exiting
  int shared_mappings = 0;                 // number of mappings of Rondo's memory
  std::uint64_t resident_bytes = 0;

  static Footprint Take();
  // Describes the resources in this footprint that are not in `before`. Resident memory is not compared.
  std::vector<std::string> MoreThan(const Footprint& before) const;
};

// The user and system time of all threads of this process.
double CpuSeconds();

}  // namespace rondo::processes
