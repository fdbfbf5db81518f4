// torchrun (PyTorch's elastic agent), recognised by TORCHELASTIC_RUN_ID.
//
// It sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rondo cannot use that port. The
// agent serves PyTorch's own store there (TORCHELASTIC_USE_AGENT_STORE=True), or the worker of rank 0 does when its
// program opens a process group of PyTorch. So rank 0 serves Rondo's store on MASTER_ADDR at a port derived from the
// run.
//
// PyTorch's store is not asked for the address: its wire format is private and has changed between minor versions (a
// validation byte, then a magic number and a second, libuv-based server). Also, the port may have no store yet. The
// restart count is not in the job's name: each agent counts for itself, and does not count a restart of its workers
// that another agent caused. Ranks with different counts would refuse each other.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// nullopt: torchrun did not start this process. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindTorchrun(const Environment& environment);

}  // namespace rondo
