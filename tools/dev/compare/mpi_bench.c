/*
 * mpi_bench - measures MPI collectives, float32 sum.
 *   mpirun -n N mpi_bench [-p program] [-c collectives] [-b in,out] [-s sizes] [-t seconds] [-w warm_up_seconds]
 * collectives: all_reduce,reduce,broadcast,all_gather,gather,reduce_scatter,scatter,all_to_all,barrier; barrier has
 * no sizes. In place: all_reduce, all_gather, reduce_scatter, and broadcast, which has no other form.
 */
#include <mpi.h>
#include <unistd.h>

#include "tools/dev/compare/bench.h"

enum { ROOT = 0 };

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
  MPI_Bcast(o->out, o->count, MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}
static void run_reduce(void* p) {
  struct op* o = p;
  MPI_Reduce(o->in, o->out, o->count, MPI_FLOAT, MPI_SUM, ROOT, MPI_COMM_WORLD);
}
static void run_barrier(void* p) {
  (void)p;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void run_allgather(void* p) {
  struct op* o = p;
  MPI_Allgather(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, MPI_COMM_WORLD);
}
static void run_gather(void* p) {
  struct op* o = p;
  MPI_Gather(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}
static void run_reduce_scatter(void* p) {
  struct op* o = p;
  MPI_Reduce_scatter_block(o->in, o->out, o->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void run_scatter(void* p) {
  struct op* o = p;
  MPI_Scatter(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}
static void run_alltoall(void* p) {
  struct op* o = p;
  MPI_Alltoall(o->in, o->count, MPI_FLOAT, o->out, o->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void measure(const struct bench_env* env, const char* collective, int inplace, size_t bytes, int rooted, int ok,
                    void (*run)(void*), struct op* o) {
  const struct bench_case c = {.collective = collective,
                               .algorithm = "default",
                               .place = inplace ? "in" : "out",
                               .bytes = bytes,
                               .rooted = rooted,
                               .ok = ok,
                               .run = run,
                               .arg = o};
  bench_measure(env, &c);
}

/* Measures the collectives on one vector of `bytes` bytes; a and b have that size. */
static void bench_vectors(const struct bench_env* env, const char* colls, int inplace, size_t bytes, float* a,
                          float* b) {
  const int n = env->ranks, me = env->rank;
  const size_t total = bytes / 4;
  if (bench_listed(colls, "all_reduce")) {
    struct op o = {inplace ? MPI_IN_PLACE : a, b, (int)total};
    bench_fill(inplace ? b : a, total, 0, me);
    run_allreduce(&o);
    const int ok = bench_is_sum(b, total, 0, n);
    memset(b, 0, bytes); /* in place: keeps the running sum finite */
    measure(env, "all_reduce", inplace, bytes, 0, ok, run_allreduce, &o);
  }
  if (bench_listed(colls, "reduce") && !inplace) {
    struct op o = {a, b, (int)total};
    bench_fill(a, total, 0, me);
    run_reduce(&o);
    measure(env, "reduce", 0, bytes, 1, me != ROOT || bench_is_sum(b, total, 0, n), run_reduce, &o);
  }
  if (bench_listed(colls, "broadcast") && inplace) {
    struct op o = {NULL, b, (int)total};
    memset(b, 0, bytes);
    if (me == ROOT) bench_fill(b, total, 0, 5);
    run_bcast(&o);
    measure(env, "broadcast", 1, bytes, 1, bench_is_from(b, total, 0, 5), run_bcast, &o);
  }
}

/* Measures the collectives with a block of `block` elements for each rank; a and b have `bytes` bytes each, for the
 * blocks of all ranks. */
static void bench_blocks(const struct bench_env* env, const char* colls, int inplace, size_t bytes, size_t block,
                         float* a, float* b) {
  const int n = env->ranks, me = env->rank;
  const size_t own = (size_t)me * block, total = (size_t)n * block;
  if (bench_listed(colls, "all_gather")) {
    struct op o = {inplace ? MPI_IN_PLACE : a, b, (int)block};
    memset(b, 0, bytes);
    bench_fill(inplace ? b + own : a, block, 0, me);
    run_allgather(&o);
    measure(env, "all_gather", inplace, bytes, 0, bench_is_from_all(b, block, 0, n), run_allgather, &o);
  }
  if (bench_listed(colls, "reduce_scatter")) {
    struct op o = {inplace ? MPI_IN_PLACE : a, b, (int)block};
    bench_fill(inplace ? b : a, total, 0, me);
    run_reduce_scatter(&o);
    const int ok = bench_is_sum(b, block, own, n);
    memset(b, 0, bytes);
    measure(env, "reduce_scatter", inplace, bytes, 0, ok, run_reduce_scatter, &o);
  }
  if (inplace) return;
  struct op o = {a, b, (int)block};
  if (bench_listed(colls, "gather")) {
    memset(b, 0, bytes);
    bench_fill(a, block, 0, me);
    run_gather(&o);
    measure(env, "gather", 0, bytes, 1, me != ROOT || bench_is_from_all(b, block, 0, n), run_gather, &o);
  }
  if (bench_listed(colls, "scatter")) {
    memset(b, 0, bytes);
    if (me == ROOT) bench_fill(a, total, 0, 5);
    run_scatter(&o);
    measure(env, "scatter", 0, bytes, 1, bench_is_from(b, block, own, 5), run_scatter, &o);
  }
  if (bench_listed(colls, "all_to_all")) {
    memset(b, 0, bytes);
    bench_fill(a, total, 0, me);
    run_alltoall(&o);
    measure(env, "all_to_all", 0, bytes, 0, bench_is_from_all(b, block, own, n), run_alltoall, &o);
  }
}

static void bench_size(const struct bench_env* env, const char* colls, const char* places, size_t bytes) {
  const size_t block = bytes / 4 / (size_t)env->ranks;
  float *a = bench_alloc(bytes), *b = bench_alloc(bytes);
  for (int inplace = 0; inplace < 2; inplace++) {
    if (!bench_listed(places, inplace ? "in" : "out")) continue;
    bench_vectors(env, colls, inplace, bytes, a, b);
    if (block > 0) bench_blocks(env, colls, inplace, bytes, block, a, b);
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
  if (bench_listed(colls, "barrier")) measure(&env, "barrier", 1, 0, 0, 1, run_barrier, NULL);
  size_t list[BENCH_MAX_SIZES];
  const int count = bench_sizes(sizes, list);
  for (int i = 0; i < count; i++) bench_size(&env, colls, places, list[i]);
  MPI_Finalize();
  return 0;
}
