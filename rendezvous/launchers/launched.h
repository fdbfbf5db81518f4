// Information that the launcher gives about this process and its job: its rank, the world size, and how the ranks find
// the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace rondo {

struct Launched {
  // The method by which the ranks find the store.
  enum class Way : std::uint8_t {
    kTcp,   // a TCP store at `host`, on one of `ports`: the launcher's store, or rank 0's at the first port that it
            // could bind
    kPmi1,  // rank 0 publishes the address in the launcher's key-value space, over descriptor `fd`, by PMI-1
    kPmi2,  // like kPmi1, but by PMI-2
    kPmix,  // like kPmi1, but by libpmix, which is loaded at run time
    kFile,  // no server: all ranks open a file store whose path is `file`, a dot and the generation
  };

  std::string launcher;        // the launcher's name for people: "mpirun of Open MPI"
  std::string command;         // the command that starts as many ranks as this job has: "srun -n 4", "mpirun -n 4"
  std::string evidence;        // the variables by which the launcher was recognised: "OMPI_COMM_WORLD_RANK"
  std::string rank_variables;  // the variables that gave rank and world size: "SLURM_PROCID and SLURM_STEP_NUM_TASKS"
  std::string around;          // outer launchers whose variables are set too: "Slurm (SLURM_STEP_ID)"; "" if none
  std::string remark;          // why the launcher's best `way` is not used; "" if it is used
  Rank rank = kNoRank;
  int world_size = 0;
  std::optional<int> local_rank;
  std::optional<int> local_world_size;

  // The job id. It differs between jobs that run at the same time and has at most kMaxJobIdBytes. Empty if the
  // launcher's key-value space has a name of its own (Exchange).
  std::string job;

  Way way = Way::kTcp;
  std::string host;                  // for kTcp
  std::vector<std::uint16_t> ports;  // for kTcp; if there are several ports, foreign servers may listen on some of them
  // For kTcp with ports derived from the job: a port that another program uses. The derivation skips it. 0: no such
  // port.
  std::uint16_t avoided_port = 0;
  bool external_store = false;  // for kTcp; true: the launcher serves the store
  // For kPmi1, kPmi2: the launcher's descriptor. It is never closed, so that its number is not used again.
  int fd = -1;
  std::string pmi_job;  // for kPmi2: the value of PMI_JOBID
  std::string file;     // for kFile
  std::string library;  // for kPmix: the library to load; "" for the usual names

  // Whether all ranks derive `ports` from the job, because the launcher names no port.
  bool derives_ports() const { return way == Way::kTcp && !external_store; }
  bool one_host() const { return local_world_size == world_size; }
  // A hint that is added to the error if the other ranks did not come. If the launcher started a shell, programs that
  // the user starts in the shell inherit the launcher's variables. Such a program then acts as a rank by mistake. The
  // hint names the variables, and says how to start all ranks or this process alone. "" if the world size is 1.
  std::string IfNotMeant() const;
  // Example: "rank 1 of 2 by mpirun of Open MPI (OMPI_COMM_WORLD_RANK), inside Slurm (SLURM_JOB_ID); rendezvous at rank
  // 0's store, published through PMIx".
  std::string Describe() const;
};

inline constexpr std::size_t kMaxJobIdBytes = 240;

// Makes a job id from `text`. A text that is too long is cut and gets a digest of the whole text, so that different
// texts stay different.
std::string JobId(const std::string& text);

}  // namespace rondo
