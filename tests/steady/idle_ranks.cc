// Runs N ranks over TCP on loopback. Rank 0 is late, and the program prints how much processor time the other ranks use
// while they wait.
//
//   idle_ranks RANKS LATE_MS
//
// The other ranks wait three times: in a barrier, for a barrier that only the progress thread advances, and in a
// receive. Prints a line for each rank and wait: "rank 1: barrier: 1500 ms waited, 0.9 ms of processor time".
#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "collectives/connect.h"
#include "tests/steady/forked_ranks.h"

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// The processor time of all threads of this process, in user mode and in the kernel.
double ProcessorMs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

rondo::Status Measure(int rank, const char* what, const std::function<rondo::Status()>& wait) {
  const double processor = ProcessorMs();
  const auto begin = std::chrono::steady_clock::now();
  rondo::Status status = wait();
  const double waited = Milliseconds(std::chrono::steady_clock::now() - begin).count();
  if (rank != 0)
    std::printf("rank %d: %s: %.0f ms waited, %.2f ms of processor time\n", rank, what, waited,
                ProcessorMs() - processor);
  std::fflush(stdout);
  return status;
}

// A callback reports the end of the barrier, so no thread of this program needs to advance the barrier.
rondo::Status BarrierInBackground(rondo::Communicator& communicator) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  rondo::Status result;
  communicator.BarrierAsync().Then([&](const rondo::Status& status) {
    const std::lock_guard lock(mutex);
    result = status;
    done = true;
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return done; });
  return result;
}

rondo::Status Message(rondo::Communicator& communicator, int rank, int ranks) {
  if (rank != 0) {
    const auto received = communicator.Recv(nullptr, 0, rondo::DataType::kUint8, 0, 1);
    return received ? rondo::Status() : rondo::Status(rondo::Fail(received.error()));
  }
  for (int to = 1; to < ranks; ++to)
    if (rondo::Status sent = communicator.Send(nullptr, 0, rondo::DataType::kUint8, to, 1); !sent) return sent;
  return {};
}

rondo::Status RunRank(const std::string& rendezvous, int rank, int ranks, Milliseconds late) {
  auto connected = rondo::Connect({.rendezvous = rendezvous, .rank = rank, .world_size = ranks});
  if (!connected) return rondo::Fail(connected.error());
  rondo::Communicator& communicator = **connected;
  const std::pair<const char*, std::function<rondo::Status()>> waits[] = {
      {"barrier", [&] { return communicator.Barrier(); }},
      {"barrier in the background", [&] { return BarrierInBackground(communicator); }},
      {"receive", [&] { return Message(communicator, rank, ranks); }},
  };
  for (const auto& [what, wait] : waits) {
    if (rondo::Status met = communicator.Barrier(); !met) return met;
    if (rank == 0) std::this_thread::sleep_for(late);
    if (rondo::Status waited = Measure(rank, what, wait); !waited) return waited;
  }
  return communicator.Close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: idle_ranks RANKS LATE_MS\n");
    return 2;
  }
  const auto ranks = static_cast<int>(std::strtol(argv[1], nullptr, 10));
  const Milliseconds late(std::strtod(argv[2], nullptr));
  return rondo::RunForked(ranks, [&](const std::string& rendezvous, int rank) {
    const rondo::Status status = RunRank(rendezvous, rank, ranks, late);
    if (!status) std::fprintf(stderr, "rank %d: %s\n", rank, status.error().ToString().c_str());
    return status ? 0 : 1;
  });
}
