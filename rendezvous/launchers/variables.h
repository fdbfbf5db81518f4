// Reads a launcher's variables. Errors name the launcher and the variable that is missing or wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

inline constexpr int kMaxDescriptor = 1 << 30;  // larger than any descriptor

class LauncherVariables {
 public:
  // `environment` must outlive this object. `launcher` is for people: "srun of Slurm".
  LauncherVariables(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  const std::string& launcher() const { return launcher_; }
  bool Has(const std::string& name) const { return IsSet(environment_, name); }
  std::optional<std::string> Optional(const std::string& name) const { return Lookup(environment_, name); }
  // kInvalidArgument: "mpirun of Open MPI started this process, but variable X is missing".
  Result<std::string> Text(const std::string& name) const;
  Result<int> Number(const std::string& name, int low, int high) const;
  Result<std::uint16_t> Port(const std::string& name) const;

  // Derives the ports of `launch` from its job, within RONDO_PORTS if that is set. kInvalidArgument: RONDO_PORTS is not
  // a range, or contains no usable port.
  Status DerivePorts(Launched& launch) const;

  // Makes a launch from the variables that hold its rank and its world size.
  Result<Launched> Ranks(const std::string& rank, const std::string& world_size) const;
  // Reads the rank on this host and the number of ranks on this host, if these variables exist.
  Status LocalRanks(const std::string& local_rank, const std::string& local_world_size, Launched& launch) const;

 private:
  const Environment& environment_;
  const std::string launcher_;
};

}  // namespace rondo
