// The cores on which processes may run, as text that processes can exchange.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// A list of CPUs in Linux's notation: "0-3,8". ParseCpuList skips invalid entries.
std::string PrintCpuList(const std::vector<bool>& cpus);
std::vector<bool> ParseCpuList(std::string_view list);

// The CPUs of this process's affinity mask, as text ("0-3,8"). Empty if the system does not report them.
std::string UsableCpus();

// The number of different CPUs in all lists together.
int CountCpus(const std::vector<std::string_view>& lists);

}  // namespace rondo
