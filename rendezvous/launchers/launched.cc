#include "rendezvous/launchers/launched.h"

#include <fmt/core.h>

#include "rendezvous/launchers/digest.h"

namespace rondo {
namespace {

std::string RendezvousPlace(const Launched& launch) {
  switch (launch.way) {
    case Launched::Way::kTcp:
      return launch.external_store ? fmt::format("the launcher's store at {}:{}", launch.host, launch.ports.front())
                                   : fmt::format("rank 0's store at {}:{}", launch.host, launch.ports.front());
    case Launched::Way::kPmi1: return fmt::format("rank 0's store, published through PMI-1 on PMI_FD={}", launch.fd);
    case Launched::Way::kPmi2: return fmt::format("rank 0's store, published through PMI-2 on PMI_FD={}", launch.fd);
    case Launched::Way::kPmix: return "rank 0's store, published through PMIx";
    case Launched::Way::kFile: return fmt::format("the file store {}.*", launch.file);
  }
  return "";
}

}  // namespace

std::string Launched::Describe() const {
  return fmt::format("rank {} of {}, started by {} ({}){}; rendezvous at {}{}", rank, world_size, launcher, evidence,
                     around.empty() ? "" : ", inside " + around, RendezvousPlace(*this),
                     remark.empty() ? "" : fmt::format(" ({})", remark));
}

std::string Launched::IfNotMeant() const {
  if (world_size < 2) return "";
  const bool slurm = command.starts_with("srun");
  return fmt::format(
      "If this process is not meant to be a rank: the variables {} made it rank {} of {} of {} ({}), because {} has "
      "these variables, too, and passes them on to programs that are started by hand. Start all ranks by {} COMMAND, "
      "or this process alone by rondo run -N 1 -- COMMAND, which removes these variables",
      rank_variables, rank, world_size, launcher, evidence,
      slurm ? "the shell of an allocation (srun --pty)" : "a shell that it opened", command);
}

std::string JobId(const std::string& text) {
  if (text.size() <= kMaxJobIdBytes) return text;
  return fmt::format("{}...{:016x}", text.substr(0, kMaxJobIdBytes - 19), Digest(text));
}

}  // namespace rondo
