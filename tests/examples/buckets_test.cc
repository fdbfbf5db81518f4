// Tests GradientBuckets: averages must be correct on every rank, for any grouping of tensors and any order of their
// completion.
#include "examples/data_parallel_sgd/buckets.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/ranks.h"

namespace sgd {
namespace buckets_test {

using rondo::Communicator;
using rondo::DataType;

std::vector<Tensor> TensorsOf(const std::vector<std::size_t>& sizes) {
  std::vector<Tensor> tensors;
  std::size_t first = 0;
  for (const std::size_t size : sizes) {
    tensors.push_back({"tensor " + std::to_string(tensors.size()), first, size});
    first += size;
  }
  return tensors;
}

// Small integers that every type represents exactly; their average over the ranks is i % 8.
std::vector<float> GradientOf(std::size_t count, const Communicator& communicator) {
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i)
    gradient[i] =
        static_cast<float>(i % 8) + static_cast<float>(2 * communicator.rank() - communicator.world_size() + 1);
  return gradient;
}

std::vector<float> Average(std::size_t count, float factor = 1) {
  std::vector<float> average(count);
  for (std::size_t i = 0; i < count; ++i) average[i] = factor * static_cast<float>(i % 8);
  return average;
}

TEST_CASE("every rank gets the average of the weighed gradients, in every type and bucket size") {
  const std::vector<Tensor> tensors = TensorsOf({5, 1, 300, 7, 64, 3});
  const std::size_t count = tensors.back().end();
  for (const int ranks : {1, 2, 3, 4}) {
    rondo::InprocNetwork network(ranks);
    rondo::OnRanks(network, [&](Communicator& communicator) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
        for (const std::size_t bucket_bytes : {0, 20, 256, 1 << 20}) {
          GradientBuckets buckets(communicator, tensors, {type, bucket_bytes});
          for (const float weight : {1.0f, 0.5f}) {  // the second pass reuses the buckets
            std::vector<float> gradient = GradientOf(count, communicator);
            buckets.Begin(gradient, weight);
            for (std::size_t tensor = tensors.size(); tensor-- > 0;) buckets.Complete(tensor);
            CHECK(buckets.Finish());
            CHECK(gradient == Average(count, weight));
          }
        }
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("tensors may be complete in another order on every rank") {
  const std::vector<Tensor> tensors = TensorsOf({40, 30, 20, 10, 5, 1});
  const std::size_t count = tensors.back().end();
  rondo::InprocNetwork network(3);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    GradientBuckets buckets(communicator, tensors, {DataType::kFloat32, 64});
    for (std::size_t pass = 0; pass < tensors.size(); ++pass) {
      std::vector<float> gradient = GradientOf(count, communicator);
      buckets.Begin(gradient, 1);
      const std::size_t shift = pass + 2 * static_cast<std::size_t>(communicator.rank());
      for (std::size_t i = 0; i < tensors.size(); ++i) buckets.Complete((i + shift) % tensors.size());
      CHECK(buckets.Finish());
      CHECK(gradient == Average(count));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("neighbours share a bucket up to its size in bytes on the wire; what is larger has one of its own") {
  const std::vector<Tensor> tensors = TensorsOf({100, 10, 4, 4, 4});
  rondo::InprocNetwork network(1);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    const auto buckets = [&](DataType type, std::size_t bucket_bytes) {
      return GradientBuckets(communicator, tensors, {type, bucket_bytes}).size();
    };
    CHECK(buckets(DataType::kFloat32, 0) == 5);
    CHECK(buckets(DataType::kFloat32, 48) == 3);   // elements in each bucket: 4 + 4 + 4 | 10 | 100
    CHECK(buckets(DataType::kFloat32, 47) == 4);   // elements in each bucket: 4 + 4 | 4 | 10 | 100
    CHECK(buckets(DataType::kFloat16, 24) == 3);   // the same with elements of half the size
    CHECK(buckets(DataType::kFloat32, 88) == 2);   // elements in each bucket: 4 + 4 + 4 + 10 | 100
    CHECK(buckets(DataType::kFloat32, 488) == 1);  // one bucket with all tensors
    CHECK(communicator.Close());
  });
}

TEST_CASE("a bucket is under way before the tensors in front of it are complete") {
  const std::vector<Tensor> tensors = TensorsOf({8, 8});
  rondo::InprocNetwork network(2);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    GradientBuckets buckets(communicator, tensors, {DataType::kFloat32, 0});
    std::vector<float> gradient = GradientOf(16, communicator);
    buckets.Begin(gradient, 1);
    buckets.Complete(1);
    // The barrier follows the bucket's reduction in the order of the communicator.
    CHECK(communicator.Barrier());
    const std::vector<float> average = Average(16);
    CHECK(std::vector<float>(gradient.begin() + 8, gradient.end()) ==
          std::vector<float>(average.begin() + 8, average.end()));
    buckets.Complete(0);
    CHECK(buckets.Finish());
    CHECK(gradient == average);
    CHECK(buckets.reduced_before_finish() >= 1);
    CHECK(communicator.Close());
  });
}

TEST_CASE("Finish tells why a reduction failed") {
  const std::vector<Tensor> tensors = TensorsOf({8, 8});
  rondo::InprocNetwork network(2);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());  // connects the ranks
    if (communicator.rank() == 1) return communicator.Abort("out of coffee");
    GradientBuckets buckets(communicator, tensors, {DataType::kFloat32, 0});
    std::vector<float> gradient(16);
    buckets.Begin(gradient, 1);
    buckets.Complete(1);
    buckets.Complete(0);
    const rondo::Status status = buckets.Finish();
    REQUIRE_FALSE(status);
    CHECK_MESSAGE(status.error().ToString().find("out of coffee") != std::string::npos, status.error().ToString());
  });
}

TEST_CASE("buckets that are given up in the middle of a pass wait for what borrows their memory") {
  const std::vector<Tensor> tensors = TensorsOf({8, 8});
  rondo::InprocNetwork network(2);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> gradient = GradientOf(16, communicator);
    {
      GradientBuckets buckets(communicator, tensors, {DataType::kBfloat16, 0});
      buckets.Begin(gradient, 1);
      buckets.Complete(1);
    }
    CHECK(communicator.Barrier());
    CHECK(communicator.Close());
  });
}

}  // namespace buckets_test
}  // namespace sgd
