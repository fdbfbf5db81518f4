// Runs N ranks over TCP on loopback and counts the allocations of every rank in the steady state of the blocking path.
// It interposes malloc itself, so it counts every thread and every library.
//
//   steady_state RANKS OPERATIONS BYTES [checksums|fused]
//
// "checksums": uses only sockets, and every frame has a checksum. "fused": each operation sums ten tensors through a
// fusion buffer.
//
// Prints a line for each rank, "rank 0: 10000 operations, 0 allocations", and exits with 1 if there was an allocation.
// It marks the measured interval with writes of "steady begin" and "steady end" to descriptor 99, so that
// tests/steady/check can examine the system calls of this interval. The writes fail on purpose, but a tracer sees them.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/connect.h"
#include "collectives/fusion_buffer.h"
#include "tests/steady/forked_ranks.h"

namespace {

std::atomic<std::uint64_t> allocations{0};
std::atomic<bool> counting{false};

void Count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// glibc's own functions, which do the work of the interposed ones.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are glibc's
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(std::size_t size) {
  Count();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  Count();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  Count();
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  Count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;
}
}

namespace {

constexpr int kNoDescriptor = 99;
void Mark(const char* text) { [[maybe_unused]] const ssize_t failed = write(kNoDescriptor, text, std::strlen(text)); }

int RunRank(const std::string& rendezvous, int rank, int ranks, int operations, std::size_t bytes,
            const std::string& how) {
  const bool checksums = how == "checksums";
  rondo::ConnectOptions options{.rendezvous = rendezvous, .rank = rank, .world_size = ranks};
  if (checksums) options.path = rondo::Path::kTcp;
  options.communicator.checksums = checksums;
  auto connected = rondo::Connect(options);
  if (!connected) {
    std::fprintf(stderr, "rank %d: %s\n", rank, connected.error().ToString().c_str());
    return 1;
  }
  rondo::Communicator& communicator = **connected;
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> values(count, 1), result(count);
  // Sends a message to the next rank and receives one from the previous rank, with the protocol for its size.
  const auto exchange = [&]() -> rondo::Status {
    const auto received = communicator.SendRecv({values.data(), count, (rank + 1) % ranks, 7},
                                                {result.data(), count, rondo::kAnyRank, 7}, rondo::DataType::kFloat32);
    return received ? rondo::Status() : rondo::Status(rondo::Fail(received.error()));
  };
  const auto fusion = rondo::FusionBuffer::Create(communicator, {.bucket_bytes = 4 * bytes});
  std::vector<float> results(10 * count);
  const auto fuse = [&]() -> rondo::Status {
    if (!fusion) return rondo::Fail(fusion.error());
    for (std::size_t tensor = 0; tensor < 10; ++tensor) {
      const auto type = tensor < 6 ? rondo::DataType::kFloat32 : rondo::DataType::kInt32;
      RONDO_TRY((*fusion)->Add(values.data(), &results[tensor * count], count, type, rondo::ReduceOp::kSum));
    }
    return (*fusion)->Wait();
  };
  const auto operate = [&](int times) {
    for (int i = 0; i < times; ++i) {
      rondo::Status status;
      if (how == "fused") {
        status = fuse();
        if (status) continue;
      }
      if (status)
        status = communicator.AllReduce(values.data(), result.data(), count, rondo::DataType::kFloat32,
                                        rondo::ReduceOp::kSum);
      if (status) status = communicator.Broadcast(values.data(), values.data(), count, rondo::DataType::kFloat32, 0);
      if (status) status = communicator.Barrier();
      if (status) status = exchange();
      if (status) continue;
      std::fprintf(stderr, "rank %d: %s\n", rank, status.error().ToString().c_str());
      return false;
    }
    return true;
  };
  if (!operate(300)) return 1;
  Mark("steady begin");
  counting.store(true);
  bool good = operate(operations / 4 + 1);
  counting.store(false);
  Mark("steady end");
  good = good && operate(20);  // all ranks meet here, so that none closes while another still counts
  std::printf("rank %d: %d operations, %llu allocations\n", rank, operations,
              static_cast<unsigned long long>(allocations.load()));
  std::fflush(stdout);
  if (const rondo::Status closed = communicator.Close(); !closed) {
    std::fprintf(stderr, "rank %d: %s\n", rank, closed.error().ToString().c_str());
    return 1;
  }
  return good && allocations.load() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc == 5 ? argv[4] : "";
  if (argc != 4 && how != "checksums" && how != "fused") {
    std::fprintf(stderr, "usage: steady_state RANKS OPERATIONS BYTES [checksums|fused]\n");
    return 2;
  }
  const auto ranks = static_cast<int>(std::strtol(argv[1], nullptr, 10));
  const auto operations = static_cast<int>(std::strtol(argv[2], nullptr, 10));
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  return rondo::RunForked(ranks, [&](const std::string& rendezvous, int rank) {
    return RunRank(rendezvous, rank, ranks, operations, bytes, how);
  });
}
