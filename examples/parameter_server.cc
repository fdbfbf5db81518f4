// Asynchronous training with a parameter server. A worker sends a gradient whenever it has one. The server receives
// gradients from any rank, applies each at once, and answers with its current parameters. No worker waits for the
// slowest worker (Dean et al., "Large scale distributed deep networks", NeurIPS 2012).
//
//   rondo run -N 4 -- bazel-bin/examples/parameter_server
//
// Rank 0 is the server. The task is a linear regression without noise, distributed over the workers. The program checks
// two results: the parameters must converge to the true parameters, whatever the order in which gradients arrive, and
// each worker must get an answer to each gradient.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/connect.h"

namespace {

using Values = std::vector<float>;
constexpr std::size_t kParameters = 20;
constexpr int kSteps = 200;  // steps of each worker
constexpr int kBatch = 32;
constexpr float kRate = 0.1f;
constexpr float kTolerance = 1e-2f;
constexpr rondo::DataType kType = rondo::DataType::kFloat32;
// The tag of a gradient is its number. So the tag of a worker's final gradient shows the server that the worker has
// finished.
constexpr rondo::Tag kParametersTag = kSteps;

float TrueParameter(std::size_t i) { return static_cast<float>(i % 5) - 2.0f; }

int Complain(int rank, const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  return 1;
}

int Serve(rondo::Communicator& communicator) {
  const int workers = communicator.world_size() - 1;
  Values parameters(kParameters, 0.0f), gradient(kParameters);
  std::vector<int> steps(static_cast<std::size_t>(workers) + 1, 0);
  for (int left = workers; left > 0;) {
    const auto came = communicator.Recv(gradient.data(), kParameters, kType, rondo::kAnyRank, rondo::kAnyTag);
    if (!came) return Complain(0, came.error().ToString());
    int& step = steps[static_cast<std::size_t>(came->source)];
    if (came->tag != step || came->count != kParameters)
      return Complain(0, "rank " + std::to_string(came->source) + " sent gradient " + std::to_string(came->tag) +
                             ", expected gradient " + std::to_string(step));
    for (std::size_t i = 0; i < kParameters; ++i) parameters[i] -= kRate * gradient[i];
    const auto sent = communicator.Send(parameters.data(), kParameters, kType, came->source, kParametersTag);
    if (!sent) return Complain(0, sent.error().ToString());
    left -= ++step == kSteps;
  }
  for (std::size_t i = 0; i < kParameters; ++i)
    if (std::fabs(parameters[i] - TrueParameter(i)) > kTolerance)
      return Complain(0, "parameter " + std::to_string(i) + " is " + std::to_string(parameters[i]) + ", not " +
                             std::to_string(TrueParameter(i)));
  std::printf("server: %d gradients from %d workers, all %zu parameters within %g\n", workers * kSteps, workers,
              kParameters, static_cast<double>(kTolerance));
  return 0;
}

int RunWorker(rondo::Communicator& communicator) {
  rondo::Random random(static_cast<std::uint64_t>(communicator.rank()));
  Values parameters(kParameters, 0.0f), gradient(kParameters), sample(kParameters);
  for (rondo::Tag step = 0; step < kSteps; ++step) {
    // The gradient of the mean squared error over a batch that only this worker has.
    gradient.assign(kParameters, 0.0f);
    for (int b = 0; b < kBatch; ++b) {
      float error = 0;
      for (std::size_t i = 0; i < kParameters; ++i) {
        sample[i] = static_cast<float>(2 * random.Unit() - 1);
        error += sample[i] * (parameters[i] - TrueParameter(i));
      }
      for (std::size_t i = 0; i < kParameters; ++i) gradient[i] += 2 * error * sample[i] / kBatch;
    }
    // The receive is posted together with the send, so that the answer is received directly into `parameters`.
    const auto answered = communicator.SendRecv({gradient.data(), kParameters, 0, step},
                                                {parameters.data(), kParameters, 0, kParametersTag}, kType);
    if (!answered) return Complain(communicator.rank(), answered.error().ToString());
  }
  std::printf("worker %d: %d gradients sent and answered\n", communicator.rank(), kSteps);
  return 0;
}

}  // namespace

int main() {
  auto communicator = rondo::Connect({.rendezvous = "env://", .environment = rondo::ProcessEnvironment});
  if (!communicator) return Complain(-1, communicator.error().ToString());
  const int failed = (*communicator)->rank() == 0 ? Serve(**communicator) : RunWorker(**communicator);
  if (failed != 0) return failed;
  const auto closed = (*communicator)->Close();
  return closed ? 0 : Complain((*communicator)->rank(), closed.error().ToString());
}
