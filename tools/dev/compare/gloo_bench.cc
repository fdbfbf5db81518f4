// gloo_bench - Gloo's collectives over its TCP (or libuv) transport, float32 sum.
//   gloo_bench -n N [options]         forks N ranks on this machine
//   gloo_bench -n N -r RANK [...]     runs one rank; the other ranks are started separately
// options:
//   -d DIR    rendezvous folder (a FileStore); it must be new for each run
//   -h HOST   local address to bind (default 127.0.0.1)   -T tcp|uv
//   -c COLLECTIVES   all_reduce,reduce,broadcast,all_gather,gather,reduce_scatter,scatter,all_to_all,barrier
//   -a ALGORITHMS    of all_reduce: ring,bcube (gloo::allreduce) and o:ring, o:ring_chunked, o:hd, o:bcube (Gloo's
//                    Algorithm classes, in place only). reduce_scatter always uses such a class.
//   -m async|sync|busy  pair mode of the Algorithm classes (transport tcp)
//   -b in,out  -s SIZES  -t SECONDS  -w WARM_UP_SECONDS  -p NAME_IN_RESULTS
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#if GLOO_HAVE_TRANSPORT_UV
#include <gloo/transport/uv/device.h>
#endif

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/dev/compare/bench.h"

namespace {

constexpr int kRoot = 0;

using ContextPtr = std::shared_ptr<gloo::rendezvous::Context>;

struct Options {
  int ranks = 2, rank = -1;
  std::string dir, host = "127.0.0.1", transport = "tcp";
  std::string colls = "all_reduce", algos = "ring,bcube,o:ring_chunked,o:hd";
  std::string places = "out,in", sizes = "4", program = "gloo", mode = "async";
  double seconds = 0.2, warm = 0.3;
};

// Old versions of Gloo take a Store&, newer ones a shared_ptr<Store>.
template <typename C, typename D>
auto mesh(C& c, const std::shared_ptr<gloo::rendezvous::FileStore>& s, D& d, int) -> decltype(c.connectFullMesh(s, d)) {
  return c.connectFullMesh(s, d);
}
template <typename C, typename D>
void mesh(C& c, const std::shared_ptr<gloo::rendezvous::FileStore>& s, D& d, long) {
  c.connectFullMesh(*s, d);
}

void sum(void* c, const void* a, const void* b, size_t n) { gloo::sum<float>(c, a, b, n); }

void lib_barrier(void* lib) {
  gloo::BarrierOptions o(*static_cast<ContextPtr*>(lib));
  o.setTag(1);
  gloo::barrier(o);
}

void lib_max(void* lib, double* v, size_t n) {
  gloo::AllreduceOptions o(*static_cast<ContextPtr*>(lib));
  o.setOutput(v, n);
  o.setTag(2);
  o.setReduceFunction([](void* c, const void* a, const void* b, size_t k) { gloo::max<double>(c, a, b, k); });
  gloo::allreduce(o);
}

void call(void* arg) { (*static_cast<std::function<void()>*>(arg))(); }

struct Bench {
  bench_env env;
  ContextPtr context;
  Options opt;
  std::function<ContextPtr(const std::string&)> connect;  // makes a new context

  void measure(const char* coll, const char* algo, bool inplace, size_t bytes, bool rooted, bool ok,
               std::function<void()> run) {
    bench_case c{};
    c.collective = coll, c.algorithm = algo, c.place = inplace ? "in" : "out";
    c.bytes = bytes, c.rooted = rooted, c.ok = ok;
    c.run = call, c.arg = &run;
    bench_measure(&env, &c);
  }

  void allreduce(const char* name, gloo::AllreduceOptions::Algorithm algorithm, bool inplace, float* a, float* b,
                 size_t n) {
    bench_fill(inplace ? b : a, n, 0, env.rank);
    gloo::AllreduceOptions o(context);
    o.setAlgorithm(algorithm);
    if (!inplace) o.setInput(a, n);
    o.setOutput(b, n);
    o.setReduceFunction(sum);
    o.setTag(3);
    gloo::allreduce(o);
    const bool ok = bench_is_sum(b, n, 0, env.ranks);
    memset(b, 0, n * 4);  // in place: keeps the running sum finite
    measure("all_reduce", name, inplace, n * 4, false, ok, [&] { gloo::allreduce(o); });
  }

  template <typename A>
  void allreduceClass(const char* name, float* b, size_t n) {
    const ContextPtr own = classContext(name, n);
    bench_fill(b, n, 0, env.rank);
    A algorithm(own, std::vector<float*>{b}, static_cast<int>(n));
    algorithm.run();
    const bool ok = bench_is_sum(b, n, 0, env.ranks);
    memset(b, 0, n * 4);
    measure("all_reduce", name, true, n * 4, false, ok, [&] { algorithm.run(); });
  }

  bool has(const char* collective) const { return bench_listed(opt.colls.c_str(), collective) != 0; }
  bool algo(const char* algorithm) const { return bench_listed(opt.algos.c_str(), algorithm) != 0; }

  // Runs the collectives on one vector of n elements.
  void vectors(bool inplace, float* a, float* b, size_t n) {
    if (has("all_reduce")) {
      using Kind = gloo::AllreduceOptions::Algorithm;
      if (algo("ring")) allreduce("ring", Kind::RING, inplace, a, b, n);
      if (algo("bcube")) allreduce("bcube", Kind::BCUBE, inplace, a, b, n);
    }
    if (has("reduce") && !inplace) {
      bench_fill(a, n, 0, env.rank);
      gloo::ReduceOptions o(context);
      o.setInput(a, n);
      o.setOutput(b, n);
      o.setReduceFunction(sum);
      o.setRoot(kRoot);
      o.setTag(8);
      gloo::reduce(o);
      const bool ok = env.rank != kRoot || bench_is_sum(b, n, 0, env.ranks);
      measure("reduce", "default", false, n * 4, true, ok, [&] { gloo::reduce(o); });
    }
    if (has("broadcast") && inplace) {
      memset(b, 0, n * 4);
      if (env.rank == kRoot) bench_fill(b, n, 0, 5);
      gloo::BroadcastOptions o(context);
      o.setOutput(b, n);
      o.setRoot(kRoot);
      o.setTag(4);
      gloo::broadcast(o);
      measure("broadcast", "default", true, n * 4, true, bench_is_from(b, n, 0, 5), [&] { gloo::broadcast(o); });
    }
  }

  // Runs the collectives with one block for each rank. a and b have `bytes` bytes each, for the blocks of all ranks.
  void blocks(bool inplace, float* a, float* b, size_t block, size_t bytes) {
    const int n = env.ranks;
    const size_t own = env.rank * block;
    if (has("all_gather")) {
      memset(b, 0, bytes);
      bench_fill(inplace ? b + own : a, block, 0, env.rank);
      gloo::AllgatherOptions o(context);
      if (!inplace) o.setInput(a, block);
      o.setOutput(b, block * n);
      o.setTag(5);
      gloo::allgather(o);
      const bool ok = bench_is_from_all(b, block, 0, n);
      measure("all_gather", "default", inplace, bytes, false, ok, [&] { gloo::allgather(o); });
    }
    if (inplace) return;
    if (has("gather")) {
      memset(b, 0, bytes);
      bench_fill(a, block, 0, env.rank);
      gloo::GatherOptions o(context);
      o.setInput(a, block);
      if (env.rank == kRoot) o.setOutput(b, block * n);
      o.setRoot(kRoot);
      o.setTag(9);
      gloo::gather(o);
      const bool ok = env.rank != kRoot || bench_is_from_all(b, block, 0, n);
      measure("gather", "default", false, bytes, true, ok, [&] { gloo::gather(o); });
    }
    if (has("scatter")) {
      memset(b, 0, bytes);
      gloo::ScatterOptions o(context);
      if (env.rank == kRoot) {
        bench_fill(a, block * n, 0, 5);
        std::vector<float*> inputs;
        for (int r = 0; r < n; r++) inputs.push_back(a + r * block);
        o.setInputs(inputs, block);
      }
      o.setOutput(b, block);
      o.setRoot(kRoot);
      o.setTag(10);
      gloo::scatter(o);
      const bool ok = bench_is_from(b, block, own, 5);
      measure("scatter", "default", false, bytes, true, ok, [&] { gloo::scatter(o); });
    }
    if (has("all_to_all")) {
      memset(b, 0, bytes);
      bench_fill(a, block * n, 0, env.rank);
      gloo::AlltoallOptions o(context);
      o.setInput(a, block * n);
      o.setOutput(b, block * n);
      o.setTag(6);
      gloo::alltoall(o);
      const bool ok = bench_is_from_all(b, block, own, n);
      measure("all_to_all", "default", false, bytes, false, ok, [&] { gloo::alltoall(o); });
    }
  }

  // Runs the Algorithm classes, which work in place.
  void classes(float* b, size_t n) {
    if (has("all_reduce")) {
      if (algo("o:ring")) allreduceClass<gloo::AllreduceRing<float>>("o:ring", b, n);
      if (algo("o:ring_chunked")) allreduceClass<gloo::AllreduceRingChunked<float>>("o:ring_chunked", b, n);
      if (algo("o:hd")) allreduceClass<gloo::AllreduceHalvingDoubling<float>>("o:hd", b, n);
      if (algo("o:bcube")) allreduceClass<gloo::AllreduceBcube<float>>("o:bcube", b, n);
    }
    const size_t block = n / env.ranks;
    if (has("reduce_scatter") && block > 0) {
      bench_fill(b, n, 0, env.rank);
      gloo::ReduceScatterHalvingDoubling<float> rs(classContext("rs", n), std::vector<float*>{b}, static_cast<int>(n),
                                                   std::vector<int>(env.ranks, static_cast<int>(block)));
      rs.run();
      const bool ok = bench_is_sum(b, block, env.rank * block, env.ranks);
      memset(b, 0, n * 4);
      measure("reduce_scatter", "o:hd", true, n * 4, false, ok, [&] { rs.run(); });
    }
  }

  void size(size_t bytes) {
    const size_t elements = bytes / 4, block = elements / env.ranks;
    float* a = static_cast<float*>(bench_alloc(bytes));
    float* b = static_cast<float*>(bench_alloc(bytes));
    for (const bool inplace : {false, true}) {
      if (!bench_listed(opt.places.c_str(), inplace ? "in" : "out")) continue;
      vectors(inplace, a, b, elements);
      if (block > 0) blocks(inplace, a, b, block, bytes);
    }
    classes(b, elements);
    free(a);
    free(b);
  }

  // Makes new connections for an Algorithm class and a size. New ones are necessary because a pair (Gloo's connection)
  // reduces its SO_SNDBUF to the size of the first message that such a class sends. Also, a synchronous pair cannot be
  // used for anything else.
  ContextPtr classContext(const std::string& name, size_t n) {
    ContextPtr c = connect(name + "." + std::to_string(n));
    if (opt.mode != "async")
      for (int r = 0; r < env.ranks; r++)
        if (r != env.rank) c->getPair(r)->setSync(true, opt.mode == "busy");
    return c;
  }

  void warm() {
    std::vector<float> v(1 << 18);
    gloo::AllreduceOptions o(context);
    o.setOutput(v.data(), v.size());
    o.setReduceFunction(sum);
    o.setTag(7);
    std::function<void()> f = [&] { gloo::allreduce(o); };
    bench_warm(&env, call, &f);
  }

  void run() {
    warm();
    if (has("barrier")) measure("barrier", "default", true, 0, false, true, [&] { lib_barrier(&context); });
    size_t list[BENCH_MAX_SIZES];
    const int count = bench_sizes(opt.sizes.c_str(), list);
    for (int i = 0; i < count; i++) size(list[i]);
  }
};

std::shared_ptr<gloo::transport::Device> makeDevice(const Options& o) {
#if GLOO_HAVE_TRANSPORT_UV
  if (o.transport == "uv") return gloo::transport::uv::CreateDevice(gloo::transport::uv::attr(o.host.c_str()));
#endif
  if (o.transport != "tcp") {
    fprintf(stderr, "gloo_bench: this build has no transport %s\n", o.transport.c_str());
    exit(2);
  }
  return gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(o.host.c_str()));
}

int rankMain(const Options& o) {
  auto device = makeDevice(o);
  auto make = [&](const std::string& name) {
    const std::string dir = o.dir + "/" + name;
    mkdir(dir.c_str(), 0700);
    auto context = std::make_shared<gloo::rendezvous::Context>(o.rank, o.ranks);
    mesh(*context, std::make_shared<gloo::rendezvous::FileStore>(dir), device, 0);
    return context;
  };
  // The barriers and maxima of the measuring loop use a separate context.
  ContextPtr control = make("control");
  Bench b{};
  b.opt = o;
  b.context = make("data");
  b.connect = make;
  b.env.program = o.program.c_str();
  b.env.rank = o.rank, b.env.ranks = o.ranks, b.env.seconds = o.seconds, b.env.warm = o.warm;
  b.env.barrier = lib_barrier, b.env.max_all = lib_max, b.env.lib = &control;
  b.run();
  lib_barrier(&control);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int k; (k = getopt(argc, argv, "n:r:d:h:T:c:a:m:b:s:t:w:p:")) != -1;) {
    switch (k) {
      case 'n': o.ranks = static_cast<int>(bench_number('n', optarg, 1)); break;
      case 'r': o.rank = static_cast<int>(bench_number('r', optarg, 0)); break;
      case 'd': o.dir = optarg; break;
      case 'h': o.host = optarg; break;
      case 'T': o.transport = optarg; break;
      case 'c': o.colls = optarg; break;
      case 'a': o.algos = optarg; break;
      case 'm': o.mode = optarg; break;
      case 'b': o.places = optarg; break;
      case 's': o.sizes = optarg; break;
      case 't': o.seconds = bench_number('t', optarg, 0); break;
      case 'w': o.warm = bench_number('w', optarg, 0); break;
      case 'p': o.program = optarg; break;
      default: return 2;
    }
  }
  if (o.rank >= 0) return rankMain(o);

  char scratch[] = "/tmp/gloo_bench.XXXXXX";
  const bool own = o.dir.empty();
  if (own && mkdtemp(scratch) == nullptr) {
    perror(scratch);
    return 1;
  }
  if (own) o.dir = scratch;
  std::vector<pid_t> children;
  for (int r = 0; r < o.ranks; r++) {
    const pid_t pid = fork();
    if (pid == 0) {
      o.rank = r;
      return rankMain(o);
    }
    children.push_back(pid);
  }
  int rc = 0;
  for (pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) rc = 1;
  }
  if (own) std::filesystem::remove_all(o.dir);
  return rc;
}
