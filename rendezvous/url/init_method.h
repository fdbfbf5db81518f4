// Parses a rendezvous URL, which says through which store the ranks find each other. open_store.h opens that store.
//
// - tcp://host:port, tcp://[::1]:29500: a TCP store;
// - file:///path: a file that all ranks can access;
// - env://: the environment decides; the first of these that is set:
//     RONDO_RENDEZVOUS              any other URL
//     MASTER_ADDR and MASTER_PORT   tcp, if they were set by hand
//     the launcher                  rondo run, torchrun, mpirun, mpiexec, srun: rendezvous/launchers
//
// Each URL may have the query ?rank=2&world_size=4. For env://, a missing rank or world size comes from RANK and
// WORLD_SIZE, if they were set by hand. For every URL, it then comes from the launcher, unless a given world size
// differs from the launcher's. Before each of these variables, the one with RONDO_ in front is read (RONDO_RANK,
// RONDO_MASTER_ADDR ...). It always counts as set by hand, and RONDO_RANK and RONDO_WORLD_SIZE apply to every URL.
//
// Some variables apply to every URL:
// - RONDO_EXTERNAL_STORE=1: another process serves the store (rondo store), so rank 0 does not.
// - RONDO_JOIN=1: the job runs already and this process is a joiner (rondo run --restarts).
// - RONDO_TLS and its companions: tls_settings.h.
//
// A launcher that provides the way to the store also provides the job id, so that two of its jobs stay apart.
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
  // What the launcher says of this process, if known; for kLaunch, also how the ranks find the store.
  std::optional<Launched> launch;

  // Gives the URL without its query: "tcp://[::1]:29500", "file:///path"; for kLaunch "env:// (mpirun of Open MPI)".
  std::string ToString() const;
  // Describes for people where the store is, which rank this process is, and which launcher says so.
  std::string Describe() const;
};

// kInvalidArgument names the wrong part, its value and the expected form. If env:// finds nothing, it lists every
// variable that was looked for. `environment` may be empty if `url` is not env://.
Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment = {});

}  // namespace rondo
