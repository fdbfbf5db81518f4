// torchrun (PyTorch's elastic agent), recognised by TORCHELASTIC_RUN_ID.
//
// It sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The port is taken: the agent
// serves PyTorch's own store there (TORCHELASTIC_USE_AGENT_STORE=True), or a worker of rank 0 will when its program
// also opens a process group of PyTorch. So rank 0 serves ours on MASTER_ADDR at a port derived from the run.
//
// Why not ask PyTorch's store for the address: its wire format is private and has changed between minor versions (a
// validation byte, then a magic number and a second, libuv-based server), and the port may have no store at all yet.
// Why not the restart count in the job's name: each agent counts by itself, and an agent whose workers were merely told
// to start again does not count; their ranks would refuse each other.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// nullopt: it was not torchrun. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindTorchrun(const Environment& environment);

}  // namespace rondo
