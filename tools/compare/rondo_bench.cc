// rondo_bench - Rondo's collectives between ranks forked on this machine, float32 sum; timed and checked as the peers
// are.
//   rondo_bench -n N [options]
// options:
//   -a ADDRESS   local address (default 127.0.0.1)
//   -c COLLECTIVES   all_reduce,broadcast,barrier
//   -b in,out  -s SIZES  -t SECONDS  -w WARM_UP_SECONDS  -p PROGRAM
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/connect.h"
#include "tools/compare/bench.h"

namespace {

using rondo::Communicator;
using rondo::DataType;
using rondo::ReduceOp;

struct Options {
  int ranks = 2;
  std::string address = "127.0.0.1", collectives = "all_reduce", places = "out,in", sizes = "4", program = "rondo";
  double seconds = 0.2, warm_seconds = 0.3;
};

// A benchmark has no use for a half-failed run: the first error ends the rank, and with it the run.
void Must(const rondo::Status& status) {
  if (status) return;
  fprintf(stderr, "rondo_bench: %s\n", status.error().ToString().c_str());
  _exit(1);
}

void LibraryBarrier(void* library) { Must(static_cast<Communicator*>(library)->Barrier()); }

void LibraryMax(void* library, double* values, size_t count) {
  Must(static_cast<Communicator*>(library)->AllReduce(values, values, count, DataType::kFloat64, ReduceOp::kMax));
}

void Call(void* function) { (*static_cast<std::function<void()>*>(function))(); }

struct Freed {
  void operator()(float* memory) const { free(memory); }
};
using Buffer = std::unique_ptr<float, Freed>;
Buffer Allocate(size_t bytes) { return Buffer(static_cast<float*>(bench_alloc(bytes))); }

class RankBench {
 public:
  RankBench(Communicator& communicator, const Options& options) : communicator_(communicator), options_(options) {
    env_.program = options.program.c_str();
    env_.rank = communicator.rank();
    env_.ranks = communicator.world_size();
    env_.seconds = options.seconds;
    env_.warm = options.warm_seconds;
    env_.barrier = LibraryBarrier;
    env_.max_all = LibraryMax;
    env_.lib = &communicator;
  }

  void Run() {
    WarmUp();
    if (Wants("barrier")) Measure("barrier", true, 0, false, true, [&] { Must(communicator_.Barrier()); });
    size_t sizes[BENCH_MAX_SIZES];
    const int count = bench_sizes(options_.sizes.c_str(), sizes);
    for (int i = 0; i < count; ++i) {
      for (const bool in_place : {false, true}) {
        if (bench_listed(options_.places.c_str(), in_place ? "in" : "out") == 0) continue;
        if (Wants("all_reduce")) AllReduce(sizes[i], in_place);
        if (Wants("broadcast") && in_place) Broadcast(sizes[i]);
      }
    }
  }

 private:
  bool Wants(const char* collective) const { return bench_listed(options_.collectives.c_str(), collective) != 0; }

  void Measure(const char* collective, bool in_place, size_t bytes, bool rooted, bool correct,
               std::function<void()> run) {
    bench_case point{};
    point.collective = collective;
    point.algorithm = "auto";
    point.place = in_place ? "in" : "out";
    point.bytes = bytes;
    point.rooted = rooted ? 1 : 0;
    point.ok = correct ? 1 : 0;
    point.run = Call;
    point.arg = &run;
    bench_measure(&env_, &point);
  }

  void WarmUp() {
    constexpr size_t kElements = 1 << 18;
    const Buffer buffer = Allocate(kElements * sizeof(float));
    std::function<void()> run = [&] { Sum(buffer.get(), buffer.get(), kElements); };
    bench_warm(&env_, Call, &run);
  }

  void Sum(const float* input, float* output, size_t elements) {
    Must(communicator_.AllReduce(input, output, elements, DataType::kFloat32, ReduceOp::kSum));
  }

  void AllReduce(size_t bytes, bool in_place) {
    const size_t elements = bytes / sizeof(float);
    const Buffer output = Allocate(bytes);
    const Buffer apart = in_place ? nullptr : Allocate(bytes);
    float* input = in_place ? output.get() : apart.get();
    bench_fill(input, elements, 0, env_.rank);
    Sum(input, output.get(), elements);
    const bool correct = bench_is_sum(output.get(), elements, 0, env_.ranks) != 0;
    memset(output.get(), 0, bytes);  // in place: keeps the running sum finite
    Measure("all_reduce", in_place, bytes, false, correct, [&] { Sum(input, output.get(), elements); });
  }

  void Broadcast(size_t bytes) {
    const size_t elements = bytes / sizeof(float);
    const Buffer buffer = Allocate(bytes);
    if (env_.rank == 0) bench_fill(buffer.get(), elements, 0, 5);
    const auto run = [&] {
      Must(communicator_.Broadcast(buffer.get(), buffer.get(), elements, DataType::kFloat32, 0));
    };
    run();
    const bool correct = bench_is_from(buffer.get(), elements, 0, 5) != 0;
    Measure("broadcast", true, bytes, true, correct, run);
  }

  Communicator& communicator_;
  const Options& options_;
  bench_env env_{};
};

int RankMain(const Options& options, const std::string& folder, int rank) {
  rondo::ConnectOptions connect;
  connect.rendezvous = "file://" + folder + "/rendezvous";
  connect.rank = rank;
  connect.world_size = options.ranks;
  connect.addresses = {options.address};
  auto communicator = rondo::Connect(connect);
  if (!communicator) {
    fprintf(stderr, "rondo_bench: %s\n", communicator.error().ToString().c_str());
    return 1;
  }
  RankBench(**communicator, options).Run();
  Must((*communicator)->Close());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int flag; (flag = getopt(argc, argv, "n:a:c:b:s:t:w:p:")) != -1;) {
    switch (flag) {
      case 'n': options.ranks = static_cast<int>(bench_number('n', optarg, 1)); break;
      case 'a': options.address = optarg; break;
      case 'c': options.collectives = optarg; break;
      case 'b': options.places = optarg; break;
      case 's': options.sizes = optarg; break;
      case 't': options.seconds = bench_number('t', optarg, 0); break;
      case 'w': options.warm_seconds = bench_number('w', optarg, 0); break;
      case 'p': options.program = optarg; break;
      default: return 2;
    }
  }
  if (optind != argc) {
    fprintf(stderr, "usage: rondo_bench -n RANKS [options]; the head of rondo_bench.cc lists them\n");
    return 2;
  }

  char folder[] = "/tmp/rondo_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    perror(folder);
    return 1;
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      const int status = RankMain(options, folder, rank);
      fflush(stdout);
      _exit(status);
    }
    children.push_back(child);
  }
  int status = 0;
  for (const pid_t child : children) {
    int child_status = 0;
    waitpid(child, &child_status, 0);
    if (child_status != 0) status = 1;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}
