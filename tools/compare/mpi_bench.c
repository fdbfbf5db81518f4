/*
 * mpi_bench - MPI collectives, float32 sum.
 *   mpirun -n N mpi_bench [-p program] [-c collectives] [-b in,out] [-s sizes] [-t seconds] [-w warm_up_seconds]
 * collectives: all_reduce,broadcast,barrier,all_gather,reduce_scatter,all_to_all; all but barrier take sizes.
 */
#include <mpi.h>
#include <unistd.h>

#include "tools/compare/bench.h"

struct op {
  const float* in; /* MPI_IN_PLACE or a buffer */
  float* out;
  int count;
};

static void lib_barrier(void* lib) {
  (void)lib;
  MPI_Barrier(MPI_COMM_WORLD);
}

static void lib_max(void* lib, double* v, size_t n) {
  (void)lib;
  MPI_Allreduce(MPI_IN_PLACE, v, (int)n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void run_allreduce(void* p) {
  struct op* o = p;
  MPI_Allreduce(o->in, o->out, o->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void run_bcast(void* p) {
  struct op* o = p;
  MPI_Bcast(o->out, o->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void run_barrier(void* p) {
  (void)p;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void run_allgather(void* p) {
  struct op* o = p;
  MPI_Allgather(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void run_reduce_scatter(void* p) {
  struct op* o = p;
  MPI_Reduce_scatter_block(o->in, o->out, o->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void run_alltoall(void* p) {
  struct op* o = p;
  MPI_Alltoall(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void bench_size(const struct bench_env* env, const char* colls, const char* places, size_t bytes) {
  const int n = env->ranks, me = env->rank;
  const size_t total = bytes / 4, block = total / (size_t)n;
  float *a = bench_alloc(bytes), *b = bench_alloc(bytes);
  for (int inplace = 0; inplace < 2; inplace++) {
    if (!bench_listed(places, inplace ? "in" : "out")) continue;
    struct op o;
    struct bench_case c = {.place = inplace ? "in" : "out", .bytes = bytes, .algorithm = "default", .arg = &o};
    const float* in = inplace ? MPI_IN_PLACE : a;

    if (bench_listed(colls, "all_reduce")) {
      o = (struct op){in, b, (int)total};
      bench_fill(inplace ? b : a, total, 0, me);
      run_allreduce(&o);
      c.ok = bench_is_sum(b, total, 0, n);
      memset(b, 0, bytes); /* in place: keeps the running sum finite */
      c.collective = "all_reduce", c.run = run_allreduce;
      bench_measure(env, &c);
    }
    if (bench_listed(colls, "broadcast") && inplace) {
      o = (struct op){NULL, b, (int)total};
      memset(b, 0, bytes);
      if (me == 0) bench_fill(b, total, 0, 5);
      run_bcast(&o);
      c.ok = bench_is_from(b, total, 0, 5);
      c.collective = "broadcast", c.rooted = 1, c.run = run_bcast;
      bench_measure(env, &c);
      c.rooted = 0;
    }
    if (block == 0) continue;
    if (bench_listed(colls, "all_gather")) {
      o = (struct op){in, b, (int)block};
      memset(b, 0, bytes);
      bench_fill(inplace ? b + (size_t)me * block : a, block, 0, me);
      run_allgather(&o);
      c.ok = 1;
      for (int r = 0; r < n; r++) c.ok &= bench_is_from(b + (size_t)r * block, block, 0, r);
      c.collective = "all_gather", c.run = run_allgather;
      bench_measure(env, &c);
    }
    if (bench_listed(colls, "reduce_scatter")) {
      o = (struct op){in, b, (int)block};
      bench_fill(inplace ? b : a, total, 0, me);
      run_reduce_scatter(&o);
      c.ok = bench_is_sum(b, block, (size_t)me * block, n);
      memset(b, 0, bytes);
      c.collective = "reduce_scatter", c.run = run_reduce_scatter;
      bench_measure(env, &c);
    }
    if (bench_listed(colls, "all_to_all") && !inplace) {
      o = (struct op){in, b, (int)block};
      bench_fill(a, total, 0, me);
      run_alltoall(&o);
      c.ok = 1;
      for (int r = 0; r < n; r++) c.ok &= bench_is_from(b + (size_t)r * block, block, (size_t)me * block, r);
      c.collective = "all_to_all", c.run = run_alltoall;
      bench_measure(env, &c);
    }
  }
  free(a);
  free(b);
}

int main(int argc, char** argv) {
  const char *colls = "all_reduce", *places = "out,in", *sizes = "4";
  struct bench_env env = {.program = "mpi", .seconds = 0.2, .warm = 0.3, .barrier = lib_barrier, .max_all = lib_max};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &env.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &env.ranks);
  for (int o; (o = getopt(argc, argv, "p:c:b:s:t:w:")) != -1;) {
    if (o == 'p')
      env.program = optarg;
    else if (o == 'c')
      colls = optarg;
    else if (o == 'b')
      places = optarg;
    else if (o == 's')
      sizes = optarg;
    else if (o == 't')
      env.seconds = bench_number((char)o, optarg, 0);
    else if (o == 'w')
      env.warm = bench_number((char)o, optarg, 0);
    else
      MPI_Abort(MPI_COMM_WORLD, 2);
  }
  struct op warm = {MPI_IN_PLACE, bench_alloc(1 << 20), 1 << 18};
  bench_warm(&env, run_allreduce, &warm);
  free(warm.out);
  if (bench_listed(colls, "barrier")) {
    struct bench_case c = {.collective = "barrier", .algorithm = "default", .place = "in", .ok = 1, .run = run_barrier};
    bench_measure(&env, &c);
  }
  size_t list[BENCH_MAX_SIZES];
  const int count = bench_sizes(sizes, list);
  for (int i = 0; i < count; i++) bench_size(&env, colls, places, list[i]);
  MPI_Finalize();
  return 0;
}
