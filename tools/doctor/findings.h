// What the facts about this host mean for a job: pure functions from facts.h to findings, each with its remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/facts.h"

namespace rondo {

enum class Level : std::uint8_t {
  kOk,
  // The job runs, but slower than it could, or not on GPUs, or others (torchrun, NCCL, Gloo) stumble over it.
  kWarn,
  kBad,  // the job that was asked about fails
};
std::string_view Name(Level level);  // "ok", "warn", "bad"

struct Finding {
  Level level = Level::kOk;
  std::string subject;
  std::string what;
  std::string remedy = {};  // what to do about it; of a kOk empty
};

// The job that this host is looked at for.
struct PlannedJob {
  enum class Path : std::uint8_t { kAuto, kTcp, kShm, kIb };

  int local_ranks = 1;
  bool ranks_given = false;  // by who asks; else there are as many as cores
  Path path = Path::kAuto;
};

std::vector<Finding> JudgeInterfaces(const NetworkFacts& facts);
std::vector<Finding> JudgeReach(const NetworkFacts& facts);
std::vector<Finding> JudgeTcp(const NetworkFacts& facts);
std::vector<Finding> JudgeRdma(const RdmaFacts& facts, const PlannedJob& job);
std::vector<Finding> JudgeGpu(const GpuFacts& gpu, const RdmaFacts& rdma, const PlannedJob& job);
std::vector<Finding> JudgeMemory(const MemoryFacts& facts, const PlannedJob& job);
std::vector<Finding> JudgeLimits(const LimitFacts& facts, const PlannedJob& job);
std::vector<Finding> JudgeCpus(const CpuFacts& facts, const PlannedJob& job);
std::vector<Finding> JudgeEnvironment(const EnvironmentFacts& facts, const NetworkFacts& network);

// What belongs together, in the order in which it is printed. A section without findings is left out.
struct Section {
  std::string title;
  std::vector<Finding> findings;
};
std::vector<Section> Judge(const ExaminedHost& facts, const PlannedJob& job);

}  // namespace rondo
