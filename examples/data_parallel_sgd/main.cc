// A complete program for data-parallel training on Rondo. It shows how a framework embeds Rondo, and proves that the
// result is correct.
//
//   rondo run -N 4 -- data_parallel_sgd        or, by hand, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set
//   rondo run -N 4 --keep-going -- data_parallel_sgd --survive        continues when ranks are killed
//
// Read trainer.h, buckets.h and recovery.h, because a framework would contain such code. model.h, data_set.h and
// optimizer.h represent the framework itself. lone_process.h, bounds.h and proof.h compare every step with one process
// on the whole batch.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/random.h"
#include "base/result.h"
#include "collectives/connect.h"
#include "examples/data_parallel_sgd/flags.h"
#include "examples/data_parallel_sgd/proof.h"
#include "examples/data_parallel_sgd/recovery.h"
#include "examples/data_parallel_sgd/trainer.h"

namespace sgd {
namespace {

// Larger than the number of any row that is used for training.
constexpr std::uint64_t kFirstUnseenRow = std::uint64_t{1} << 48;
constexpr std::uint64_t kUnseenRows = 3000;
// The largest number of rebuilds. It makes sure that a job ends if it loses ranks faster than it takes steps.
constexpr int kMaxRebuilds = 100;

void PrintHead(const rondo::Communicator& communicator, const Flags& flags, const Mlp& model, const Trainer& trainer) {
  fmt::print(
      "ranks       {}; a batch of {} samples is divided into one shard for each rank, and a shard into {} "
      "micro-batches\n",
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

// Begins with the initial state, or with the state of the ranks of a rebuilt communicator.
rondo::Status BeginOrResume(rondo::Communicator& communicator, Trainer& trainer, Checkpoint& checkpoint) {
  checkpoint.state.parameters.resize(trainer.state().parameters.size());
  checkpoint.state.velocity.resize(trainer.state().velocity.size());
  bool resumes = false;
  if (!communicator.report().old_ranks.empty()) {
    RONDO_ASSIGN(resumes, ShareFarthest(communicator, checkpoint));
  }
  if (resumes) {
    trainer.Restore(checkpoint.state);
    return {};
  }
  RONDO_TRY(trainer.ShareStart());
  checkpoint = {0, trainer.state()};
  return {};
}

// Returns whether every step passed the proof; all ranks get the same answer. Rank 0 prints each step. `checkpoint` is
// updated after each step.
rondo::Result<bool> Train(rondo::Communicator& communicator, const Flags& flags, Checkpoint& checkpoint) {
  const bool prints = communicator.rank() == 0;
  const Mlp model(flags.hidden);
  const Spirals data(flags.seed);
  const Sharing sharing{flags.batch,
                        Part({0, flags.batch}, 0, static_cast<std::uint64_t>(communicator.world_size())).size(),
                        communicator.world_size(), flags.gradient_type};
  if (!std::isfinite(BoundGradient(sharing).relative)) {
    return rondo::Fail(rondo::ErrorCode::kUnsupported, "there is no known error bound for a sum of {} among {} ranks",
                       Name(flags.gradient_type), communicator.world_size());
  }

  // Each rank draws its own initial values, as independent processes would. After that, all ranks take the values of
  // rank 0.
  const rondo::Random random(flags.seed + static_cast<std::uint64_t>(communicator.rank()));
  const DescentOptions descent{flags.learning_rate, flags.momentum};
  Trainer trainer(communicator, model, data, {descent, {flags.gradient_type, flags.bucket_bytes}, flags.accumulation},
                  model.StartValues(random));
  RONDO_TRY(BeginOrResume(communicator, trainer, checkpoint));
  const auto first_step = static_cast<std::uint64_t>(checkpoint.steps);
  if (prints && first_step > 0) fmt::print("resumed     after step {}\n", first_step);

  std::optional<Proof> proof;
  if (prints) {
    proof.emplace(model, data, descent, sharing, trainer.state());
    PrintHead(communicator, flags, model, trainer);
  }
  for (std::uint64_t step = first_step; step < flags.steps; ++step) {
    const Rows batch{step * flags.batch, (step + 1) * flags.batch};
    const TrainingState before = trainer.state();
    RONDO_ASSIGN(const double loss, trainer.TakeStep(batch));
    RONDO_ASSIGN(bool good, trainer.HoldsBitsOfRank0());
    if (!good)
      fmt::print(stderr, "step {}: the parameters of rank {} are not bit for bit those of rank 0\n", step + 1,
                 communicator.rank());
    if (proof) {
      const StepReport report = proof->Check(batch, before, trainer.state(), loss);
      PrintStep(step + 1, loss, report);
      if (!report.good()) fmt::print(stderr, "step {}: {}\n", step + 1, proof->Complaint(report));
      good = good && report.good();
    }
    RONDO_TRY(communicator.AllReduce(&good, &good, 1, rondo::DataType::kBool, rondo::ReduceOp::kBand));
    if (!good) return false;
    // Updated only after the proof, so that ranks continue only from states that were proved and printed.
    checkpoint = {static_cast<std::int64_t>(step + 1), trainer.state()};
  }
  if (prints) {
    const auto unseen = data.Load({kFirstUnseenRow, kFirstUnseenRow + kUnseenRows});
    fmt::print("\naccuracy    {:.1f} % of {} samples that no rank trained on\n",
               100 * model.Accuracy(trainer.state().parameters, unseen), kUnseenRows);
    fmt::print("overlap     {} of {} reductions ended before their backward pass ended\n",
               trainer.buckets().reduced_before_finish(), trainer.buckets().size() * (flags.steps - first_step));
  }
  return true;
}

// Whether a rebuild may help. If ranks disagree, or if a rank lacks a resource, the next attempt would fail again.
bool MayBeSurvived(rondo::ErrorCode code) {
  using enum rondo::ErrorCode;
  return code == kPeerLost || code == kPeerAborted || code == kTimeout || code == kConnectionReset ||
         code == kUnreachable || code == kClosed;
}

// Trains to the end and closes. With --survive it continues after ranks are lost; `communicator` is then the latest
// rebuilt one. A rank that has finished also continues, because others may need its state and its share of the
// remaining work.
rondo::Result<bool> TrainAndClose(std::unique_ptr<rondo::Communicator>& communicator, const Flags& flags) {
  Checkpoint checkpoint;
  for (int rebuilds = 0;; ++rebuilds) {
    rondo::Result<bool> good = Train(*communicator, flags, checkpoint);
    if (good) {
      const rondo::Status closed = communicator->Close();
      if (closed) return good;
      good = rondo::Fail(closed.error());
    }
    if (!flags.survive || !MayBeSurvived(good.error().code()) || rebuilds == kMaxRebuilds) return good;
    fmt::print(stderr, "data_parallel_sgd: rank {} continues after: {}\n", communicator->rank(),
               good.error().ToString());
    auto next = communicator->Rebuild(
        {.max_ranks = flags.refill, .settle = std::chrono::duration_cast<rondo::Duration>(flags.settle)});
    if (!next) return rondo::Fail(next.error());
    communicator = *std::move(next);
    if (communicator->rank() == 0) fmt::print("rebuilt     {}\n", communicator->report().ToString());
  }
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
  auto communicator = rondo::Connect({.rendezvous = flags.rendezvous,
                                      .path = flags.path,
                                      .timeout = timeout,
                                      .environment = rondo::ProcessEnvironment,
                                      .rebuildable = flags.survive});
  if (!communicator) return complain(communicator.error());
  const rondo::Result<bool> good = TrainAndClose(*communicator, flags);
  if (!good) return complain(good.error());
  if ((*communicator)->rank() == 0) {
    fmt::print(
        "verdict     {}\n",
        *good ? "every step equals the step of one process up to rounding, and is bit for bit the same on all ranks"
              : "FAILED");
  }
  return *good ? 0 : 1;
}

}  // namespace
}  // namespace sgd

int main(int argc, char** argv) { return sgd::Main(argc, argv); }
