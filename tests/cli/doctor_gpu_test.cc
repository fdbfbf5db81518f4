// Tests the reports of rondo doctor about GPUs, with the facts of imaginary hosts.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/doctor_findings.h"

namespace rondo {
namespace doctor_gpu_test {

using Access = SurveyedGpu::Access;

const RdmaFacts kNoRdma;
const PlannedJob kAsManyAsCores{.local_ranks = 64};

PlannedJob Asked(int ranks) { return {.local_ranks = ranks, .ranks_given = true}; }

SurveyedGpu Gpu(int number, Access access = Access::kShared, std::optional<bool> mps = false) {
  return {.name = fmt::format("GPU {} (H)", number),
          .pci_address = fmt::format("0000:1{}:00.0", number),
          .access = access,
          .mps = mps};
}

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
  GpuFacts facts = With({Gpu(0), Gpu(1)});
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").what == "finds 2 GPUs; CUDA up to 12.4");
  facts.nvidia_gpus = 0;  // the device files do not have their usual names, as under WSL
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").level == Level::kOk);
  facts.survey = Fail(ErrorCode::kTimeout, "no answer");
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").level == Level::kWarn);
  facts = With({Gpu(0), Gpu(1)});
  facts.nvidia_gpus = 8;
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(2)), "driver").what == "finds 2 of 8 GPUs; CUDA up to 12.4");
}

TEST_CASE("a driver that does not work is a warning with its own words: memory of hosts is summed without it") {
  GpuFacts facts;
  facts.nvidia_gpus = 8;
  facts.survey = Fail(ErrorCode::kUnsupported, "no GPU: starting the driver failed");
  const auto findings = JudgeGpu(facts, kNoRdma, Asked(8));
  REQUIRE(findings.size() == 1);
  CHECK(About(findings, "driver").level == Level::kWarn);
  CHECK(Contains(About(findings, "driver").what, "no GPU: starting the driver failed"));
  CHECK(Contains(About(findings, "driver").remedy, "nvidia-smi"));
  facts.built_with_cuda = false;  // a build without CUDA causes the error, so the driver may be healthy
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(8)), "driver").remedy == "use a build of Rondo with CUDA");
}

TEST_CASE("if the number of ranks is given, ranks that will time-slice a GPU are warned of") {
  const GpuFacts one = With({Gpu(0)});
  const Finding shared = About(JudgeGpu(one, kNoRdma, Asked(2)), "sharing");
  CHECK(shared.level == Level::kWarn);
  CHECK(Contains(shared.what, "2 ranks share 1 GPU "));
  CHECK(Contains(shared.remedy, "nvidia-cuda-mps-control"));
  CHECK(About(JudgeGpu(one, kNoRdma, Asked(1)), "sharing").level == Level::kOk);
  CHECK(About(JudgeGpu(one, kNoRdma, kAsManyAsCores), "sharing").level == Level::kOk);
}

TEST_CASE("ranks may each see another GPU: where some are hidden from the doctor, it does not say that one is shared") {
  GpuFacts facts = With({Gpu(0)});
  facts.nvidia_gpus = 8;  // all GPUs but one are hidden from the doctor, for example by srun --gpus-per-task=1
  CHECK(About(JudgeGpu(facts, kNoRdma, Asked(8)), "sharing").level == Level::kOk);
}

TEST_CASE("what MPS does for ranks that share a GPU is said as far as the driver tells") {
  const auto sharing = [](std::optional<bool> mps) {
    return About(JudgeGpu(With({Gpu(0, Access::kShared, mps)}), kNoRdma, Asked(2)), "sharing");
  };
  CHECK(sharing(true).level == Level::kOk);
  CHECK(Contains(sharing(true).what, "at the same time"));
  CHECK(sharing(std::nullopt).level == Level::kOk);
  CHECK(Contains(sharing(std::nullopt).what, "does not report"));
}

TEST_CASE("a compute mode that keeps ranks out names its GPU, and the remedy that one alone") {
  const GpuFacts closed = With({Gpu(0), Gpu(1, Access::kProhibited)});
  CHECK(About(JudgeGpu(closed, kNoRdma, Asked(1)), "GPU 0").subject.empty());
  CHECK(About(JudgeGpu(closed, kNoRdma, Asked(1)), "GPU 1").level == Level::kWarn);
  CHECK(Contains(About(JudgeGpu(closed, kNoRdma, Asked(1)), "GPU 1").remedy, "nvidia-smi -i 0000:11:00.0 -c DEFAULT"));

  const GpuFacts exclusive = With({Gpu(0, Access::kOneProcess)});
  CHECK(Contains(About(JudgeGpu(exclusive, kNoRdma, Asked(2)), "GPU 0").what, "at a time, but 2 ranks share 1 GPU"));
  CHECK(About(JudgeGpu(exclusive, kNoRdma, Asked(2)), "sharing").subject.empty());  // no two ranks can share the GPU
  CheckRemedies(JudgeGpu(exclusive, kNoRdma, Asked(2)));
  for (const PlannedJob& job : {Asked(1), kAsManyAsCores}) {
    CHECK(About(JudgeGpu(exclusive, kNoRdma, job), "GPU 0").subject.empty());
    CHECK(Contains(About(JudgeGpu(exclusive, kNoRdma, job), "sharing").what, "refuse a second"));
  }
  // The MPS server is the one process that is allowed on the GPU.
  const GpuFacts under_mps = With({Gpu(0, Access::kOneProcess, true)});
  CHECK(About(JudgeGpu(under_mps, kNoRdma, Asked(2)), "GPU 0").subject.empty());
}

TEST_CASE("adapters that cannot reach memory of GPUs are a warning; where there is no adapter, nothing is said of it") {
  GpuFacts facts = With({Gpu(0)});
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
  CHECK(Contains(reach().what, "mlx5_0:1 does not accept a dma-buf"));
  facts.reach.adapters[0].refusal = 0;
  CHECK(reach().level == Level::kOk);
  facts.open_driver = false;
  CHECK(reach().level == Level::kWarn);
}

}  // namespace doctor_gpu_test
}  // namespace rondo
