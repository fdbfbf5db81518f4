// Parses a rendezvous URL, which says through which store the ranks find each other. open_store.h opens that store.
//
// - tcp://host:port, tcp://[::1]:29500: a TCP store;
// - file:///path: a file that all ranks can access;
// - env://: the environment decides. The first of these that is set is used:
//   1. RONDO_RENDEZVOUS, which contains any other URL;
//   2. MASTER_ADDR and MASTER_PORT, if they were set by hand: a TCP store;
//   3. the variables of a launcher (rondo run, torchrun, mpirun, mpiexec, srun): see rendezvous/launchers.
//
// Each URL may have the query ?rank=2&world_size=4. For env://, a missing rank or world size comes from RANK and
// WORLD_SIZE, if they were set by hand. For every URL, a value that is still missing comes from the launcher, unless a
// given world size differs from the launcher's. A variable with the prefix RONDO_ (RONDO_RANK, RONDO_MASTER_ADDR ...)
// has precedence over the variable without it. It always counts as set by hand, and RONDO_RANK and RONDO_WORLD_SIZE
// apply to every URL.
//
// Some variables apply to every URL:
// - RONDO_EXTERNAL_STORE=1: another process serves the store (rondo store), so rank 0 does not.
// - RONDO_JOIN=1: the job runs already and this process is a joiner (rondo run --restarts).
// - RONDO_TLS and the other variables of TLS: see tls_settings.h.
//
// If the launcher says how the ranks find the store, it also provides the job id, so that two jobs of the launcher stay
// separate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/net/resolve.h"
#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

struct InitMethod {
  enum class Kind : std::uint8_t { kTcp, kFile, kLaunch };
  Kind kind = Kind::kTcp;
  HostPort address;  // for kTcp
  std::string path;  // for kFile
  std::optional<Rank> rank;
  std::optional<int> world_size;
  bool external_store = false;
  bool join = false;
  std::string job;  // job id from RONDO_JOB; for kLaunch, from the launcher; "" if none is given
  // The launcher's information about this process, if there is a launcher. For kLaunch it also says how the ranks find
  // the store.
  std::optional<Launched> launch;

  // Gives the URL without its query: "tcp://[::1]:29500", "file:///path"; for kLaunch "env:// (mpirun of Open MPI)".
  std::string ToString() const;
  // Describes for people where the store is, which rank this process is, and which launcher says so.
  std::string Describe() const;
};

// kInvalidArgument names the wrong part, its value and the expected form. If env:// finds nothing, the message lists
// every variable that was looked for. `environment` may be empty if `url` is not env://.
Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment = {});

}  // namespace rondo
