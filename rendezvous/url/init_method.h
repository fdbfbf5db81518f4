// A rendezvous URL: where the ranks meet. open_store.h opens the store there.
//
// - tcp://host:port, tcp://[::1]:29500: a TCP store;
// - file:///path: a file that all ranks see;
// - env://: what the environment says, the first of
//     RONDO_RENDEZVOUS              any other URL
//     MASTER_ADDR and MASTER_PORT   tcp, where they were set by hand
//     the launcher                  rondo run, torchrun, mpirun, mpiexec, srun: rendezvous/launchers
//
// Each may carry ?rank=2&world_size=4. What the URL leaves open comes, for env://, from RANK and WORLD_SIZE where they
// were set by hand, and for every URL from the launcher, unless the world is given and has another size than its. Each
// variable is also read, and first, with RONDO_ in front (RONDO_RANK, RONDO_MASTER_ADDR ...), always as by hand.
// RONDO_EXTERNAL_STORE=1, whatever the URL, says that somebody else serves the store (rondo store), so rank 0 need not.
// RONDO_TLS and what goes with it: tls_settings.h. RONDO_JOIN=1 says that the job runs already and this process is a
// newcomer to it (rondo run --restarts).
//
// A launcher that names the place names the job too, so that two of its jobs do not mix.
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
  HostPort address;  // kTcp
  std::string path;  // kFile
  std::optional<Rank> rank;
  std::optional<int> world_size;
  bool external_store = false;
  bool join = false;
  std::string job;  // the job's id: RONDO_JOB, or the launcher's where it names the place; "": none is said
  std::optional<Launched> launch;  // who started this process, where known; kLaunch: and how ranks meet

  // "tcp://[::1]:29500", "file:///path", without the query; "env:// (mpirun of Open MPI)".
  std::string ToString() const;
  // For people: where the ranks meet, which this is, and who says so.
  std::string Describe() const;
};

// kInvalidArgument names the part that is wrong, what it holds and what is wanted; for env:// in an environment that
// says nothing it lists every variable that was looked for. `environment` may be empty if `url` is not env://.
Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment = {});

}  // namespace rondo
