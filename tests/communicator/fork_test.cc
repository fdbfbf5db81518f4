// A process that forks between its operations. The child has copies of the communicator, of its memory and of the
// store's server; these do nothing and destroy nothing. The parent continues as if there were no child.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/connect.h"
#include "collectives/fusion_buffer.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/communicator/process_ranks.h"
#include "tests/support/own_places.h"

namespace rondo {
namespace fork_test {

using namespace std::chrono_literals;

constexpr std::size_t kElements = 50'000;

// Runs `body` in a child process, which ends afterwards. Returns "ok" or how the child ended.
std::string InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no child";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "ok" : "status " + std::to_string(status);
}

// Computes a sum in `memory`, which the communicator allocated. Returns "ok" if every element is right.
std::string SumOnce(Communicator& communicator, Memory& memory) {
  auto* const values = reinterpret_cast<std::int64_t*>(memory.bytes().data());
  for (std::size_t i = 0; i < kElements; ++i) values[i] = communicator.rank() + 1;
  const Status status = communicator.AllReduce(values, values, kElements, DataType::kInt64, ReduceOp::kSum);
  if (!status) return status.error().ToString();
  const std::int64_t due = std::int64_t{communicator.world_size()} * (communicator.world_size() + 1) / 2;
  for (std::size_t i = 0; i < kElements; ++i)
    if (values[i] != due) return "a wrong sum";
  return "ok";
}

void ForkOnce(Communicator& communicator, std::unique_ptr<Communicator>& owner, const ToTest& test) {
  auto memory = communicator.Allocate(kElements * sizeof(std::int64_t));
  if (!memory) return test.Say("no memory");
  test.Say(SumOnce(communicator, **memory));
  test.Say(InChild([&] {
    memory->reset();
    owner.reset();
  }));
  test.Say(SumOnce(communicator, **memory));
  test.Say(SumOnce(communicator, **memory));
  const Status closed = communicator.Close();
  test.Say(closed ? "ok" : closed.error().ToString());
}

TEST_CASE("A forked child destroys its copies, and no rank notices, whatever the path") {
  for (const Path path : {Path::kTcp, Path::kShm}) {
    CAPTURE(static_cast<int>(path));
    const TemporaryDirectory folder;
    std::vector<Process> ranks;
    for (Rank rank = 0; rank < 3; ++rank)
      ranks.emplace_back([&folder, path, rank](const ToTest& test) {
        auto communicator = Connect({.rendezvous = folder.StoreUrl(),
                                     .rank = rank,
                                     .world_size = 3,
                                     .addresses = {"127.0.0.1"},
                                     .path = path,
                                     .timeout = 30s,
                                     .rebuildable = true});
        if (!communicator) return test.Say(communicator.error().ToString());
        ForkOnce(**communicator, *communicator, test);
      });
    for (int said = 0; said < 5; ++said)
      for (Process& rank : ranks) CHECK(rank.NextLine() == "ok");
  }
}

// Rank 0 forks while a sum is running in which rank 1 does not take part yet.
void ForkAmidFusion(Communicator& communicator, const ToTest& test) {
  auto fusion = FusionBuffer::Create(communicator, {.bucket_bytes = 1024});
  if (!fusion) return test.Say("no fusion buffer");
  std::vector<float> values(10'000, 1);
  if (communicator.rank() == 1) std::this_thread::sleep_for(300ms);
  const Status added = (*fusion)->Add(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum);
  const std::string child = communicator.rank() == 0 ? InChild([&] {
    alarm(10);
    fusion->reset();
  })
                                                     : "ok";
  const Status waited = (*fusion)->Wait();
  const bool right = std::count(values.begin(), values.end(), 2.0F) == static_cast<std::ptrdiff_t>(values.size());
  test.Say(added && waited && right && child == "ok" ? "ok" : "child " + child + (right ? "" : ", a wrong sum"));
}

TEST_CASE("A forked child destroys its copy of a fusion buffer whose sums are under way, and no rank notices") {
  for (const Path path : {Path::kTcp, Path::kShm}) {
    CAPTURE(static_cast<int>(path));
    const TemporaryDirectory folder;
    std::vector<Process> ranks;
    for (Rank rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&folder, path, rank](const ToTest& test) {
        auto communicator = Connect({.rendezvous = folder.StoreUrl(),
                                     .rank = rank,
                                     .world_size = 2,
                                     .addresses = {"127.0.0.1"},
                                     .path = path,
                                     .timeout = 30s});
        if (!communicator) return test.Say(communicator.error().ToString());
        ForkAmidFusion(**communicator, test);
        (void)(*communicator)->Close();
      });
    for (Process& rank : ranks) CHECK(rank.NextLine() == "ok");
  }
}

TEST_CASE("The store that a process serves goes on when a forked child destroys its copy of the server") {
  Process process([](const ToTest& test) {
    auto server = TcpStoreServer::Start({.host = "127.0.0.1"});
    if (!server) return test.Say(server.error().ToString());
    test.Say(InChild([&] { server->reset(); }));
    const auto communicator = Connect({.rendezvous = "tcp://127.0.0.1:" + std::to_string((*server)->port()),
                                       .rank = 0,
                                       .world_size = 1,
                                       .external_store = true,
                                       .addresses = {"127.0.0.1"},
                                       .timeout = 30s});
    test.Say(communicator ? "ok" : communicator.error().ToString());
  });
  CHECK(process.NextLine() == "ok");
  CHECK(process.NextLine() == "ok");
}

}  // namespace fork_test
}  // namespace rondo
