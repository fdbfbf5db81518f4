// gloo_bench - Gloo's collectives over its TCP (or libuv) transport, float32 sum.
//   gloo_bench -n N [options]         forks N ranks on this machine
//   gloo_bench -n N -r RANK [...]     is one rank (the others elsewhere)
// options:
//   -d DIR    rendezvous folder (a FileStore); it must be new to each run
//   -h HOST   local address to bind (default 127.0.0.1)   -T tcp|uv
//   -c COLLECTIVES   all_reduce,broadcast,barrier,all_gather,reduce_scatter,all_to_all
//   -a ALGORITHMS    of all_reduce: ring,bcube (gloo::allreduce) and o:ring, o:ring_chunked, o:hd, o:bcube (the
//   Algorithm
//                    classes, which exist in place only)
//   -m async|sync|busy  pair mode of the Algorithm classes (transport tcp)
//   -b in,out  -s SIZES  -t SECONDS  -w WARM_UP_SECONDS  -p PROGRAM
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
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
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

#include "tools/compare/bench.h"

namespace {

using ContextPtr = std::shared_ptr<gloo::rendezvous::Context>;

struct Options {
  int ranks = 2, rank = -1;
  std::string dir, host = "127.0.0.1", transport = "tcp";
  std::string colls = "all_reduce", algos = "ring,bcube,o:ring_chunked,o:hd";
  std::string places = "out,in", sizes = "4", program = "gloo", mode = "async";
  double seconds = 0.2, warm = 0.3;
};

// Old headers take a Store&, newer ones a shared_ptr<Store>.
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
  std::function<ContextPtr(const std::string&)> connect;  // a context of its own

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

  void size(size_t bytes) {
    const int n = env.ranks, me = env.rank;
    const size_t total = bytes / 4, block = total / n;
    float* a = static_cast<float*>(bench_alloc(bytes));
    float* b = static_cast<float*>(bench_alloc(bytes));
    auto has = [&](const char* c) { return bench_listed(opt.colls.c_str(), c); };
    auto algo = [&](const char* c) { return bench_listed(opt.algos.c_str(), c); };

    for (int inplace = 0; inplace < 2; inplace++) {
      if (!bench_listed(opt.places.c_str(), inplace ? "in" : "out")) continue;
      if (has("all_reduce")) {
        using Kind = gloo::AllreduceOptions::Algorithm;
        if (algo("ring")) allreduce("ring", Kind::RING, inplace, a, b, total);
        if (algo("bcube")) allreduce("bcube", Kind::BCUBE, inplace, a, b, total);
      }
      if (has("broadcast") && inplace) {
        memset(b, 0, bytes);
        if (me == 0) bench_fill(b, total, 0, 5);
        gloo::BroadcastOptions o(context);
        o.setOutput(b, total);
        o.setRoot(0);
        o.setTag(4);
        gloo::broadcast(o);
        measure("broadcast", "default", true, bytes, true, bench_is_from(b, total, 0, 5), [&] { gloo::broadcast(o); });
      }
      if (block == 0) continue;
      if (has("all_gather") && !inplace) {
        memset(b, 0, bytes);
        bench_fill(a, block, 0, me);
        gloo::AllgatherOptions o(context);
        o.setInput(a, block);
        o.setOutput(b, block * n);
        o.setTag(5);
        gloo::allgather(o);
        bool ok = true;
        for (int r = 0; r < n; r++) ok &= bench_is_from(b + r * block, block, 0, r);
        measure("all_gather", "default", false, bytes, false, ok, [&] { gloo::allgather(o); });
      }
      if (has("all_to_all") && !inplace) {
        bench_fill(a, total, 0, me);
        gloo::AlltoallOptions o(context);
        o.setInput(a, block * n);
        o.setOutput(b, block * n);
        o.setTag(6);
        gloo::alltoall(o);
        bool ok = true;
        for (int r = 0; r < n; r++) ok &= bench_is_from(b + r * block, block, me * block, r);
        measure("all_to_all", "default", false, bytes, false, ok, [&] { gloo::alltoall(o); });
      }
    }
    if (has("all_reduce")) {
      if (algo("o:ring")) allreduceClass<gloo::AllreduceRing<float>>("o:ring", b, total);
      if (algo("o:ring_chunked")) allreduceClass<gloo::AllreduceRingChunked<float>>("o:ring_chunked", b, total);
      if (algo("o:hd")) allreduceClass<gloo::AllreduceHalvingDoubling<float>>("o:hd", b, total);
      if (algo("o:bcube")) allreduceClass<gloo::AllreduceBcube<float>>("o:bcube", b, total);
    }
    if (has("reduce_scatter") && block > 0) {
      bench_fill(b, total, 0, me);
      gloo::ReduceScatterHalvingDoubling<float> rs(classContext("rs", total), std::vector<float*>{b},
                                                   static_cast<int>(total),
                                                   std::vector<int>(n, static_cast<int>(block)));
      rs.run();
      const bool ok = bench_is_sum(b, block, me * block, n);
      memset(b, 0, bytes);
      measure("reduce_scatter", "o:hd", true, bytes, false, ok, [&] { rs.run(); });
    }
    free(a);
    free(b);
  }

  // The Algorithm classes get fresh connections for each size: a pair shrinks
  // its SO_SNDBUF to the first message that such a class sends over it, and
  // synchronous pairs serve nothing else.
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
    if (bench_listed(opt.colls.c_str(), "barrier"))
      measure("barrier", "default", true, 0, false, true, [&] { lib_barrier(&context); });
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
  // The loop's own barriers and maxima get a context of their own.
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
