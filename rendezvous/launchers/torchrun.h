// Recognises torchrun (PyTorch's elastic agent) by the variable TORCHELASTIC_RUN_ID.
//
// It sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rondo cannot use MASTER_PORT,
// because PyTorch's own store needs it. The agent serves that store (TORCHELASTIC_USE_AGENT_STORE=True), or the worker
// of rank 0 does when its program opens a process group of PyTorch. So rank 0 serves Rondo's store on MASTER_ADDR at a
// port derived from the run.
//
// Rank 0 does not publish the address in PyTorch's store, for two reasons. The wire format of that store is private and
// has changed between minor versions (a validation byte, later a magic number and a second server, based on libuv).
// Also, the store may not be running yet. The job's name does not contain the restart count. Each agent has its own
// count, and does not count a restart of its workers that another agent caused. So ranks could have different counts,
// and would refuse each other.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// nullopt: torchrun did not start this process. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindTorchrun(const Environment& environment);

}  // namespace rondo
