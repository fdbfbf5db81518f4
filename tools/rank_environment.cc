#include "tools/rank_environment.h"

#include <array>
#include <cstdlib>
#include <string_view>

namespace rondo {
namespace {

struct Aliases {
  std::string_view name;
  std::array<const char*, 3> others;  // Open MPI, MPICH (Hydra), Slurm
};
constexpr std::array kAliases{
    Aliases{"RANK", {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}},
    Aliases{"WORLD_SIZE", {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}},
    Aliases{"LOCAL_RANK", {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}},
    Aliases{"LOCAL_WORLD_SIZE", {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_TASKS_PER_NODE"}},
};

}  // namespace

std::optional<std::string> RankEnvironment(const std::string& name) {
  if (const char* value = std::getenv(name.c_str())) return value;
  for (const Aliases& aliases : kAliases) {
    if (aliases.name != name) continue;
    for (const char* other : aliases.others)
      if (const char* value = std::getenv(other)) return value;
  }
  return std::nullopt;
}

}  // namespace rondo
