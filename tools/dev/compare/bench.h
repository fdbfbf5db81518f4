/*
 * bench.h - timing and checks that the benchmark programs of all libraries share, so that only the libraries differ in
 * a comparison (C11 and C++).
 *
 * What is timed
 *   Unrooted collectives run back to back. The time of one iteration is the duration of the call on the slowest rank.
 *   Rooted collectives (broadcast, reduce, gather, scatter) start after a barrier. The time of one iteration is from
 *   the root's start to the end on the slowest rank, so all ranks must share CLOCK_MONOTONIC (one machine; network
 *   namespaces are fine). wall_us is the wall time of the whole loop divided by the number of iterations; for rooted
 *   collectives it is the mean time of an iteration.
 * Output
 *   Rank 0 writes one line with a JSON object per point to stdout; see the printf at the end. bytes is the size as in
 *   nccl-tests, which is the size of a rank's largest buffer. For all_reduce, reduce and broadcast it is the size of
 *   the vector. For all_gather, gather, reduce_scatter, scatter and all_to_all it is ranks * block, a multiple of
 *   4 * ranks.
 * Checking
 *   Each benchmark program checks every element of the first result on every rank and passes the verdict in
 *   bench_case.ok. If one rank is wrong, the whole point counts as wrong.
 */
#pragma once
// NOLINTBEGIN(modernize-*): C11 too

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_MAX_ITERS 4000
#define BENCH_MIN_ITERS 5
#define BENCH_MAX_SIZES 64

/* The functions and settings that the measuring loop needs for the library under test. */
struct bench_env {
  const char* program;
  int rank, ranks;
  double seconds; /* intended duration of a measured point */
  double warm;    /* duration of bench_warm before the first point */
  void (*barrier)(void* lib);
  void (*max_all)(void* lib, double* v, size_t n); /* elementwise, in place */
  void* lib;
};

struct bench_case {
  const char *collective, *algorithm, *place; /* place: "in" or "out" */
  size_t bytes;
  int rooted; /* root is rank 0 */
  int ok;     /* whether the result on this rank was correct */
  void (*run)(void* arg);
  void* arg;
};

static inline double bench_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline void* bench_alloc(size_t bytes) {
  void* p = NULL;
  if (posix_memalign(&p, 4096, bytes < 4096 ? 4096 : bytes) != 0) {
    fprintf(stderr, "bench: out of memory (%zu bytes)\n", bytes);
    exit(1);
  }
  memset(p, 0, bytes);
  return p;
}

/* Inputs are small integers, so that sums in any order are exact in float32. */
static inline float bench_value(size_t i, int rank) { return (float)(i & 1023) + 3.0f * (float)rank; }

static inline void bench_fill(float* v, size_t n, size_t first, int rank) {
  for (size_t i = 0; i < n; i++) v[i] = bench_value(first + i, rank);
}

static inline int bench_is_sum(const float* v, size_t n, size_t first, int ranks) {
  const float shift = 1.5f * (float)ranks * (float)(ranks - 1);
  for (size_t i = 0; i < n; i++)
    if (v[i] != (float)ranks * (float)((first + i) & 1023) + shift) return 0;
  return 1;
}

static inline int bench_is_from(const float* v, size_t n, size_t first, int rank) {
  for (size_t i = 0; i < n; i++)
    if (v[i] != bench_value(first + i, rank)) return 0;
  return 1;
}

/* Whether each block r of `v` holds the values of rank r, beginning with element `first` of rank r. */
static inline int bench_is_from_all(const float* v, size_t block, size_t first, int ranks) {
  for (int r = 0; r < ranks; r++)
    if (!bench_is_from(v + (size_t)r * block, block, first, r)) return 0;
  return 1;
}

static inline int bench_cmp(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Parses a number of the command line. If the text is not a number, or the number is below `least`, prints the flag and
 * ends the program. */
static inline double bench_number(char flag, const char* text, double least) {
  char* end;
  const double value = strtod(text, &end);
  if (end == text || *end != 0 || !(value >= least)) {
    fprintf(stderr, "bench: -%c %s: not a number of %g or more\n", flag, text, least);
    exit(2);
  }
  return value;
}

/* Parses sizes like "4,64k,1m" (bytes, KiB, MiB). Returns their number, at most BENCH_MAX_SIZES. */
static inline int bench_sizes(const char* text, size_t* out) {
  int n = 0;
  while (*text && n < BENCH_MAX_SIZES) {
    char* end;
    size_t v = strtoull(text, &end, 10);
    if (*end == 'k')
      v <<= 10, end++;
    else if (*end == 'm')
      v <<= 20, end++;
    out[n++] = v;
    text = *end == ',' ? end + 1 : end;
    if (end == text && *end) break;
  }
  return n;
}

/* Is `item` one of the comma-separated words of `list`? */
static inline int bench_listed(const char* list, const char* item) {
  const size_t len = strlen(item);
  for (const char* p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (strncmp(p, item, len) == 0 && (p[len] == ',' || p[len] == 0)) return 1;
  return 0;
}

/* Runs `run` for env->warm seconds, so that TCP windows grow and pages are mapped before the measurement. */
static inline void bench_warm(const struct bench_env* env, void (*run)(void*), void* arg) {
  const double start = bench_now_us();
  for (double left = env->warm > 0; left > 0;) {
    for (int i = 0; i < 4; i++) run(arg);
    left = env->warm * 1e6 - (bench_now_us() - start);
    env->max_all(env->lib, &left, 1);
  }
}

static inline void bench_measure(const struct bench_env* env, const struct bench_case* c) {
  /* Warm up, then agree on the number of iterations. For a rooted collective the time of the barrier is included. With
   * more ranks than CPU cores, the barrier can take a thousand times as long as the call on a leaf of the tree, which
   * returns at once. */
  double est = 0;
  for (int i = 0; i < 2; i++) {
    const double t0 = bench_now_us();
    if (c->rooted) env->barrier(env->lib);
    c->run(c->arg);
    const double t = bench_now_us() - t0;
    if (i == 0 || t < est) est = t;
  }
  env->max_all(env->lib, &est, 1);
  for (int i = 0, n = est < 200 ? (int)(20000 / (est + 1)) : 0; i < n && i < 300; i++) c->run(c->arg);
  double want = env->seconds * 1e6 / (est > 0.1 ? est : 0.1);
  int iters = want > BENCH_MAX_ITERS ? BENCH_MAX_ITERS : want < BENCH_MIN_ITERS ? BENCH_MIN_ITERS : (int)want;

  double* start = (double*)calloc(2 * (size_t)iters + 2, sizeof(double));
  double* end = start + iters;
  env->barrier(env->lib);
  for (int i = 0; i < iters; i++) {
    if (c->rooted) env->barrier(env->lib);
    start[i] = bench_now_us();
    c->run(c->arg);
    end[i] = bench_now_us();
  }
  double* tail = start + 2 * iters; /* wall time; failed flag */
  tail[0] = end[iters - 1] - start[0];
  tail[1] = c->ok ? 0 : 1;
  if (c->rooted) {
    if (env->rank != 0)
      for (int i = 0; i < iters; i++) start[i] = 0;
    env->max_all(env->lib, start, (size_t)iters);
    env->max_all(env->lib, end, (size_t)iters);
    for (int i = 0; i < iters; i++) end[i] -= start[i];
  } else {
    for (int i = 0; i < iters; i++) end[i] -= start[i];
    env->max_all(env->lib, end, (size_t)iters);
  }
  env->max_all(env->lib, tail, 2);

  if (env->rank == 0) {
    double sum = 0;
    for (int i = 0; i < iters; i++) sum += end[i];
    const double wall = c->rooted ? sum / iters : tail[0] / iters;
    qsort(end, (size_t)iters, sizeof(double), bench_cmp);
    const double med = iters % 2 ? end[iters / 2] : 0.5 * (end[iters / 2 - 1] + end[iters / 2]);
    const double p99 = end[(int)ceil(0.99 * iters) - 1];
    printf(
        "{\"program\": \"%s\", \"collective\": \"%s\", \"algorithm\": \"%s\", "
        "\"place\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"iters\": %d, "
        "\"min_us\": %.3f, \"median_us\": %.3f, \"p99_us\": %.3f, \"wall_us\": %.3f, \"correct\": %s}\n",
        env->program, c->collective, c->algorithm, c->place, env->ranks, c->bytes, iters, end[0], med, p99, wall,
        tail[1] > 0 ? "false" : "true");
    fflush(stdout);
  }
  free(start);
}

// NOLINTEND(modernize-*)
