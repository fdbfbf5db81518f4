// Operations in CUDA graphs, which are captured once and launched repeatedly. When a graph runs, the host takes no
// part.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/communicator/plain.h"
#include "tests/cuda/graph_ranks.h"

namespace rondo::cuda {
namespace graph_test {

using Bytes8 = std::vector<unsigned char>;

TEST_CASE("Every collective in a graph gives at each launch what it gives without one, in place or not") {
  for (const int world : {1, 2, 3, 4}) {
    OnGraphRanks(world, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
      const Rank rank = communicator.rank();
      const int world_size = communicator.world_size();
      for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                          Collective::kAllGather, Collective::kGather, Collective::kScatter,
                                          Collective::kReduceScatter, Collective::kAllToAll, Collective::kBarrier})
        for (const bool in_place : {false, true})
          for (const std::uint64_t count : {0u, 3u, 20'001u}) {
            plain::Case c;
            c.collective = collective;
            c.in_place = in_place;
            c.root = world_size - 1;
            c.counts.assign(static_cast<std::size_t>(world_size), count);
            CAPTURE(plain::Describe(c));
            plain::Buffers host(c, rank, world_size);
            const auto bytes = [](const plain::Values& values) { return values.size() * sizeof(std::int64_t); };
            std::byte* const output = gpu.Allocate(bytes(host.output) + 8);
            std::byte* const input = host.one ? output : gpu.Allocate(bytes(host.input) + 8);
            const Graph graph(gpu, stream, [&] {
              const Work work = plain::Issue(communicator, c, input + host.input_at * 8, output + host.output_at * 8,
                                             DataType::kInt64, ReduceOp::kSum, On(stream));
              INFO((work.refused() ? work.refused()->ToString() : std::string()));
              REQUIRE(!work.refused());
            });
            for (c.salt = 0; c.salt < 3; ++c.salt) {
              host = plain::Buffers(c, rank, world_size);
              gpu.Write(output, host.output.data(), bytes(host.output));
              if (!host.one) gpu.Write(input, host.input.data(), bytes(host.input));
              graph.Launch();
              gpu.Synchronize(stream);
              gpu.Read(host.output.data(), output, bytes(host.output));
              CHECK(host.Wrong(c, rank, world_size) == "");
            }
          }
    });
  }
}

TEST_CASE("An average of float16 or integers whose sum is beyond the type is right, in a graph too") {
  OnGraphRanks(3, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    const auto average_of = [&]<typename T>(DataType type, T operand) {
      const std::vector<T> own(1000, operand);
      std::byte* const memory = gpu.Allocate(1000 * sizeof(T));
      gpu.Write(memory, own.data(), 1000 * sizeof(T));
      const Graph graph(gpu, stream, [&] {
        CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, type, ReduceOp::kAvg, On(stream))) == "ok");
      });
      graph.Launch();
      gpu.Synchronize(stream);
      CHECK(gpu.Values<T>(memory, 1000) == own);
    };
    average_of(DataType::kFloat16, std::uint16_t{0x78E2});  // 40000
    average_of(DataType::kInt8, std::int8_t{100});
    average_of(DataType::kUint64, ~std::uint64_t{0});
  });
}

TEST_CASE("Averages are divided once, and pre-multiplied sums take each rank's factor, in a graph too") {
  OnGraphRanks(3, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    const auto result_of = [&](ReduceOp op, double scale) {
      const std::vector<float> own(1000, static_cast<float>(communicator.rank() + 1));
      std::byte* const memory = gpu.Allocate(4000);
      gpu.Write(memory, own.data(), 4000);
      OperationOptions options = On(stream);
      options.scale = scale;
      const Graph graph(gpu, stream, [&] {
        CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kFloat32, op, options)) == "ok");
      });
      graph.Launch();
      gpu.Synchronize(stream);
      return gpu.Values<float>(memory, 1000);
    };
    CHECK(result_of(ReduceOp::kAvg, 1.0) == std::vector<float>(1000, 2));
    CHECK(result_of(ReduceOp::kPremulSum, communicator.rank() + 1.0) == std::vector<float>(1000, 14));
    CHECK(result_of(ReduceOp::kMax, 1.0) == std::vector<float>(1000, 3));
  });
}

TEST_CASE("Operations have their places among the other work of a graph, and launches follow each other") {
  OnGraphRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    constexpr std::size_t kBytes = 5000;
    std::byte* const memory = gpu.Allocate(kBytes);
    std::byte* const sum = gpu.Allocate(kBytes);
    std::byte* const all = gpu.Allocate(2 * kBytes);
    gpu.PutFill(stream, sum, 0, kBytes);
    const Graph graph(gpu, stream, [&] {
      gpu.PutFill(stream, memory, static_cast<unsigned char>(communicator.rank() + 1), kBytes);
      CHECK(TextOf(communicator.AllReduce(memory, memory, kBytes, DataType::kUint8, ReduceOp::kSum, On(stream))) ==
            "ok");
      CHECK(TextOf(communicator.AllGather(memory, all, kBytes, DataType::kUint8, On(stream))) == "ok");
      gpu.PutFill(stream, memory, 10, kBytes);
      CHECK(TextOf(communicator.Reduce(memory, sum, kBytes, DataType::kUint8, ReduceOp::kMax, 1, On(stream))) == "ok");
    });
    for (int i = 0; i < 20; ++i) graph.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(all, 2 * kBytes) == Bytes8(2 * kBytes, 3));
    CHECK(gpu.Values<unsigned char>(sum, kBytes) == Bytes8(kBytes, communicator.rank() == 1 ? 10 : 0));
  });
}

TEST_CASE("A capture of the program and concurrent operations do not disturb each other") {
  OnGraphRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    CUstream other = gpu.NewStream();
    std::byte* const memory = gpu.Allocate(100'000);
    gpu.PutFill(other, memory, 1, 100'000);
    const Graph graph(gpu, stream, [&] {
      for (int i = 0; i < 3; ++i)
        CHECK(TextOf(communicator.AllReduce(memory, memory, 100'000, DataType::kUint8, ReduceOp::kSum, On(other))) ==
              "ok");
      gpu.PutFill(stream, memory, 7, 100'000);
    });
    gpu.Synchronize(other);
    CHECK(gpu.Values<unsigned char>(memory, 100'000) == Bytes8(100'000, 8));
    graph.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(memory, 100'000) == Bytes8(100'000, 7));
  });
}

TEST_CASE("A capture that is broken takes no operation, and a communicator that has ended none either") {
  OnGraphRanks(1, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    std::byte* const copy = gpu.Allocate(1000);
    gpu.PutFill(stream, memory, 1, 1000);
    gpu.Synchronize(stream);
    const Graph graph(gpu, stream, [&] {
      // A world of one rank synchronizes with no other rank. Types without a sum can still be moved.
      CHECK(TextOf(communicator.AllGather(memory, copy, 1000, DataType::kBool, On(stream))) == "ok");
    });
    graph.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(copy, 1000) == Bytes8(1000, 1));
    {
      const Gpu::Use use(*gpu.gpu());
      const Driver& cuda = gpu.driver();
      gpu.Must(cuda.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a capture");
      CHECK(cuda.StreamSynchronize(stream) != CUDA_SUCCESS);
      const Status status = communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream));
      REQUIRE(!status);
      CHECK(status.error().code() == ErrorCode::kInvalidArgument);
      CUgraph none = nullptr;
      CHECK(cuda.StreamEndCapture(stream, &none) != CUDA_SUCCESS);
    }
    gpu.PutFill(stream, copy, 5, 1000);
    communicator.Abort("enough");
    graph.Launch();
    gpu.Synchronize(stream);
    CHECK(gpu.Values<unsigned char>(copy, 1000) == Bytes8(1000, 5));
    const Graph empty(gpu, stream, [&] {
      CHECK(!communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream)));
    });
  });
}

TEST_CASE("If only some ranks capture, the error of the capturing rank says so") {
  OnGraphRanks(2, [](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    std::byte* const memory = gpu.Allocate(1000);
    const auto reduce = [&] {
      const Status status = communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, On(stream));
      REQUIRE(!status);
      CAPTURE(TextOf(status));
      CHECK(status.error().code() == ErrorCode::kMismatch);
      CHECK(TextOf(status).find("in a graph by intranode") != std::string::npos);
      CHECK(TextOf(status).find("on devices by intranode") != std::string::npos);
    };
    if (communicator.rank() == 0) {
      const Graph graph(gpu, stream, reduce);
    } else {
      reduce();
    }
  });
}

// Returns the error with which a captured call was refused. Checks that the capture and the communicator still work
// after the refusal.
std::string RefusalOf(Communicator& communicator, OnGpu& gpu, CUstream stream,
                      const std::function<Status(std::byte* memory)>& call) {
  std::byte* const memory = gpu.Allocate(1000);
  std::string text;
  const Graph graph(gpu, stream, [&] {
    const Status status = call(memory);
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kUnsupported);
    text = status.error().message();
    gpu.PutFill(stream, memory, 7, 1000);
  });
  graph.Launch();
  gpu.Synchronize(stream);
  CHECK(gpu.Values<unsigned char>(memory, 1000) == Bytes8(1000, 7));
  CHECK(TextOf(communicator.Barrier()) == "ok");
  return text;
}

TEST_CASE("What cannot be in a graph is refused with the reason, and neither the capture nor anything else is harmed") {
  const auto sum_refused_for = [](const char* reason, Communicator& communicator, OnGpu& gpu,
                                  const OperationOptions& options, DataType type = DataType::kUint8,
                                  ReduceOp op = ReduceOp::kSum) {
    const std::string text =
        RefusalOf(communicator, gpu, static_cast<CUstream>(options.stream),
                  [&](std::byte* memory) { return communicator.AllReduce(memory, memory, 10, type, op, options); });
    CAPTURE(text);
    CHECK(text.find(reason) != std::string::npos);
  };
  OnGraphRanks(2, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    OperationOptions ring = On(stream);
    ring.algorithm = Algorithm::kRing;
    sum_refused_for("it is staged through host memory", communicator, gpu, ring);
    OperationOptions compared = On(stream);
    compared.compare_results = true;
    sum_refused_for("its results are widened or compared", communicator, gpu, compared);
    OperationOptions wide = On(stream);
    wide.fp32_accumulate = true;
    sum_refused_for("its results are widened or compared", communicator, gpu, wide, DataType::kFloat16);
    const auto own = communicator.DefineOperation(
        {.name = "first", .commutative = true, .combine = [](const void*, const void*, void*, std::size_t, DataType) {
         }});
    REQUIRE(own);
    sum_refused_for("a user's function runs on the host only", communicator, gpu, On(stream), DataType::kUint8, *own);
    const std::vector<std::uint64_t> counts = {3, 5};
    const std::string varying = RefusalOf(communicator, gpu, stream, [&](std::byte* memory) {
      return communicator.AllGatherV(memory, memory + 500, counts, DataType::kUint8, On(stream));
    });
    CHECK(varying.find("all counts are equal") != std::string::npos);
  });
  OnGraphRanks(
      2,
      [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
        sum_refused_for("device_peers is off", communicator, gpu, On(stream));
      },
      [](CommunicatorOptions& options) { options.device_peers = false; });
  OnGraphRanks(17, [&](Communicator& communicator, OnGpu& gpu, CUstream stream) {
    sum_refused_for("more than 16 ranks", communicator, gpu, On(stream));
  });
}

}  // namespace graph_test
}  // namespace rondo::cuda
