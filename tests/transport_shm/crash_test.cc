// Kills a rank at every point before or during its use of shared memory. The other ranks must get an error that names
// the killed rank. After they have closed, nothing may remain: no descriptor, mapping, socket or file.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/fault_row.h"
#include "transport/shm/address.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace crash_test {

constexpr int kRanks = 3;
constexpr int kAddressBytes = 1024;
// Each entry contains the length of the address (two bytes), the address, and then zeros.
using Addresses = std::array<std::array<char, kAddressBytes>, kRanks>;

struct Report {
  int died = 0;  // 1: an operation of this rank failed; 0: none failed
  int culprit = kNoRank;
  int descriptors = 0;  // number of open descriptors, minus the number at the beginning
  int mappings = 0;     // number of mappings of shared memory that remain
};

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

int SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:rondo") != std::string::npos ? 1 : 0;
  return count;
}

void Pack(const std::string& address, std::array<char, kAddressBytes>& out) {
  const auto size = static_cast<std::uint16_t>(address.size());
  REQUIRE(address.size() + 2 <= out.size());
  std::memcpy(out.data(), &size, 2);
  std::memcpy(out.data() + 2, address.data(), size);
}

std::string Unpack(const std::array<char, kAddressBytes>& packed) {
  std::uint16_t size;
  std::memcpy(&size, packed.data(), 2);
  return {packed.data() + 2, size};
}

[[noreturn]] void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

// Runs operations until one fails: on the intranode path, on lanes, and with a user's function that may end the
// process.
Report Work(Rank rank, const Addresses& addresses, const std::shared_ptr<Transport>& transport, int die_at_fold) {
  CommunicatorOptions options;
  options.rank = rank;
  options.transport = transport;
  options.timeout = std::chrono::seconds(20);
  for (const auto& address : addresses)
    options.peers.push_back({.host = "here", .host_id = LocalHostId(), .pid = 1, .address = Unpack(address)});
  auto made = Communicator::Create(std::move(options));
  if (!made) return {.died = 1, .culprit = -2};
  Communicator& c = **made;

  Report report;
  const auto run = [&](const Status& status) {
    if (status) return true;
    report.died = 1;
    report.culprit = status.error().culprit();
    return false;
  };
  std::vector<std::int32_t> data(10'000, 1);
  const auto sum = [&](ReduceOp op, std::uint64_t count, const OperationOptions& how) {
    return run(c.AllReduce(data.data(), data.data(), count, DataType::kInt32, op, how));
  };
  constexpr std::uint64_t kAllocated = 100'000;
  const auto region = c.Allocate(kAllocated * 4);
  if (!region) return {.died = 1, .culprit = -3};
  auto* const allocated = reinterpret_cast<std::int32_t*>((*region)->bytes().data());
  std::vector<std::int32_t> large(kAllocated, 1);  // peers read this memory without a copy
  int folds = 0;
  const auto own = c.DefineOperation(
      {.name = "sum", .combine = [&](const void* l, const void* r, void* out, std::size_t n, DataType) {
         if (die_at_fold > 0 && ++folds == die_at_fold) Die();
         for (std::size_t i = 0; i < n; ++i)
           static_cast<std::int32_t*>(out)[i] =
               static_cast<const std::int32_t*>(l)[i] + static_cast<const std::int32_t*>(r)[i];
       }});
  if (!own) {
    report.died = 1;
    report.culprit = own.error().culprit();
    return report;
  }
  for (int i = 0; i < 10; ++i) {
    if (!sum(ReduceOp::kMax, 1, {}) || !sum(ReduceOp::kMax, 10'000, {})) return report;
    if (!sum(ReduceOp::kMax, 10'000, {.algorithm = Algorithm::kDirect})) return report;
    if (!sum(*own, 10'000, {})) return report;
    if (!run(c.AllReduce(allocated, allocated, kAllocated, DataType::kInt32, *own))) return report;
    if (!run(c.AllReduce(large.data(), large.data(), large.size(), DataType::kInt32, *own))) return report;
  }
  run(c.Close());
  return report;
}

int ChildMain(Rank rank, bool is_victim, const std::string& step, int pipe) {
  const int descriptors = OpenDescriptors();
  Report report;
  {
    TcpOptions tcp;
    tcp.job = "crash";
    tcp.host_id = LocalHostId();
    tcp.addresses = {"127.0.0.1"};
    auto base = MakeTcpTransport(tcp);
    if (!base) return 2;
    ShmOptions shm{.host_id = LocalHostId()};
    if (is_victim)
      shm.watch_steps = [&](std::string_view done) {
        if (done == step) Die();
      };
    auto transport = MakeShmTransport(*base, shm);
    if (!transport) return 3;
    std::array<char, kAddressBytes> mine{};
    Pack((*transport)->Address(), mine);
    Addresses all{};
    if (write(pipe, mine.data(), mine.size()) != static_cast<ssize_t>(mine.size())) return 4;
    if (recv(pipe, all.data(), sizeof all, MSG_WAITALL) != static_cast<ssize_t>(sizeof all)) return 5;
    const int die_at_fold = step == "early fold"             ? 2
                            : step == "fold of what is read" ? 9
                            : step == "late fold"            ? 40
                                                             : 0;
    report = Work(rank, all, *transport, is_victim ? die_at_fold : 0);
  }
  report.descriptors = OpenDescriptors() - descriptors;
  report.mappings = SharedMappings();
  return write(pipe, &report, sizeof report) == static_cast<ssize_t>(sizeof report) ? 0 : 6;
}

class Job {
 public:
  Job(Rank victim, const std::string& step) : victim_(victim) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      int pair[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        close(pair[0]);
        for (const int pipe : pipes_) close(pipe);
        _exit(ChildMain(rank, rank == victim, step, pair[1]));
      }
      close(pair[1]);
      children_.push_back(child);
      pipes_.push_back(pair[0]);
    }
    for (Rank rank = 0; rank < kRanks; ++rank) {
      auto& address = addresses_[static_cast<std::size_t>(rank)];
      REQUIRE(recv(pipes_[static_cast<std::size_t>(rank)], address.data(), address.size(), MSG_WAITALL) ==
              static_cast<ssize_t>(address.size()));
    }
    for (const int pipe : pipes_)
      REQUIRE(write(pipe, addresses_.data(), sizeof addresses_) == static_cast<ssize_t>(sizeof addresses_));
  }
  ~Job() {
    for (const pid_t child : children_) {
      if (child <= 0) continue;  // the parent has waited for this child already
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    for (const int pipe : pipes_) close(pipe);
  }

  // Checks the reports of the other ranks. Returns whether the victim died.
  bool Check() {
    bool victim_died = false;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      CAPTURE(rank);
      const std::size_t i = static_cast<std::size_t>(rank);
      pollfd wait{pipes_[i], POLLIN, 0};
      REQUIRE_MESSAGE(poll(&wait, 1, 30'000) == 1, "it says nothing");
      Report report;
      const bool said = recv(pipes_[i], &report, sizeof report, MSG_WAITALL) == static_cast<ssize_t>(sizeof report);
      int status = 0;
      REQUIRE(waitpid(children_[i], &status, 0) == children_[i]);
      children_[i] = 0;
      if (rank == victim_) {
        victim_died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        continue;
      }
      REQUIRE(said);
      CHECK(WIFEXITED(status));
      reports_.push_back(report);
    }
    for (const Report& report : reports_) {
      CHECK(report.died == (victim_died ? 1 : 0));
      if (victim_died) CHECK(report.culprit == victim_);
      CHECK(report.descriptors == 0);
      CHECK(report.mappings == 0);
    }
    CHECK(Sockets() == 0);
    return victim_died;
  }

 private:
  // The number of remaining sockets of these processes' endpoints. The sockets are found by their abstract names.
  int Sockets() const {
    std::ifstream sockets("/proc/net/unix");
    int count = 0;
    for (std::string line; std::getline(sockets, line);) {
      for (const auto& packed : addresses_) {
        const auto address = shm::DecodeShmAddress(Unpack(packed));
        REQUIRE(address);
        count += line.find(address->instance) != std::string::npos ? 1 : 0;
      }
    }
    return count;
  }

  const Rank victim_;
  std::vector<pid_t> children_;
  std::vector<int> pipes_;
  Addresses addresses_{};
  std::vector<Report> reports_;
};

TEST_CASE("no rank is killed: nothing is left either") {
  Job job(0, "never");
  CHECK(!job.Check());
}

TEST_CASE("any rank is killed, anywhere: the others name it, and nothing is left") {
  for (const std::string step : {"segment called", "segment made", "segment mapped", "segment judged",
                                 "segment settled", "lane called", "lane answered", "lane shared", "region shown",
                                 "region mapped", "early fold", "fold of what is read", "late fold"}) {
    CAPTURE(step);
    int deaths = 0;
    for (Rank victim = 0; victim < kRanks; ++victim) {
      CAPTURE(victim);
      Job job(victim, step);
      deaths += job.Check() ? 1 : 0;
    }
    CHECK(deaths >= 1);  // without a death, no rank has reached this step, and the test has checked nothing
    for (const int fault : {1, 29})
      StateFault(fault, static_cast<std::uint64_t>(deaths), "named by all others, nothing left over",
                 {.path = "shm", .layer = "processes"});
  }
}

}  // namespace crash_test
}  // namespace rondo
