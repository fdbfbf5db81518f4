// Which cores processes may run on, as text that they can tell each other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// A list of CPUs as Linux writes it: "0-3,8". Parse skips what is none.
std::string PrintCpuList(const std::vector<bool>& cpus);
std::vector<bool> ParseCpuList(std::string_view list);

// Those of this process: what its affinity leaves. Empty where the system does not say.
std::string UsableCpus();

// How many different ones the lists name together.
int CountCpus(const std::vector<std::string_view>& lists);

}  // namespace rondo
