#include "collectives/cpu_list.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

namespace rondo {
namespace {

constexpr std::size_t kMaxCpus = CPU_SETSIZE;

std::optional<std::size_t> Number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value < kMaxCpus ? std::optional(value)
                                                                                      : std::nullopt;
}

}  // namespace

std::string PrintCpuList(const std::vector<bool>& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size(); ++first) {
    if (!cpus[first]) continue;
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1]) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text;
}

std::vector<bool> ParseCpuList(std::string_view list) {
  std::vector<bool> cpus;
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const auto first = Number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : Number(part.substr(dash + 1));
    if (!first || !last || *last < *first) continue;
    if (cpus.size() <= *last) cpus.resize(*last + 1);
    std::fill(cpus.begin() + static_cast<std::ptrdiff_t>(*first), cpus.begin() + static_cast<std::ptrdiff_t>(*last) + 1,
              true);
  }
  return cpus;
}

std::string UsableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "";
  std::vector<bool> cpus(kMaxCpus);
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) cpus[cpu] = CPU_ISSET(cpu, &set);
  return PrintCpuList(cpus);
}

int CountCpus(const std::vector<std::string_view>& lists) {
  std::vector<bool> all;
  for (const std::string_view list : lists) {
    const std::vector<bool> cpus = ParseCpuList(list);
    if (all.size() < cpus.size()) all.resize(cpus.size());
    for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu) all[cpu] = all[cpu] || cpus[cpu];
  }
  return static_cast<int>(std::count(all.begin(), all.end(), true));
}

}  // namespace rondo
