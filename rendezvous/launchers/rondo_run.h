// Recognises the launchers rondo run and rondo perf -N by the variable RONDO_LAUNCHER. They serve the store themselves,
// at the address in RONDO_STORE, and name the job in RONDO_JOB. They do not use MASTER_ADDR and MASTER_PORT, because
// the program's framework may serve a store of its own at that address.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// nullopt: rondo did not start this process. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindRondoRun(const Environment& environment);

// Whether a variable describes one process of a launch: its rank, its descriptors, its server. rondo run removes such
// variables from the ranks that it starts, because they would be wrong there. With them a process would act as a rank
// of an outer launcher. Variables that describe an allocation (SLURM_JOB_ID, SLURM_JOB_NODELIST) stay.
bool DescribesOneProcess(std::string_view variable);

}  // namespace rondo
