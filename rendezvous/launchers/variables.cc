#include "rendezvous/launchers/variables.h"

#include "base/net/ports.h"
#include "rendezvous/launchers/derived_ports.h"
#include "rendezvous/membership.h"

namespace rondo {

Result<std::string> LauncherVariables::Text(const std::string& name) const {
  if (auto value = Lookup(environment_, name)) return std::move(*value);
  return Fail(ErrorCode::kInvalidArgument,
              "{} started this process, according to its other variables, but variable {} is missing; for a rendezvous "
              "without this variable give --rendezvous or set RONDO_RENDEZVOUS",
              launcher_, name);
}

Result<int> LauncherVariables::Number(const std::string& name, int low, int high) const {
  RONDO_ASSIGN(const std::string text, Text(name));
  return ParseNumber(fmt::format("variable {} of {}", name, launcher_), text, low, high);
}

Result<std::uint16_t> LauncherVariables::Port(const std::string& name) const {
  RONDO_ASSIGN(const int port, Number(name, 0, 65535));
  return static_cast<std::uint16_t>(port);
}

Status LauncherVariables::DerivePorts(Launched& launch) const {
  PortRange ports;
  if (const auto text = Optional("RONDO_PORTS")) {
    auto range = ParsePortRange(*text);
    if (!range) {
      return Fail(range.error().With(
          [](ErrorDetails& details) { details.message = "variable RONDO_PORTS: " + details.message; }));
    }
    ports = *range;
  }
  launch.ports = DerivedPorts(launch.job, launch.avoided_port, ports);
  if (!launch.ports.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "variable RONDO_PORTS allows only port {}, but {} reserves that port (MASTER_PORT) for another program; "
              "allow at least one more port",
              launch.avoided_port, launcher_);
}

Result<Launched> LauncherVariables::Ranks(const std::string& rank, const std::string& world_size) const {
  Launched launch;
  launch.launcher = launcher_;
  RONDO_ASSIGN(launch.world_size, Number(world_size, 1, kMaxWorldSize));
  RONDO_ASSIGN(launch.rank, Number(rank, 0, launch.world_size - 1));
  launch.rank_variables = fmt::format("{} and {}", rank, world_size);
  return launch;
}

Status LauncherVariables::LocalRanks(const std::string& local_rank, const std::string& local_world_size,
                                     Launched& launch) const {
  if (Has(local_world_size)) {
    RONDO_ASSIGN(launch.local_world_size, Number(local_world_size, 1, launch.world_size));
  }
  if (Has(local_rank)) {
    RONDO_ASSIGN(launch.local_rank, Number(local_rank, 0, launch.local_world_size.value_or(launch.world_size) - 1));
  }
  return {};
}

}  // namespace rondo
