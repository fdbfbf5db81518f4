// rondo_bench - measures Rondo's collectives (float32, sum) between ranks that it forks on this machine. Timing and
// checks are the same as for the other libraries.
//   rondo_bench -n N [options]              all ranks
//   rondo_bench -n N -r R -d DIR [options]  rank R alone; DIR must be new, and the same for all ranks
// options:
//   -a ADDRESS   local address (default 127.0.0.1); "auto": Rondo's own choice
//   -P FILE      profile that determines the choice of algorithms (default: the built-in one)
//   -c COLLECTIVES   all_reduce,reduce,broadcast,all_gather,gather,reduce_scatter,scatter,all_to_all,barrier. In place:
//                    all_reduce, all_gather, reduce_scatter, and broadcast, which has no other form
//   -T tcp|shm   how ranks reach each other (default tcp)
//   -A           buffers from Communicator::Allocate, not from malloc
//   -b in,out  -s SIZES  -t SECONDS  -w WARM_UP_SECONDS  -p PROGRAM
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/connect.h"
#include "collectives/model/profile.h"
#include "tools/dev/compare/bench.h"

namespace {

using rondo::Communicator;
using rondo::DataType;
using rondo::ReduceOp;

constexpr rondo::Rank kRoot = 0;

struct Options {
  int ranks = 2, rank = -1;
  std::string folder, profile;
  std::string address = "127.0.0.1", collectives = "all_reduce", places = "out,in", sizes = "4", program = "rondo";
  rondo::Path path = rondo::Path::kTcp;
  bool allocated = false;
  double seconds = 0.2, warm_seconds = 0.3;
};

// Ends the rank at the first error, and thus the whole run, because partial results are useless.
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
// A buffer of plain memory, or one that the communicator allocates.
class Buffer {
 public:
  Buffer(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): implicit, for ranks that need no such buffer
  explicit Buffer(size_t bytes) : plain_(static_cast<float*>(bench_alloc(bytes))) {}
  Buffer(Communicator& communicator, size_t bytes) {
    auto memory = communicator.Allocate(bytes);
    if (!memory) Must(rondo::Fail(memory.error()));
    allocated_ = std::move(*memory);
  }
  float* get() const { return allocated_ ? reinterpret_cast<float*>(allocated_->bytes().data()) : plain_.get(); }

 private:
  std::unique_ptr<float, Freed> plain_;
  std::unique_ptr<rondo::Memory> allocated_;
};

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
        Vectors(sizes[i], in_place);
        if (ElementsPerRank(sizes[i]) > 0) Blocks(sizes[i], in_place);
      }
    }
  }

 private:
  Buffer Allocate(size_t bytes) { return options_.allocated ? Buffer(communicator_, bytes) : Buffer(bytes); }
  bool Wants(const char* collective) const { return bench_listed(options_.collectives.c_str(), collective) != 0; }

  // Measures the collectives on one vector.
  void Vectors(size_t bytes, bool in_place) {
    if (Wants("all_reduce")) AllReduce(bytes, in_place);
    if (Wants("reduce") && !in_place) Reduce(bytes);
    if (Wants("broadcast") && in_place) Broadcast(bytes);
  }

  // Measures the collectives with a block for each rank; `bytes` is the size of all blocks together.
  void Blocks(size_t bytes, bool in_place) {
    if (Wants("all_gather")) AllGather(bytes, in_place);
    if (Wants("reduce_scatter")) ReduceScatter(bytes, in_place);
    if (in_place) return;
    if (Wants("gather")) Gather(bytes);
    if (Wants("scatter")) Scatter(bytes);
    if (Wants("all_to_all")) AllToAll(bytes);
  }

  size_t ElementsPerRank(size_t bytes) const { return bytes / sizeof(float) / static_cast<size_t>(env_.ranks); }
  size_t FirstOfOwnBlock(size_t block) const { return static_cast<size_t>(env_.rank) * block; }
  bool IsRoot() const { return env_.rank == kRoot; }

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

  void Reduce(size_t bytes) {
    const size_t elements = bytes / sizeof(float);
    const Buffer input = Allocate(bytes);
    const Buffer output = Allocate(bytes);
    bench_fill(input.get(), elements, 0, env_.rank);
    const auto run = [&] {
      Must(communicator_.Reduce(input.get(), output.get(), elements, DataType::kFloat32, ReduceOp::kSum, kRoot));
    };
    run();
    const bool correct = !IsRoot() || bench_is_sum(output.get(), elements, 0, env_.ranks) != 0;
    Measure("reduce", false, bytes, true, correct, run);
  }

  void Broadcast(size_t bytes) {
    const size_t elements = bytes / sizeof(float);
    const Buffer buffer = Allocate(bytes);
    if (IsRoot()) bench_fill(buffer.get(), elements, 0, 5);
    const auto run = [&] {
      Must(communicator_.Broadcast(buffer.get(), buffer.get(), elements, DataType::kFloat32, kRoot));
    };
    run();
    const bool correct = bench_is_from(buffer.get(), elements, 0, 5) != 0;
    Measure("broadcast", true, bytes, true, correct, run);
  }

  void AllGather(size_t bytes, bool in_place) {
    const size_t block = ElementsPerRank(bytes);
    const Buffer output = Allocate(bytes);
    const Buffer apart = in_place ? nullptr : Allocate(block * sizeof(float));
    float* input = in_place ? output.get() + FirstOfOwnBlock(block) : apart.get();
    bench_fill(input, block, 0, env_.rank);
    const auto run = [&] { Must(communicator_.AllGather(input, output.get(), block, DataType::kFloat32)); };
    run();
    const bool correct = bench_is_from_all(output.get(), block, 0, env_.ranks) != 0;
    Measure("all_gather", in_place, bytes, false, correct, run);
  }

  void Gather(size_t bytes) {
    const size_t block = ElementsPerRank(bytes);
    const Buffer input = Allocate(block * sizeof(float));
    const Buffer output = IsRoot() ? Allocate(bytes) : nullptr;
    bench_fill(input.get(), block, 0, env_.rank);
    const auto run = [&] { Must(communicator_.Gather(input.get(), output.get(), block, DataType::kFloat32, kRoot)); };
    run();
    const bool correct = !IsRoot() || bench_is_from_all(output.get(), block, 0, env_.ranks) != 0;
    Measure("gather", false, bytes, true, correct, run);
  }

  void ReduceScatter(size_t bytes, bool in_place) {
    const size_t block = ElementsPerRank(bytes);
    const Buffer input = Allocate(bytes);
    const Buffer apart = in_place ? nullptr : Allocate(block * sizeof(float));
    float* output = in_place ? input.get() + FirstOfOwnBlock(block) : apart.get();
    bench_fill(input.get(), bytes / sizeof(float), 0, env_.rank);
    const auto run = [&] {
      Must(communicator_.ReduceScatter(input.get(), output, block, DataType::kFloat32, ReduceOp::kSum));
    };
    run();
    const bool correct = bench_is_sum(output, block, FirstOfOwnBlock(block), env_.ranks) != 0;
    memset(input.get(), 0, bytes);  // in place: keeps the running sum finite
    Measure("reduce_scatter", in_place, bytes, false, correct, run);
  }

  void Scatter(size_t bytes) {
    const size_t block = ElementsPerRank(bytes);
    const Buffer input = IsRoot() ? Allocate(bytes) : nullptr;
    const Buffer output = Allocate(block * sizeof(float));
    if (IsRoot()) bench_fill(input.get(), bytes / sizeof(float), 0, 5);
    const auto run = [&] { Must(communicator_.Scatter(input.get(), output.get(), block, DataType::kFloat32, kRoot)); };
    run();
    const bool correct = bench_is_from(output.get(), block, FirstOfOwnBlock(block), 5) != 0;
    Measure("scatter", false, bytes, true, correct, run);
  }

  void AllToAll(size_t bytes) {
    const size_t block = ElementsPerRank(bytes);
    const Buffer input = Allocate(bytes);
    const Buffer output = Allocate(bytes);
    bench_fill(input.get(), bytes / sizeof(float), 0, env_.rank);
    const auto run = [&] { Must(communicator_.AllToAll(input.get(), output.get(), block, DataType::kFloat32)); };
    run();
    const bool correct = bench_is_from_all(output.get(), block, FirstOfOwnBlock(block), env_.ranks) != 0;
    Measure("all_to_all", false, bytes, false, correct, run);
  }

  Communicator& communicator_;
  const Options& options_;
  bench_env env_{};
};

int RankMain(const Options& options) {
  rondo::ConnectOptions connect;
  connect.rendezvous = "file://" + options.folder + "/rendezvous";
  connect.rank = options.rank;
  connect.world_size = options.ranks;
  if (!options.profile.empty()) {
    auto profile = rondo::ReadProfile(options.profile);
    if (!profile) {
      fprintf(stderr, "rondo_bench: %s\n", profile.error().ToString().c_str());
      return 2;
    }
    connect.communicator.profile = std::move(*profile);
  }
  connect.path = options.path;
  if (options.address != "auto") connect.addresses = {options.address};
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
  for (int flag; (flag = getopt(argc, argv, "n:r:d:a:P:c:b:s:t:w:p:T:A")) != -1;) {
    switch (flag) {
      case 'n': options.ranks = static_cast<int>(bench_number('n', optarg, 1)); break;
      case 'r': options.rank = static_cast<int>(bench_number('r', optarg, 0)); break;
      case 'd': options.folder = optarg; break;
      case 'a': options.address = optarg; break;
      case 'P': options.profile = optarg; break;
      case 'c': options.collectives = optarg; break;
      case 'b': options.places = optarg; break;
      case 's': options.sizes = optarg; break;
      case 't': options.seconds = bench_number('t', optarg, 0); break;
      case 'w': options.warm_seconds = bench_number('w', optarg, 0); break;
      case 'p': options.program = optarg; break;
      case 'T': options.path = std::string(optarg) == "shm" ? rondo::Path::kShm : rondo::Path::kTcp; break;
      case 'A': options.allocated = true; break;
      default: return 2;
    }
  }
  if (optind != argc || (options.rank >= 0) == options.folder.empty()) {
    fprintf(stderr, "usage: rondo_bench -n RANKS [options]; the head of rondo_bench.cc lists them\n");
    return 2;
  }

  if (options.rank >= 0) return RankMain(options);

  char folder[] = "/tmp/rondo_bench.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    perror(folder);
    return 1;
  }
  options.folder = folder;
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      options.rank = rank;
      const int status = RankMain(options);
      fflush(stdout);
      _exit(status);
    }
    children.push_back(child);
  }
  int status = 0;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int ended = 0;
    waitpid(children[rank], &ended, 0);
    if (ended != 0) status = 1;
    if (WIFSIGNALED(ended)) fprintf(stderr, "rondo_bench: rank %zu was ended by signal %d\n", rank, WTERMSIG(ended));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}
