// Compares the results of the fusion buffer, for every type, with results computed here. Also tests where buckets end,
// and how the buffer fails.
#include <doctest/doctest.h>

#include <cstring>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "collectives/fusion_buffer.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace fusion_test {

std::unique_ptr<FusionBuffer> Fuse(Communicator& communicator, const FusionOptions& options) {
  auto fusion = FusionBuffer::Create(communicator, options);
  REQUIRE(fusion);
  return std::move(*fusion);
}

template <typename T>
void PutAs(std::byte* to, double value) {
  const auto element = static_cast<T>(value);
  std::memcpy(to, &element, sizeof element);
}
template <typename T>
double GetAs(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof element);
  return static_cast<double>(element);
}

void Put(DataType type, std::byte* to, double value) {
  switch (type) {
    case DataType::kInt8: return PutAs<std::int8_t>(to, value);
    case DataType::kUint8: return PutAs<std::uint8_t>(to, value);
    case DataType::kInt32: return PutAs<std::int32_t>(to, value);
    case DataType::kUint32: return PutAs<std::uint32_t>(to, value);
    case DataType::kInt64: return PutAs<std::int64_t>(to, value);
    case DataType::kUint64: return PutAs<std::uint64_t>(to, value);
    case DataType::kFloat16: return PutAs<std::uint16_t>(to, ToFloat16(static_cast<float>(value)));
    case DataType::kBfloat16: return PutAs<std::uint16_t>(to, ToBfloat16(static_cast<float>(value)));
    case DataType::kFloat32: return PutAs<float>(to, value);
    case DataType::kFloat64: return PutAs<double>(to, value);
    case DataType::kBool: return PutAs<bool>(to, value);
  }
}

double Get(DataType type, const std::byte* from) {
  switch (type) {
    case DataType::kInt8: return GetAs<std::int8_t>(from);
    case DataType::kUint8: return GetAs<std::uint8_t>(from);
    case DataType::kInt32: return GetAs<std::int32_t>(from);
    case DataType::kUint32: return GetAs<std::uint32_t>(from);
    case DataType::kInt64: return GetAs<std::int64_t>(from);
    case DataType::kUint64: return GetAs<std::uint64_t>(from);
    case DataType::kFloat16: return FromFloat16(static_cast<std::uint16_t>(GetAs<std::uint16_t>(from)));
    case DataType::kBfloat16: return FromBfloat16(static_cast<std::uint16_t>(GetAs<std::uint16_t>(from)));
    case DataType::kFloat32: return GetAs<float>(from);
    case DataType::kFloat64: return GetAs<double>(from);
    case DataType::kBool: return GetAs<bool>(from);
  }
  return 0;
}

// Small integers, so that sums and products are exact in every type and in any order.
double Operand(DataType type, Rank rank, std::size_t i) {
  const auto value = static_cast<double>((static_cast<std::size_t>(rank) + i * i) % 4);
  return type == DataType::kBool ? value > 1 : value;
}

double ScaleOf(Rank rank, std::size_t tensor) {
  return 0.5 * static_cast<double>(rank + 1) + static_cast<double>(tensor % 3);
}

// The right result for element i over all ranks, by the definition of the operation.
double Wanted(DataType type, ReduceOp op, int world, std::size_t tensor, std::size_t i) {
  double result = Operand(type, 0, i) * (op == ReduceOp::kPremulSum ? ScaleOf(0, tensor) : 1);
  for (Rank rank = 1; rank < world; ++rank) {
    const double one = Operand(type, rank, i);
    const auto bits = static_cast<int>(result), more = static_cast<int>(one);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg: result += one; break;
      case ReduceOp::kProd: result *= one; break;
      case ReduceOp::kMin: result = std::min(result, one); break;
      case ReduceOp::kMax: result = std::max(result, one); break;
      case ReduceOp::kBand: result = bits & more; break;
      case ReduceOp::kBor: result = bits | more; break;
      case ReduceOp::kBxor: result = bits ^ more; break;
      case ReduceOp::kPremulSum: result += one * ScaleOf(rank, tensor); break;
    }
  }
  if (op == ReduceOp::kAvg) result /= world;
  std::byte rounded[8];
  Put(type, rounded, result);
  return Get(type, rounded);
}

struct Tensor {
  DataType type;
  ReduceOp op;
  std::vector<std::byte> input, output;
  bool in_place = false;
  std::size_t count() const { return input.size() / SizeOf(type); }
};

Tensor MakeTensor(DataType type, ReduceOp op, Rank rank, std::size_t count, bool in_place) {
  Tensor tensor{.type = type, .op = op, .input = std::vector<std::byte>(count * SizeOf(type)), .in_place = in_place};
  for (std::size_t i = 0; i < count; ++i) Put(type, tensor.input.data() + i * SizeOf(type), Operand(type, rank, i));
  tensor.output.resize(in_place ? 0 : tensor.input.size());
  return tensor;
}

Status AddTo(FusionBuffer& fusion, Tensor& tensor, Rank rank, std::size_t number) {
  void* const output = tensor.in_place ? tensor.input.data() : tensor.output.data();
  return fusion.Add(tensor.input.data(), output, tensor.count(), tensor.type, tensor.op, ScaleOf(rank, number));
}

bool IsRight(const Tensor& tensor, int world, std::size_t number) {
  const std::vector<std::byte>& got = tensor.in_place ? tensor.input : tensor.output;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (Get(tensor.type, got.data() + i * SizeOf(tensor.type)) != Wanted(tensor.type, tensor.op, world, number, i))
      return false;
  return true;
}

// The number of collectives that were issued before this call. The call issues a barrier to get it.
Sequence IssuedBefore(Communicator& communicator) {
  Work barrier = communicator.BarrierAsync();
  CHECK(barrier.Wait());
  return barrier.sequence() - 1;
}

TEST_CASE("every type and operation, tensors of every size about that of a bucket, in place and not") {
  for (const int world : {1, 2, 3, 4}) {
    InprocNetwork network(world, {.late_release = true});
    OnRanks(network, [&](Communicator& communicator) {
      const Rank rank = communicator.rank();
      const auto fusion = Fuse(communicator, {.bucket_bytes = 256, .buckets = 3});
      for (const DataType type : kAllDataTypes) {
        for (const ReduceOp op : kAllReduceOps) {
          if (!CheckPairing(type, op)) continue;
          std::vector<Tensor> tensors;
          for (const std::size_t bytes : {8, 16, 0, 248, 256, 24, 264, 2048, 8, 8, 240, 200, 200, 200, 0, 512})
            tensors.push_back(MakeTensor(type, op, rank, bytes / SizeOf(type), tensors.size() % 2 == 0));
          for (std::size_t t = 0; t < tensors.size(); ++t) CHECK(AddTo(*fusion, tensors[t], rank, t));
          CHECK(fusion->Wait());
          CAPTURE(std::string(Name(type)) + " " + std::string(Name(op)));
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            CAPTURE(t);
            CHECK(IsRight(tensors[t], world, t));
          }
        }
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("random mixtures of types, operations and sizes over many steps, always in the same memory") {
  InprocNetwork network(3, {.ring_bytes = 1024, .late_release = true, .slice_bytes = 77});
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const auto fusion = Fuse(communicator, {.bucket_bytes = 1000, .buckets = 2});
    Random random(4711);  // ranks use the same seed, and so draw the same numbers
    for (int step = 0; step < 60; ++step) {
      std::vector<Tensor> tensors(random.Below(40));
      for (Tensor& tensor : tensors) {
        do {
          tensor.type = kAllDataTypes[random.Below(kAllDataTypes.size())];
          tensor.op = kAllReduceOps[random.Below(kAllReduceOps.size())];
        } while (!CheckPairing(tensor.type, tensor.op));
        tensor = MakeTensor(tensor.type, tensor.op, rank, random.Below(300), random.Chance(0.5));
      }
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        CHECK(AddTo(*fusion, tensors[t], rank, t));
        if (random.Chance(0.1)) CHECK(fusion->Flush());
      }
      CHECK(fusion->Wait());
      for (std::size_t t = 0; t < tensors.size(); ++t) CHECK(IsRight(tensors[t], 3, t));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("a bucket goes out when it is full, when the next does not fit, when type or operation change, by Flush") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    const auto fusion = Fuse(communicator, {.bucket_bytes = 64, .buckets = 4});
    std::vector<float> values(100, 1);
    std::int32_t number = 1;
    Sequence seen = IssuedBefore(communicator);
    // Returns the number of collectives that were issued since the previous call of `issued`.
    const auto issued = [&] {
      const Sequence now = IssuedBefore(communicator);
      return now - std::exchange(seen, now) - 1;  // does not count the barrier that the previous call issued
    };
    const auto add = [&](std::size_t count, ReduceOp op = ReduceOp::kSum) {
      CHECK(fusion->Add(values.data(), values.data(), count, DataType::kFloat32, op));
    };
    CHECK(issued() == 0);
    add(8);
    add(7);
    CHECK(issued() == 0);
    add(1);  // fills the bucket exactly
    CHECK(issued() == 1);
    add(10);
    add(7);  // does not fit into the bucket any more
    CHECK(issued() == 1);
    add(2, ReduceOp::kMax);
    CHECK(issued() == 1);
    CHECK(fusion->Add(&number, &number, 1, DataType::kInt32, ReduceOp::kMax));
    CHECK(issued() == 1);
    // as large as a bucket, so it gets its own operation, after the tensors that were added before
    add(16, ReduceOp::kMax);
    CHECK(issued() == 2);
    add(3);
    CHECK(fusion->Flush());
    CHECK(fusion->Flush());
    CHECK(issued() == 1);
    add(0);
    CHECK(fusion->Wait());
    CHECK(issued() == 0);
    for (int small = 0; small < 160; ++small) add(1, ReduceOp::kMin);
    CHECK(fusion->Wait());
    CHECK(issued() == 10);
    CHECK(number == 1);
    CHECK(communicator.Close());
  });
}

TEST_CASE("what is wrong with a call adds nothing, and the communicator goes on") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    const auto created = [&](const FusionOptions& options) {
      const auto made = FusionBuffer::Create(communicator, options);
      return made ? "made" : made.error().ToString();
    };
    CHECK(created({.bucket_bytes = 0}).find("bucket_bytes is 0") != std::string::npos);
    CHECK(created({.bucket_bytes = std::uint64_t{1} << 60}).find("bucket_bytes") != std::string::npos);
    CHECK(created({.buckets = 1}).find("buckets is 1; expected 2") != std::string::npos);
    CHECK(created({.buckets = 65}).find("buckets is 65") != std::string::npos);
    CHECK(created({.operation = {.timeout = Duration::zero()}}).find("timeout must be positive") != std::string::npos);

    const auto fusion = Fuse(communicator, {.bucket_bytes = 64});
    float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto refused = [&](const void* in, void* out, std::uint64_t count, DataType type, ReduceOp op) {
      const Status status = fusion->Add(in, out, count, type, op);
      CHECK((!status && status.error().code() == ErrorCode::kInvalidArgument));
      return TextOf(status);
    };
    CHECK(refused(nullptr, values, 1, DataType::kFloat32, ReduceOp::kSum).find("input is null") != std::string::npos);
    CHECK(refused(values, nullptr, 1, DataType::kFloat32, ReduceOp::kSum).find("output is null") != std::string::npos);
    CHECK(refused(values, values + 1, 2, DataType::kFloat32, ReduceOp::kSum).find("overlap") != std::string::npos);
    CHECK(
        refused(values, values, std::uint64_t{1} << 61, DataType::kFloat32, ReduceOp::kSum).find("more than memory") !=
        std::string::npos);
    CHECK(refused(values, values, 1, DataType::kFloat32, ReduceOp::kBand).find("band") != std::string::npos);
    CHECK(refused(values, values, 1, static_cast<DataType>(200), ReduceOp::kSum).find("200") != std::string::npos);
    CHECK(refused(values, values, 1, DataType::kFloat32, UserOp(3)).find("user_3") != std::string::npos);
    CHECK(refused(nullptr, nullptr, 0, DataType::kBool, ReduceOp::kSum).find("bool") != std::string::npos);
    CHECK(!communicator.failure());
    CHECK(fusion->Add(values, values, 1, DataType::kFloat32, ReduceOp::kSum));
    CHECK(fusion->Add(values + 1, values + 1, 7, DataType::kFloat32, ReduceOp::kSum));  // adjacent, but no overlap
    CHECK(fusion->Wait());
    CHECK(values[0] == 2);
    CHECK(values[7] == 16);
    CHECK(communicator.Close());
  });
}

TEST_CASE("more buckets than the communicator takes operations at a time wait for each other") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        const auto fusion =
            Fuse(communicator, {.bucket_bytes = 64, .buckets = 4, .operation = {.compare_results = true}});
        std::vector<std::vector<float>> tensors(20, std::vector<float>(1000, 1));
        for (std::vector<float>& tensor : tensors)
          CHECK(fusion->Add(tensor.data(), tensor.data(), tensor.size(), DataType::kFloat32, ReduceOp::kSum));
        CHECK(fusion->Wait());
        for (const std::vector<float>& tensor : tensors) CHECK(tensor == std::vector<float>(1000, 2));
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) {
        options.max_pending_operations = 2;
        options.progress_thread = false;
      });
}

TEST_CASE("a user's operation is fused like others, and the options are those of every all-reduce") {
  InprocNetwork network(3);
  OnRanks(network, [&](Communicator& communicator) {
    const auto last = communicator.DefineOperation(
        {.name = "last",
         .commutative = false,
         .combine = [](const void*, const void* right, void* output, std::size_t elements, DataType) {
           std::memmove(output, right, elements * sizeof(std::int32_t));
         }});
    REQUIRE(last);
    const auto fusion =
        Fuse(communicator, {.bucket_bytes = 64, .operation = {.algorithm = Algorithm::kChain, .reproducible = true}});
    std::vector<std::int32_t> values(5, communicator.rank());
    for (std::int32_t& value : values) CHECK(fusion->Add(&value, &value, 1, DataType::kInt32, *last));
    CHECK(fusion->Wait());
    CHECK(values == std::vector<std::int32_t>(5, 2));
    CHECK(communicator.DumpRecords().find("chain") != std::string::npos);
    CHECK(communicator.Close());
  });
}

TEST_CASE("a wait that ends too early fails nothing, and room comes when the oldest bucket has ended") {
  InprocNetwork network(2);
  std::latch tried(2);
  OnRanks(network, [&](Communicator& communicator) {
    const auto fusion = Fuse(communicator, {.bucket_bytes = 8, .buckets = 2});
    float value[3] = {1, 1, 1};
    const auto add = [&](float& one) { return fusion->Add(&one, &one, 1, DataType::kFloat32, ReduceOp::kSum); };
    if (communicator.rank() == 1) tried.arrive_and_wait();
    CHECK(add(value[0]));
    CHECK(fusion->Flush());
    CHECK(add(value[1]));
    const auto is_not_ready = [](const Status& status) {
      return !status && status.error().code() == ErrorCode::kNotReady;
    };
    const TimePoint soon = SteadyClock().Now() + std::chrono::milliseconds(20);
    if (communicator.rank() == 0) CHECK(is_not_ready(fusion->AwaitRoom(soon)));
    CHECK(fusion->Flush());
    if (communicator.rank() == 0) {
      CHECK(is_not_ready(fusion->Wait(soon)));
      tried.arrive_and_wait();
    }
    CHECK(fusion->AwaitRoom(TimePoint::max()));
    CHECK(value[0] == 2);
    CHECK(add(value[2]));
    CHECK(fusion->Wait());
    CHECK(value[1] == 2);
    CHECK(value[2] == 2);
    CHECK(fusion->Wait());
    CHECK(communicator.Close());
  });
}

TEST_CASE("when a rank dies all that was added fails alike on all others, and the rank is named") {
  InprocNetwork network(3);
  std::mutex mutex;
  std::vector<std::string> texts;
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(64, 1);
    auto fusion = Fuse(communicator, {.bucket_bytes = 64, .buckets = 4});
    // Completes the buckets that are being reduced, and the open bucket.
    const auto step = [&]() -> Status {
      for (float& value : values) RONDO_TRY(fusion->Add(&value, &value, 1, DataType::kFloat32, ReduceOp::kMax));
      RONDO_TRY(fusion->Add(values.data(), values.data(), 1, DataType::kFloat32, ReduceOp::kSum));
      return fusion->Wait();
    };
    CHECK(step());
    if (communicator.rank() == 1) {
      network.Kill(1);
      CHECK(!step());
      return;
    }
    Status status;
    while (status) status = step();
    CHECK(TextOf(fusion->Add(values.data(), values.data(), 1, DataType::kFloat32, ReduceOp::kSum)) == TextOf(status));
    CHECK(TextOf(fusion->Flush()) == TextOf(status));
    CHECK(TextOf(fusion->AwaitRoom(TimePoint::max())) == TextOf(status));
    CHECK(TextOf(fusion->Wait()) == TextOf(status));
    std::fill(values.begin(), values.end(), 7.0f);  // nothing uses the memory any more
    fusion.reset();
    CHECK(values == std::vector<float>(64, 7));
    const std::lock_guard lock(mutex);
    texts.push_back(TextOf(status));
  });
  CHECK(texts.size() == 2);
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("peer_lost") == 0);
    CHECK(text.find("caused by rank 1 (host host1") != std::string::npos);
  }
}

TEST_CASE("ranks that add other tensors get an error with what each of them added") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    const auto fusion = Fuse(communicator, {.bucket_bytes = 64});
    float values[9] = {};
    CHECK(fusion->Add(values, values, communicator.rank() == 0 ? 8 : 9, DataType::kFloat32, ReduceOp::kSum));
    const Status status = fusion->Wait();
    CAPTURE(TextOf(status));
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kMismatch);
    CHECK(TextOf(status).find("x 8 ") != std::string::npos);
    CHECK(TextOf(status).find("x 9 ") != std::string::npos);
  });
}

TEST_CASE("a bucket that cannot be issued here is not waited for elsewhere") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        const auto fusion = Fuse(communicator, {.bucket_bytes = 64});
        float value = 1;
        double other = 1;
        CHECK(communicator.Barrier());  // so that the ranks are connected
        CHECK(fusion->Add(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum));
        // Rank 0 also has an operation of its own pending. Its options allow only one, so the bucket cannot be issued.
        Work pending;
        if (communicator.rank() == 0)
          pending = communicator.AllReduceAsync(&other, &other, 1, DataType::kFloat64, ReduceOp::kSum);
        const Status status = fusion->Wait();
        REQUIRE(!status);
        CAPTURE(TextOf(status));
        if (communicator.rank() == 0) CHECK(!pending.Wait());
        // If rank 1 was quick, the ranks have already detected that their operations differ.
        if (status.error().code() == ErrorCode::kMismatch) return;
        CHECK(status.error().code() == (communicator.rank() == 0 ? ErrorCode::kResource : ErrorCode::kPeerAborted));
        CHECK(TextOf(status).find("max_pending_operations") != std::string::npos);
      },
      [](CommunicatorOptions& options) { options.max_pending_operations = 1; });
}

TEST_CASE("after Close the buffer says so, and one that ends early leaves the communicator as it was") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    float values[17] = {};
    {
      const auto early = Fuse(communicator, {.bucket_bytes = 32});
      // This all-reduce is pending when the buffer is destroyed.
      CHECK(early->Add(values, values, 16, DataType::kFloat32, ReduceOp::kSum));
      CHECK(early->Add(values + 16, values + 16, 1, DataType::kFloat32, ReduceOp::kSum));  // never issued
    }
    const auto fusion = Fuse(communicator, {});
    CHECK(communicator.Close());
    CHECK(fusion->Wait());
    CHECK(fusion->Add(values, values, 1, DataType::kFloat32, ReduceOp::kSum));
    CHECK(TextOf(fusion->Wait()).find("closed") == 0);
    CHECK(TextOf(fusion->Add(values, values, 1, DataType::kFloat32, ReduceOp::kSum)).find("closed") == 0);
  });
}

}  // namespace fusion_test
}  // namespace rondo
