// What rondo doctor says of GPUs, on hosts that are made up.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/doctor_findings.h"

namespace rondo {
namespace {

using Access = SurveyedGpu::Access;

const RdmaFacts kNoRdma;
const PlannedJob kAsManyAsCores{.local_ranks = 64};

PlannedJob Asked(int ranks) { return {.local_ranks = ranks, .ranks_given = true}; }

GpuFacts With(std::vector<SurveyedGpu> gpus) {
  GpuFacts facts;
  facts.nvidia_gpus = static_cast<int>(gpus.size());
  facts.survey = GpuSurvey{.driver_version = 12040, .gpus = std::move(gpus)};
  return facts;
}

RdmaFacts WithAdapter() {
  RdmaFacts facts;
  facts.ports.emplace_back().name = "mlx5_0:1";
  return facts;
}

TEST_CASE("GPUs are spoken of where the system or the driver has some") {
  CHECK(JudgeGpu({}, WithAdapter(), Asked(2)).empty());
  GpuFacts facts = With({{.name = "GPU 0 (H)"}, {.name = "GPU 1 (H)"}});
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").what == "finds 2 GPUs, for CUDA up to 12.4");
  facts.nvidia_gpus = 0;  // of other files, as under WSL
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").level == Level::kOk);
}

TEST_CASE("a driver that does not work is a warning with its own words: memory of hosts is summed without it") {
  GpuFacts facts;
  facts.nvidia_gpus = 8;
  facts.survey = Fail(ErrorCode::kUnsupported, "no GPU: the driver does not start");
  const auto findings = JudgeGpu(facts, kNoRdma, Asked(8));
  REQUIRE(findings.size() == 1);
  CHECK(About(findings, "driver").level == Level::kWarn);
  CHECK(Contains(About(findings, "driver").what, "no GPU: the driver does not start"));
  CheckRemedies(findings);
}

TEST_CASE("ranks that will share a GPU by turns are warned of, where somebody said how many there are") {
  const GpuFacts one = With({{.name = "GPU 0 (H)"}});
  const Finding shared = About(JudgeGpu(one, kNoRdma, Asked(2)), "sharing");
  CHECK(shared.level == Level::kWarn);
  CHECK(Contains(shared.what, "2 ranks share 1 GPU "));
  CHECK(Contains(shared.remedy, "nvidia-cuda-mps-control"));
  CHECK(About(JudgeGpu(one, kNoRdma, Asked(1)), "sharing").level == Level::kOk);
  CHECK(About(JudgeGpu(one, kNoRdma, kAsManyAsCores), "sharing").level == Level::kOk);
  const GpuFacts under_mps = With({{.name = "GPU 0 (H)", .mps = true}});
  CHECK(About(JudgeGpu(under_mps, kNoRdma, Asked(2)), "sharing").level == Level::kOk);
}

TEST_CASE("a compute mode that keeps ranks out names its GPU") {
  GpuFacts facts = With({{.name = "GPU 0 (H)"}, {.name = "GPU 1 (H)", .access = Access::kNobody}});
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(1)), "GPU 0").subject.empty());
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(1)), "GPU 1").level == Level::kWarn);
  facts = With({{.name = "GPU 0 (H)", .access = Access::kOneProcess}});
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(1)), "GPU 0").subject.empty());
  CHECK(Contains(About(JudgeGpu(facts, kNoRdma, Asked(2)), "GPU 0").what, "one process"));
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "sharing").subject.empty());  // nobody will
  CHECK(About(JudgeGpu(facts, kNoRdma, kAsManyAsCores), "GPU 0").subject.empty());
  CheckRemedies(JudgeGpu(facts, kNoRdma, Asked(2)));
  facts.survey->gpus.front().mps = true;  // is the one process
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "GPU 0").subject.empty());
}

TEST_CASE("adapters that cannot reach memory of GPUs are a warning; where there is no adapter, nothing is said of it") {
  GpuFacts facts = With({{.name = "GPU 0 (H)"}});
  const auto reach = [&] { return About(JudgeGpu(facts, WithAdapter(), Asked(1)), "RDMA"); };
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(1)), "RDMA").subject.empty());
  CHECK(reach().level == Level::kWarn);
  CheckRemedies(JudgeGpu(facts, WithAdapter(), Asked(1)));
  facts.reach.peer_memory = "nvidia_peermem";
  CHECK(reach().level == Level::kOk);
  facts.reach.peer_memory = "";
  facts.open_driver = true;
  CHECK(Contains(reach().what, "libibverbs has no ibv_reg_dmabuf_mr"));
  facts.reach = {
      .library_has_dma_buf = true, .adapters = {{.adapter = "mlx5_0:1", .refusal = EOPNOTSUPP}}, .peer_memory = ""};
  CHECK(reach().level == Level::kWarn);
  CHECK(Contains(reach().what, "mlx5_0:1 takes none"));
  facts.reach.adapters[0].refusal = 0;
  CHECK(reach().level == Level::kOk);
  facts.open_driver = false;
  CHECK(reach().level == Level::kWarn);
}

}  // namespace
}  // namespace rondo
