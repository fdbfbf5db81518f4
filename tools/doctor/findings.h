// Judges the facts about this host: pure functions from facts.h to findings, with a remedy for each problem.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/facts.h"

namespace rondo {

enum class Level : std::uint8_t {
  kOk,
  // The job runs, but it is slower than possible or cannot use GPUs; or the problem affects only other programs
  // (torchrun, NCCL, Gloo).
  kWarn,
  kBad,  // the planned job fails
};
std::string_view Name(Level level);  // "ok", "warn", "bad"

struct Finding {
  Level level = Level::kOk;
  std::string subject;
  std::string what;
  std::string remedy = {};  // how the user can solve the problem; empty for kOk
};

// The job for which this host is examined.
struct PlannedJob {
  enum class Path : std::uint8_t { kAuto, kTcp, kShm, kIb };

  int local_ranks = 1;
  bool ranks_given = false;  // true: the user gave local_ranks; false: there is one rank for each CPU core
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

// Related findings, in the order in which they are printed. Judge leaves out sections without findings.
struct Section {
  std::string title;
  std::vector<Finding> findings;
};
std::vector<Section> Judge(const ExaminedHost& facts, const PlannedJob& job);

}  // namespace rondo
