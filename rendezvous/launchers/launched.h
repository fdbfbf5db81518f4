// What the launcher of this process says about its job: which rank this is, of how many, and how the ranks can meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace rondo {

struct Launched {
  // How ranks that know nothing of each other find the store that rank 0 serves.
  enum class Way : std::uint8_t {
    kTcp,   // at `host`, on the first of `ports` that rank 0 could have
    kPmi1,  // rank 0 tells it through the launcher's key-value space, over descriptor `fd`
    kPmi2,  // likewise
    kPmix,  // likewise, by libpmix, loaded at run time
    kFile,  // there is no server: a store in `file` (a dot and the generation follow), which all ranks see
  };

  std::string launcher;        // for people: "mpirun of Open MPI"
  std::string command;         // that starts as many ranks as this job has: "srun -n 4", "mpirun -n 4"
  std::string evidence;        // the variables by which it was recognised: "OMPI_COMM_WORLD_RANK"
  std::string rank_variables;  // which said rank and world size: "SLURM_PROCID and SLURM_STEP_NUM_TASKS"
  std::string around;  // launchers farther out that left their variables too, "" for none: "Slurm (SLURM_STEP_ID)"
  std::string remark;  // why the way is not the launcher's best, "" where it is
  Rank rank = kNoRank;
  int world_size = 0;
  std::optional<int> local_rank;
  std::optional<int> local_world_size;

  // Differs between jobs that run at the same time; at most kMaxJobIdBytes. Empty: the key-value space has a name.
  std::string job;

  Way way = Way::kTcp;
  std::string host;                  // kTcp
  std::vector<std::uint16_t> ports;  // kTcp; several: others than ours may listen on some of them
  // kTcp with ports that are derived from the job: one that another program has, so that it is none of them; 0: none.
  std::uint16_t avoided_port = 0;
  bool external_store = false;  // kTcp: the launcher serves the store
  int fd = -1;                  // kPmi1, kPmi2: the launcher's; stays open for ever, since its number is in use
  std::string pmi_job;          // kPmi2: what PMI_JOBID says
  std::string file;             // kFile
  std::string library;          // kPmix: what to load, "" for the usual names

  // Whether all ranks derive `ports` from the job, since nothing tells them one.
  bool derives_ports() const { return way == Way::kTcp && !external_store; }
  bool one_host() const { return local_world_size == world_size; }
  // For the error of a rank that waited for others: a shell that the launcher started hands its variables on to what is
  // started in it by hand, which then takes itself for that rank. Names them, and how to start all ranks or one alone.
  // "": there are no others.
  std::string IfNotMeant() const;
  // "rank 1 of 2 by mpirun of Open MPI (OMPI_COMM_WORLD_RANK), inside Slurm (SLURM_JOB_ID); meeting by PMIx"
  std::string Describe() const;
};

inline constexpr std::size_t kMaxJobIdBytes = 240;

// `text` as a job id: shortened where it is too long, with a digest of all of it, so that different texts still differ.
std::string JobId(const std::string& text);

}  // namespace rondo
