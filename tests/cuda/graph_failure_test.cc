// Failures of operations in CUDA graphs: which error each rank reports, and that nothing runs afterwards.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/graph_ranks.h"
#include "tests/support/threads.h"

namespace rondo::cuda {
namespace graph_failure_test {

using Bytes8 = std::vector<unsigned char>;

// The timeout of operations. It must also be long enough for the capture on a busy machine.
constexpr Duration kLate = std::chrono::seconds(2);

TEST_CASE("A rank that does not launch is named to all after the timeout, and nothing is done from then on") {
  std::atomic<bool> failed{false};
  OnGraphRanks(3, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    OperationOptions options = On(stream);
    options.timeout = kLate;
    const Graph graph = GraphOfSum(communicator, gpu, memory, options);
    if (communicator.rank() == 2) {
      while (!failed) std::this_thread::yield();
    } else {
      graph.Launch();
      gpu.Synchronize(stream);
      CHECK(communicator.failure().has_value());
      failed = true;
    }
    const Status status = communicator.Barrier();
    REQUIRE(!status);
    CAPTURE(TextOf(status));
    CHECK(status.error().code() == ErrorCode::kTimeout);
    CHECK(status.error().culprit() == 2);
    CHECK(status.error().message().find("rank 2 did not reach the operation captured as #1") != std::string::npos);
    graph.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 1));
  });
}

TEST_CASE("A rank that arrives after the timeout does nothing, and its own GPU reports that the others waited for it") {
  std::atomic<int> failed{0};
  OnGraphRanks(3, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    OperationOptions options = On(stream);
    options.timeout = kLate;
    const Graph graph = GraphOfSum(communicator, gpu, memory, options);
    // Rank 2's host does not check the other ranks meanwhile: only the GPUs can have informed each other.
    if (communicator.rank() == 2)
      while (failed < 2) std::this_thread::yield();
    graph.Launch();
    gpu.Synchronize(stream);
    ++failed;
    while (failed < 3) std::this_thread::yield();
    const auto failure = communicator.failure();
    REQUIRE(failure.has_value());
    CHECK(failure->code() == ErrorCode::kTimeout);
    CHECK(failure->culprit() == 2);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 1));
  });
}

TEST_CASE("An abort ends what launched graphs wait for") {
  std::atomic<bool> launched{false};
  OnGraphRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    const Graph graph = GraphOfSum(communicator, gpu, memory, On(stream));
    if (communicator.rank() == 1) {
      while (!launched) std::this_thread::yield();
      return communicator.Abort("enough");
    }
    graph.Launch();
    launched = true;
    while (!communicator.failure()) communicator.Progress();
    CHECK(communicator.failure()->code() == ErrorCode::kPeerAborted);
    communicator.Progress();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 1));
  });
}

TEST_CASE("All ranks report which different graphs they have launched, and nothing is done") {
  for (const int world : {2, 3}) {
    CAPTURE(world);
    std::atomic<int> ended{0}, asked{0};
    OnGraphRanks(world, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
      std::byte* const memory = gpu.Allocate(1000);
      gpu.PutFill(stream, memory, 1, 1000);
      gpu.Synchronize(stream);
      const Graph first = GraphOfSum(communicator, gpu, memory, On(stream));
      const Graph second = GraphOfSum(communicator, gpu, memory, On(stream));
      // Rank 2 starts when the other ranks have found the mismatch. No host informs another before all ranks have
      // checked.
      if (communicator.rank() == 2)
        while (ended < 2) std::this_thread::yield();
      (communicator.rank() == 1 ? second : first).Launch();
      gpu.Synchronize(stream);
      ++ended;
      while (ended < world) std::this_thread::yield();
      const auto failure = communicator.failure();
      ++asked;
      while (asked < world) std::this_thread::yield();
      REQUIRE(failure.has_value());
      CAPTURE(failure->ToString());
      CHECK(failure->code() == ErrorCode::kMismatch);
      // The rank that checks first informs the others; each rank's description is correct.
      const std::string text = failure->message();
      const bool of_rank_1 =
          text.find("rank 1 is in the operation captured as #2, but rank 0 is in #1") != std::string::npos;
      const bool of_others = text.find(" is in the operation captured as #1, but rank 1 is in ") != std::string::npos;
      CHECK((of_rank_1 || of_others));
      CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 1));
    });
  }
}

TEST_CASE("Two launches at once, which are forbidden, give right results or a mismatch") {
  OnGraphRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    CUstream other = gpu.NewStream();
    std::byte* const one = gpu.Allocate(1000);
    std::byte* const two = gpu.Allocate(1000);
    gpu.PutFill(stream, one, 1, 1000);
    gpu.PutFill(stream, two, 2, 1000);
    gpu.Synchronize(stream);
    const Graph first = GraphOfSum(communicator, gpu, one, On(stream));
    const Graph second = GraphOfSum(communicator, gpu, two, On(other));
    first.Launch();
    second.Launch();
    gpu.Synchronize(stream);
    gpu.Synchronize(other);
    if (const Status status = communicator.Barrier(); !status) {
      CAPTURE(TextOf(status));
      CHECK(status.error().code() == ErrorCode::kMismatch);
      return;
    }
    CHECK(gpu.Values<unsigned char>(one, 1000) == Bytes8(1000, 2));
    CHECK(gpu.Values<unsigned char>(two, 1000) == Bytes8(1000, 4));
  });
}

TEST_CASE("A call after the stream has ended reports another rank's abort, though its notice may still be on its way") {
  std::atomic<int> launched{0}, ended{0};
  OnGraphRanks(3, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    const Graph graph = GraphOfSum(communicator, gpu, memory, On(stream));
    if (communicator.rank() == 1) {
      while (launched < 2) std::this_thread::yield();
      communicator.Abort("enough");
      graph.Launch();  // signals the abort to the other ranks, because this rank's communicator has failed
      gpu.Synchronize(stream);
      ++ended;
      while (ended < 3) std::this_thread::yield();  // the launches of the other ranks still use this rank's memory
      return;
    }
    graph.Launch();
    ++launched;
    gpu.Synchronize(stream);
    ++ended;
    OnThreads(4, [&](int) {
      const auto failure = communicator.failure();
      CHECK((failure && failure->code() == ErrorCode::kPeerAborted));
      CHECK((failure && failure->culprit() == 1));
    });
  });
}

// Rank 0 launches a graph and rank 1 does not. Checks the error that each rank's next call then reports.
void ReportsTimeout(const std::function<Status(Communicator&)>& call) {
  std::atomic<bool> failed{false};
  OnGraphRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    OperationOptions options = On(stream);
    options.timeout = kLate;
    const Graph graph = GraphOfSum(communicator, gpu, memory, options);
    if (communicator.rank() == 1) {
      while (!failed) std::this_thread::yield();
    } else {
      graph.Launch();
      gpu.Synchronize(stream);
    }
    const Status status = call(communicator);
    failed = true;
    REQUIRE(!status);
    CAPTURE(TextOf(status));
    CHECK(status.error().code() == ErrorCode::kTimeout);
    CHECK(status.error().culprit() == 1);
  });
}

TEST_CASE("A send after a graph's timeout reports it") {
  ReportsTimeout([](Communicator& communicator) {
    return communicator.Send(nullptr, 0, DataType::kUint8, 1 - communicator.rank(), 0);
  });
}

TEST_CASE("After a graph's timeout Close says who was missing, and ends") {
  ReportsTimeout([](Communicator& communicator) { return communicator.Close(); });
}

TEST_CASE(
    "A first operation that is captured where no shared segment can be made is refused, and all goes on by other "
    "ways") {
  std::barrier<> at_once(2);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  OnGraphRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    at_once.arrive_and_wait();
    if (communicator.rank() == 0) {
      const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};  // no shared memory can be made
      REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    }
    at_once.arrive_and_wait();
    const Graph graph(gpu, stream, [&] {
      const Status status = communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream));
      REQUIRE(!status);
      CAPTURE(TextOf(status));
      CHECK(status.error().code() == ErrorCode::kUnsupported);
      CHECK(TextOf(status).find("cannot be captured into a graph: there is no shared segment: ") != std::string::npos);
    });
    if (communicator.rank() == 0) CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream))) == "ok");
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 2));
  });
  std::signal(SIGXFSZ, ignored);
}

}  // namespace graph_failure_test
}  // namespace rondo::cuda
