// Data-parallel training on Rondo, whole: how a framework embeds it, with the proof that the result is right.
//
//   rondo run -N 4 -- data_parallel_sgd        or, by hand, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set
//
// Read trainer.h and buckets.h: they are what a framework would write. model.h, data_set.h and optimizer.h stand for
// the framework itself; lone_process.h, bounds.h and proof.h hold every step against one process on the whole batch.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/random.h"
#include "base/result.h"
#include "collectives/connect.h"
#include "examples/data_parallel_sgd/flags.h"
#include "examples/data_parallel_sgd/proof.h"
#include "examples/data_parallel_sgd/trainer.h"

namespace sgd {
namespace {

constexpr std::uint64_t kFirstUnseenRow = std::uint64_t{1} << 48;  // beyond every row that is trained on
constexpr std::uint64_t kUnseenRows = 3000;

void PrintHead(const rondo::Communicator& communicator, const Flags& flags, const Mlp& model, const Trainer& trainer) {
  fmt::print("ranks       {}, the {} samples of a batch cut into as many shards, each into {} micro-batches\n",
             communicator.world_size(), flags.batch, flags.accumulation);
  fmt::print("gradients   {} in {} tensors, reduced as {} in {} buckets\n", model.parameter_count(),
             model.tensors().size(), Name(flags.gradient_type), trainer.buckets().size());
  fmt::print(
      "\n"
      "           mean   from one process's step from the same state:   one process by itself:\n"
      "  step     loss   loss (bound)       parameters (of bound)       loss      parameters\n");
}

void PrintStep(std::uint64_t step, double loss, const StepReport& report) {
  fmt::print("{:6} {:.6f}   {:.1e} ({:.1e})  {:.1e} ({:3.0f} %)            {:.6f}  {:.1e}\n", step, loss,
             report.loss_difference, report.loss_bound, report.parameters.largest_difference,
             100 * report.parameters.largest_share, report.run_loss, report.run_parameters_difference);
  std::fflush(stdout);
}

// Whether every step stood the proof: the same answer on every rank. Rank 0 prints.
rondo::Result<bool> Train(rondo::Communicator& communicator, const Flags& flags) {
  const bool prints = communicator.rank() == 0;
  const Mlp model(flags.hidden);
  const Spirals data(flags.seed);
  const Sharing sharing{flags.batch,
                        Part({0, flags.batch}, 0, static_cast<std::uint64_t>(communicator.world_size())).size(),
                        communicator.world_size(), flags.gradient_type};
  if (!std::isfinite(BoundGradient(sharing).relative)) {
    return rondo::Fail(rondo::ErrorCode::kUnsupported, "a sum of {} among {} ranks has no bound to be proved",
                       Name(flags.gradient_type), communicator.world_size());
  }

  // Each rank draws start values of its own, as processes do that were told nothing; then all take rank 0's.
  const rondo::Random random(flags.seed + static_cast<std::uint64_t>(communicator.rank()));
  const DescentOptions descent{flags.learning_rate, flags.momentum};
  Trainer trainer(communicator, model, data, {descent, {flags.gradient_type, flags.bucket_bytes}, flags.accumulation},
                  model.StartValues(random));
  RONDO_TRY(trainer.ShareStart());

  std::optional<Proof> proof;
  if (prints) {
    proof.emplace(model, data, descent, sharing, trainer.state());
    PrintHead(communicator, flags, model, trainer);
  }
  for (std::uint64_t step = 0; step < flags.steps; ++step) {
    const Rows batch{step * flags.batch, (step + 1) * flags.batch};
    const TrainingState before = trainer.state();
    RONDO_ASSIGN(const double loss, trainer.TakeStep(batch));
    RONDO_ASSIGN(bool good, trainer.HoldsBitsOfRank0());
    if (!good) fmt::print(stderr, "step {}: rank {} holds other bits than rank 0\n", step + 1, communicator.rank());
    if (proof) {
      const StepReport report = proof->Check(batch, before, trainer.state(), loss);
      PrintStep(step + 1, loss, report);
      if (!report.good()) fmt::print(stderr, "step {}: {}\n", step + 1, proof->Complaint(report));
      good = good && report.good();
    }
    RONDO_TRY(communicator.AllReduce(&good, &good, 1, rondo::DataType::kBool, rondo::ReduceOp::kBand));
    if (!good) return false;
  }
  if (prints) {
    const auto unseen = data.Load({kFirstUnseenRow, kFirstUnseenRow + kUnseenRows});
    fmt::print("\naccuracy    {:.1f} % of {} samples that nobody trained on\n",
               100 * model.Accuracy(trainer.state().parameters, unseen), kUnseenRows);
    fmt::print("overlap     {} of {} reductions were over when their backward pass was\n",
               trainer.buckets().reduced_before_finish(), trainer.buckets().size() * flags.steps);
  }
  return true;
}

int Main(int argc, char** argv) {
  const Parsed parsed = ParseFlags(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  const Flags& flags = parsed.flags;
  const auto complain = [](const rondo::Error& error) {
    fmt::print(stderr, "data_parallel_sgd: {}\n", error.ToString());
    return 1;
  };

  const auto timeout = std::chrono::duration_cast<rondo::Duration>(flags.timeout);
  const auto communicator =
      rondo::Connect({.rendezvous = flags.rendezvous, .timeout = timeout, .environment = rondo::ProcessEnvironment});
  if (!communicator) return complain(communicator.error());
  const rondo::Result<bool> good = Train(**communicator, flags);
  if (!good) return complain(good.error());
  if (const rondo::Status closed = (*communicator)->Close(); !closed) return complain(closed.error());
  if ((*communicator)->rank() == 0) {
    fmt::print("verdict     {}\n",
               *good ? "every step is one process's step up to rounding, with the same bits on all ranks" : "FAILED");
  }
  return *good ? 0 : 1;
}

}  // namespace
}  // namespace sgd

int main(int argc, char** argv) { return sgd::Main(argc, argv); }
