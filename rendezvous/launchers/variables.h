// Reading a launcher's variables: what is missing or wrong is told with the launcher's name and the variable's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

inline constexpr int kMaxDescriptor = 1 << 30;  // more than any system gives

class LauncherVariables {
 public:
  // Both outlive this. `launcher` is for people: "srun of Slurm".
  LauncherVariables(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  const std::string& launcher() const { return launcher_; }
  bool Has(const std::string& name) const { return IsSet(environment_, name); }
  std::optional<std::string> Optional(const std::string& name) const { return Lookup(environment_, name); }
  // kInvalidArgument: "mpirun of Open MPI started this process, but variable X is missing".
  Result<std::string> Text(const std::string& name) const;
  Result<int> Number(const std::string& name, int low, int high) const;
  Result<std::uint16_t> Port(const std::string& name) const;

  // The ports that the ranks of `launch` derive from its job, in RONDO_PORTS where that is set. kInvalidArgument: it is
  // no range.
  Status DerivePorts(Launched& launch) const;

  // A launch with its rank, within its world size, from these variables.
  Result<Launched> Ranks(const std::string& rank, const std::string& world_size) const;
  // The ranks on this host, as far as these variables exist.
  Status LocalRanks(const std::string& local_rank, const std::string& local_world_size, Launched& launch) const;

 private:
  const Environment& environment_;
  const std::string launcher_;
};

}  // namespace rondo
