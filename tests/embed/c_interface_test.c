/* Tests the whole C interface with a C11 program that uses only embed/rondo.h and librondo.so. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/embed/ranks.h"

enum { N = 1000 };

static void fill(float* values, int count, float first) {
  for (int i = 0; i < count; ++i) values[i] = first + (float)i;
}

/* Whether value i is scale * i + offset. */
static int is_line(const float* values, int count, float scale, float offset) {
  for (int i = 0; i < count; ++i)
    if (values[i] != scale * (float)i + offset) return 0;
  return 1;
}

static void every_collective(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  float in[4 * N], out[4 * N];
  const float w = (float)world, ranks = w * (w - 1) / 2;
  CHECK(world <= 4);
  for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
    rondo_work* work = NULL;
/* Runs a blocking call, or its asynchronous variant and a wait: the arguments are the same, except for the work. */
#define DO(name, ...)                                                     \
  do {                                                                    \
    if (!asynchronous) {                                                  \
      MUST(rondo_##name(comm, __VA_ARGS__, NULL, &error));                \
    } else {                                                              \
      MUST(rondo_##name##_async(comm, __VA_ARGS__, NULL, &work, &error)); \
      MUST(rondo_work_wait(work, &error));                                \
      MUST(rondo_work_test(work, &error));                                \
      CHECK(rondo_work_sequence(work) > 0);                               \
      rondo_work_free(work);                                              \
    }                                                                     \
  } while (0)
    fill(in, 4 * N, (float)rank);
    DO(all_reduce, in, out, N, RONDO_FLOAT32, RONDO_SUM);
    CHECK(is_line(out, N, w, ranks));
    memcpy(out, in, sizeof out);
    DO(all_reduce, out, out, N, RONDO_FLOAT32, RONDO_MAX);
    CHECK(is_line(out, N, 1, w - 1));
    DO(reduce, in, out, N, RONDO_FLOAT32, RONDO_SUM, 1);
    CHECK(rank != 1 || is_line(out, N, w, ranks));
    DO(broadcast, in, out, N, RONDO_FLOAT32, world - 1);
    CHECK(is_line(out, N, 1, w - 1));
    DO(all_gather, in, out, N, RONDO_FLOAT32);
    for (int r = 0; r < world; ++r) CHECK(is_line(out + r * N, N, 1, (float)r));
    DO(reduce_scatter, in, out, N, RONDO_FLOAT32, RONDO_SUM);
    CHECK(is_line(out, N, w, ranks + w * (float)(rank * N)));
    DO(gather, in, out, N, RONDO_FLOAT32, 0);
    for (int r = 0; rank == 0 && r < world; ++r) CHECK(is_line(out + r * N, N, 1, (float)r));
    DO(scatter, in, out, N, RONDO_FLOAT32, 0);
    CHECK(is_line(out, N, 1, (float)(rank * N)));
    DO(all_to_all, in, out, N, RONDO_FLOAT32);
    for (int r = 0; r < world; ++r) CHECK(is_line(out + r * N, N, 1, (float)(r + rank * N)));

    /* Rank r has r + 1 elements. */
    uint64_t counts[4], same[4];
    for (int r = 0; r < world; ++r) counts[r] = (uint64_t)r + 1;
    DO(all_gather_v, in, out, counts, RONDO_FLOAT32);
    for (int r = 0, at = 0; r < world; at += ++r) CHECK(is_line(out + at, r + 1, 1, (float)r));
    DO(reduce_scatter_v, in, out, counts, RONDO_FLOAT32, RONDO_SUM);
    CHECK(is_line(out, rank + 1, w, ranks + w * (float)(rank * (rank + 1) / 2)));
    DO(gather_v, in, (uint64_t)rank + 1, out, rank == 0 ? counts : NULL, RONDO_FLOAT32, 0);
    for (int r = 0, at = 0; rank == 0 && r < world; at += ++r) CHECK(is_line(out + at, r + 1, 1, (float)r));
    DO(scatter_v, in, rank == 0 ? counts : NULL, out, (uint64_t)rank + 1, RONDO_FLOAT32, 0);
    CHECK(is_line(out, rank + 1, 1, (float)(rank * (rank + 1) / 2)));
    for (int r = 0; r < world; ++r) same[r] = (uint64_t)rank + 1;
    DO(all_to_all_v, in, counts, out, same, RONDO_FLOAT32);
    for (int r = 0; r < world; ++r)
      CHECK(is_line(out + r * (rank + 1), rank + 1, 1, (float)(r + rank * (rank + 1) / 2)));
#undef DO
    if (asynchronous) {
      MUST(rondo_barrier_async(comm, NULL, &work, &error));
      MUST(rondo_work_wait(work, &error));
      rondo_work_free(work);
    } else {
      MUST(rondo_barrier(comm, NULL, &error));
    }
  }
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
}

static void wrong_arguments(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  float in[4] = {1, 2, 3, 4}, out[4];
  FAILS(rondo_all_reduce(NULL, in, out, 4, RONDO_FLOAT32, RONDO_SUM, NULL, &error), RONDO_INVALID_ARGUMENT,
        "comm is NULL");
  FAILS(rondo_all_reduce(comm, in, out, 4, (rondo_dtype)257, RONDO_SUM, NULL, &error), RONDO_INVALID_ARGUMENT, "257");
  FAILS(rondo_all_reduce(comm, in, out, 4, RONDO_FLOAT32, 10, NULL, &error), RONDO_INVALID_ARGUMENT, "10");
  FAILS(rondo_all_reduce(comm, in, out, 4, RONDO_FLOAT32, 128, NULL, &error), RONDO_INVALID_ARGUMENT, "");
  FAILS(rondo_all_reduce(comm, NULL, out, 4, RONDO_FLOAT32, RONDO_SUM, NULL, &error), RONDO_INVALID_ARGUMENT, "");
  FAILS(rondo_broadcast(comm, in, out, 4, RONDO_FLOAT32, world, NULL, &error), RONDO_INVALID_ARGUMENT, "");
  FAILS(rondo_all_gather_v(comm, in, out, NULL, RONDO_FLOAT32, NULL, &error), RONDO_INVALID_ARGUMENT, "");

  rondo_options options;
  memset(&options, 0, sizeof options);
  FAILS(rondo_barrier(comm, &options, &error), RONDO_INVALID_ARGUMENT, "rondo_options_init");
  rondo_options_init(&options);
  CHECK(options.scale == 1 && options.timeout_ms == 0 && options.algorithm == NULL);
  options.algorithm = "cir\ncle";
  FAILS(rondo_barrier(comm, &options, &error), RONDO_INVALID_ARGUMENT, "cir\\x0acle");
  rondo_options_init(&options);
  options.timeout_ms = UINT64_MAX;
  FAILS(rondo_barrier(comm, &options, &error), RONDO_INVALID_ARGUMENT, "options.timeout_ms: -1 ms");
  options.timeout_ms = INT64_MAX;
  FAILS(rondo_barrier(comm, &options, &error), RONDO_INVALID_ARGUMENT, "is more than 1000000000000 ms (31 years)");
  options.timeout_ms = 1000000000000;
  MUST(rondo_barrier(comm, &options, &error));
  rondo_options_init(&options);
  options.reproducible = (rondo_choice)7;
  FAILS(rondo_barrier(comm, &options, &error), RONDO_INVALID_ARGUMENT, "reproducible");

  /* GPU memory: some errors depend on the machine, but these calls are wrong on every machine. */
  rondo_options_init(&options);
  options.stream = &options;
  FAILS(rondo_all_reduce(comm, in, out, 4, RONDO_FLOAT32, RONDO_SUM, &options, &error), RONDO_INVALID_ARGUMENT,
        "a stream is given, but the buffers are in host memory");
  FAILS(rondo_send(comm, in, 4, RONDO_FLOAT32, 0, 0, &options, &error), RONDO_UNSUPPORTED,
        "messages work on host memory only");
  rondo_options_init(&options);
  options.memory = RONDO_MEMORY_CUDA;
  const rondo_code host_as_device = rondo_all_reduce(comm, in, out, 4, RONDO_FLOAT32, RONDO_SUM, &options, NULL);
  CHECK(host_as_device == RONDO_UNSUPPORTED || host_as_device == RONDO_INVALID_ARGUMENT);

  /* An asynchronous call with wrong arguments fails at once, and makes no work. */
  rondo_work* work = (rondo_work*)&options;
  FAILS(rondo_all_reduce_async(comm, in, out, 4, RONDO_BOOL, RONDO_PREMUL_SUM, NULL, &work, &error),
        RONDO_INVALID_ARGUMENT, "premul_sum");
  CHECK(work == NULL);
  CHECK(rondo_all_reduce(comm, in, out, 4, (rondo_dtype)0, RONDO_SUM, NULL, NULL) == RONDO_INVALID_ARGUMENT);

  /* None of these calls has started an operation, or has failed the communicator. */
  CHECK(rondo_comm_failure(comm, NULL) == RONDO_OK);
  MUST(rondo_all_reduce(comm, in, out, 4, RONDO_FLOAT32, RONDO_SUM, NULL, &error));
  CHECK(out[3] == 4 * (float)world);
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);

  rondo_connect_options connect;
  rondo_connect_options_init(&connect);
  connect.ports = "29599-29500";
  FAILS(rondo_connect(&connect, &comm, &error), RONDO_INVALID_ARGUMENT, "options.ports: expected FIRST-LAST");
  connect.ports = NULL;
  connect.transport = "pigeon";
  FAILS(rondo_connect(&connect, &comm, &error), RONDO_INVALID_ARGUMENT, "pigeon");
  CHECK(comm == NULL);
  rondo_bytes text = {&text, 1};
  FAILS(rondo_comm_describe(NULL, &text, &error), RONDO_INVALID_ARGUMENT, "comm");
  CHECK(text.data == NULL && text.size == 0);
  text = (rondo_bytes){&text, 1};
  FAILS(rondo_comm_records(NULL, "test", &text, &error), RONDO_INVALID_ARGUMENT, "comm");
  CHECK(text.data == NULL && text.size == 0);
  rondo_connect_options_init(&connect);
  connect.rendezvous = "carrier://";
  FAILS(rondo_connect(&connect, &comm, &error), RONDO_INVALID_ARGUMENT, "carrier");
}

static void headers_of_other_versions(int rank, int world, const char* url) {
  /* An older version of the struct, which had two fields. */
  struct {
    size_t size;
    uint64_t timeout_ms;
    int after;
  } old = {0, 0, 4711};
  rondo_options_init_sized((rondo_options*)&old, offsetof(rondo_options, algorithm));
  CHECK(old.after == 4711 && old.size == 16);
  old.timeout_ms = 20000;
  /* A newer version of the struct. */
  struct {
    rondo_options known;
    long later;
  } newer;
  rondo_options_init_sized(&newer.known, sizeof newer);
  CHECK(newer.later == 0 && newer.known.scale == 1);

  rondo_comm* comm = connect_ranks(rank, world, url);
  float value = 1;
  MUST(rondo_all_reduce(comm, &value, &value, 1, RONDO_FLOAT32, RONDO_SUM, (const rondo_options*)&old, &error));
  MUST(rondo_all_reduce(comm, &value, &value, 1, RONDO_FLOAT32, RONDO_SUM, &newer.known, &error));
  CHECK(value == (float)(world * world));
  newer.later = 1;
  FAILS(rondo_barrier(comm, &newer.known, &error), RONDO_UNSUPPORTED, "does not support");
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
}

static void messages(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  float in[N], out[N];
  rondo_message came;
  fill(in, N, (float)rank);
  const int next = (rank + 1) % world, before = (rank + world - 1) % world;
  MUST(rondo_send_recv(comm, in, N, next, 7, out, N, before, RONDO_ANY_TAG, RONDO_FLOAT32, NULL, &came, &error));
  CHECK(is_line(out, N, 1, (float)before));
  CHECK(came.source == before && came.tag == 7 && came.count == N && came.dtype == RONDO_FLOAT32);

  rondo_work *sending = NULL, *receiving = NULL;
  MUST(rondo_recv_async(comm, out, N, RONDO_FLOAT32, RONDO_ANY_RANK, 8, NULL, &receiving, &error));
  MUST(rondo_send_async(comm, in, 10, RONDO_FLOAT32, next, 8, NULL, &sending, &error));
  MUST(rondo_work_wait(receiving, &error));
  MUST(rondo_work_wait(sending, &error));
  CHECK(rondo_work_message(receiving, &came) == RONDO_OK && came.count == 10 && came.source == before);
  CHECK(rondo_work_message(sending, &came) == RONDO_NOT_READY);
  rondo_work_free(receiving);
  rondo_work_free(sending);

  /* The message has another type, so only this receive fails. */
  MUST(rondo_send_async(comm, in, 1, RONDO_INT32, next, 9, NULL, &sending, &error));
  FAILS(rondo_recv(comm, out, 1, RONDO_FLOAT32, before, 9, NULL, NULL, &error), RONDO_MISMATCH, "int32");
  rondo_work_free(sending);
  MUST(rondo_barrier(comm, NULL, &error));
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
}

static void count_call(void* user, const rondo_error* error) { *(int*)user += error == NULL ? 1 : 1000; }

static void works(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  float value = (float)rank, sum = 0;
  rondo_work* work = NULL;
  if (rank == 0) {
    MUST(rondo_all_reduce_async(comm, &value, &sum, 1, RONDO_FLOAT32, RONDO_SUM, NULL, &work, &error));
    /* The other ranks wait for a message that is sent below. */
    CHECK(rondo_work_test(work, NULL) == RONDO_NOT_READY);
    FAILS(rondo_work_wait_for(work, 20, &error), RONDO_NOT_READY, "");
    for (int to = 1; to < world; ++to) MUST(rondo_send(comm, &value, 1, RONDO_FLOAT32, to, 1, NULL, &error));
  } else {
    float from = 0;
    MUST(rondo_recv(comm, &from, 1, RONDO_FLOAT32, 0, 1, NULL, NULL, &error));
    MUST(rondo_all_reduce_async(comm, &value, &sum, 1, RONDO_FLOAT32, RONDO_SUM, NULL, &work, &error));
  }
  int calls = 0;
  MUST(rondo_work_then(work, count_call, &calls, &error));
  MUST(rondo_work_wait(work, &error));
  MUST(rondo_barrier(comm, NULL, &error));
  CHECK(sum == (float)(world * (world - 1) / 2));
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
  CHECK(calls == 1);
  /* A work may be used after its communicator was freed, because its operation is then final. */
  MUST(rondo_work_wait(work, &error));
  rondo_work_free(work);
}

/* Rank 1 continues after rank 0 has left, and receives what rank 0 has sent. */
static void leaving(int rank, int world, const char* url, const char* transport) {
  enum { MESSAGES = 50 };
  char gone[600];
  snprintf(gone, sizeof gone, "%s.gone", url + strlen("file://"));
  if (rank == 1) CHECK(mkfifo(gone, 0600) == 0);
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.rendezvous = url;
  options.rank = rank;
  options.world_size = world;
  options.interface_ = "lo";
  options.transport = transport;
  rondo_comm* comm = NULL;
  MUST(rondo_connect(&options, &comm, &error));
  float sum = 1, never = 0, values[N];
  MUST(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_FLOAT32, RONDO_SUM, NULL, &error));
  CHECK(sum == (float)world);
  /* Both ranks must make a lane now, because rank 1 makes no calls while rank 0 leaves. */
  if (rank == 0) MUST(rondo_send(comm, &sum, 1, RONDO_FLOAT32, 1, 2, NULL, &error));
  if (rank == 1) MUST(rondo_recv(comm, &sum, 1, RONDO_FLOAT32, 0, 2, NULL, NULL, &error));
  if (rank == 0) {
    rondo_work* unanswered = NULL;
    MUST(rondo_recv_async(comm, &never, 1, RONDO_FLOAT32, 1, 4, NULL, &unanswered, &error));
    for (int i = 0; i < MESSAGES; ++i) {
      fill(values, N, (float)i);
      MUST(rondo_send(comm, values, N, RONDO_FLOAT32, 1, 3, NULL, &error));
    }
    MUST(rondo_comm_leave(comm, 10, &error));
    FAILS(rondo_work_wait(unanswered, &error), RONDO_CLOSED, "rank 0 closed before the receive");
    rondo_work_free(unanswered);
    rondo_comm_free(comm);
    const int end = open(gone, O_WRONLY); /* returns when rank 1 has opened it */
    CHECK(end >= 0);
    close(end);
    return;
  }
  const int end = open(gone, O_RDONLY);
  CHECK(end >= 0);
  close(end);
  unlink(gone);
  for (int i = 0; i < MESSAGES; ++i) {
    MUST(rondo_recv(comm, values, N, RONDO_FLOAT32, 0, 3, NULL, NULL, &error));
    CHECK(is_line(values, N, 1, (float)i));
  }
  FAILS(rondo_recv(comm, values, N, RONDO_FLOAT32, 0, 3, NULL, NULL, &error), RONDO_CLOSED, "rank 0 closed");
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
}

static void leaving_in_memory(int rank, int world, const char* url) { leaving(rank, world, url, "shm"); }
static void leaving_over_tcp(int rank, int world, const char* url) { leaving(rank, world, url, "tcp"); }

/* Returns on rank `last` when all ranks have called it; on the other ranks at once. */
static void tell_when_all_are_here(rondo_comm* comm, int32_t last) {
  int32_t ready = 1;
  if (rondo_comm_rank(comm) != last) {
    MUST(rondo_send(comm, &ready, 1, RONDO_INT32, last, 0, NULL, &error));
    return;
  }
  for (int others = 1; others < rondo_comm_world_size(comm); ++others)
    MUST(rondo_recv(comm, &ready, 1, RONDO_INT32, RONDO_ANY_RANK, 0, NULL, NULL, &error));
}

static void parts_and_aborts(int rank, int world, const char* url) {
  rondo_comm *comm = connect_ranks(rank, world, url), *part = NULL;
  MUST(rondo_comm_split(comm, rank == 0 ? -1 : 5, -rank, &part, &error));
  CHECK((part == NULL) == (rank == 0));
  if (part != NULL) {
    CHECK(rondo_comm_world_size(part) == world - 1 && rondo_comm_rank(part) == world - 1 - rank);
    int64_t value = 1;
    MUST(rondo_all_reduce(part, &value, &value, 1, RONDO_INT64, RONDO_SUM, NULL, &error));
    CHECK(value == world - 1);
    MUST(rondo_comm_close(part, &error));
    rondo_comm_free(part);
  }
  CHECK(rondo_comm_local_size(comm) == world && rondo_comm_local_rank(comm) == rank);
  CHECK(strlen(rondo_comm_host(comm, 0)) > 0 && strcmp(rondo_comm_host(comm, world), "") == 0);
  rondo_work* barrier = NULL; /* the barrier begins before rank 1 aborts, so that the error names the barrier */
  if (rank != 1) MUST(rondo_barrier_async(comm, NULL, &barrier, &error));
  tell_when_all_are_here(comm, 1);
  if (rank == 1) {
    rondo_comm_abort(comm, "the loss is NaN");
    FAILS(rondo_barrier(comm, NULL, &error), RONDO_ABORTED, "the loss is NaN");
  } else {
    rondo_error* error = NULL;
    CHECK(rondo_work_wait(barrier, &error) == RONDO_PEER_ABORTED);
    rondo_work_free(barrier);
    CHECK(error->culprit == 1 && error->rank == rank && strstr(error->text, "the loss is NaN"));
    CHECK(strcmp(error->host, rondo_comm_host(comm, 1)) == 0 && strstr(error->collective, "barrier"));
    rondo_error_free(error);
    CHECK(rondo_comm_failure(comm, &error) == RONDO_PEER_ABORTED);
    rondo_error_free(error);
  }
  rondo_comm_free(comm);
}

static void going_on_without_a_rank(int rank, int world, const char* url) {
  rondo_comm *comm = connect_ranks(rank, world, url), *next = NULL;
  int32_t value = 1;
  MUST(rondo_all_reduce(comm, &value, &value, 1, RONDO_INT32, RONDO_SUM, NULL, &error));
  tell_when_all_are_here(comm, 1);
  if (rank == 1) raise(SIGKILL);
  rondo_error* error = NULL;
  rondo_code code = RONDO_OK;
  while (code == RONDO_OK) code = rondo_all_reduce(comm, &value, &value, 1, RONDO_INT32, RONDO_MAX, NULL, &error);
  CHECK(code == RONDO_PEER_LOST && error->culprit == 1 && strlen(error->host) > 0);
  rondo_error_free(error);
  rondo_rebuild_options options;
  rondo_rebuild_options_init(&options);
  options.min_ranks = world - 1;
  MUST(rondo_comm_rebuild(comm, &options, &next, &error));
  rondo_comm_free(comm);
  CHECK(rondo_comm_world_size(next) == world - 1 && rondo_comm_generation(next) == 1);
  CHECK(rondo_comm_old_rank(next, rondo_comm_rank(next)) == rank);
  value = 1;
  MUST(rondo_all_reduce(next, &value, &value, 1, RONDO_INT32, RONDO_SUM, NULL, &error));
  CHECK(value == world - 1);
  MUST(rondo_comm_close(next, &error));
  rondo_comm_free(next);
}

static void take_later(void* user, const void* left, const void* right, void* output, size_t elements,
                       rondo_dtype dtype) {
  ++*(int*)user;
  (void)left;
  if (dtype == RONDO_INT32) memmove(output, right, elements * sizeof(int32_t));
}

static void operations_and_memory(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  int calls = 0;
  rondo_op last = 0;
  MUST(rondo_comm_define_op(comm, "last", 0, take_later, &calls, &last, &error));
  int32_t value = rank, got = -1;
  MUST(rondo_all_reduce(comm, &value, &got, 1, RONDO_INT32, last, NULL, &error));
  CHECK(got == world - 1);

  rondo_options options;
  rondo_options_init(&options);
  options.scale = 0.5;
  options.algorithm = "ring";
  float half = 2;
  MUST(rondo_all_reduce(comm, &half, &half, 1, RONDO_FLOAT32, RONDO_PREMUL_SUM, &options, &error));
  CHECK(half == (float)world);

  rondo_memory *memory = NULL, *registered = NULL;
  void* data = NULL;
  MUST(rondo_comm_allocate(comm, 1 << 20, &memory, &data, &error));
  memset(data, 1, 1 << 20);
  MUST(rondo_all_reduce(comm, data, data, 1 << 20, RONDO_UINT8, RONDO_SUM, NULL, &error));
  CHECK(((unsigned char*)data)[(1 << 20) - 1] == world);
  if (rondo_comm_register(comm, &value, sizeof value, &registered, NULL) == RONDO_OK) rondo_memory_free(registered);

  rondo_bytes text = {NULL, 0};
  MUST(rondo_comm_describe(comm, &text, &error));
  CHECK(strlen(text.data) == text.size && strstr(text.data, "rank"));
  rondo_bytes_free(&text);
  CHECK(text.data == NULL);
  MUST(rondo_comm_records(comm, "test", &text, &error));
  CHECK(strstr(text.data, "all_reduce"));
  rondo_bytes_free(&text);
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);
  rondo_memory_free(memory);
}

static rondo_store* open_store(const char* url) {
  rondo_store_options options;
  rondo_store_options_init(&options);
  options.url = url;
  rondo_store* store = NULL;
  MUST(rondo_store_open(&options, &store, &error));
  return store;
}

enum { TENSORS = 300 };

static void fusion(int rank, int world, const char* url) {
  rondo_comm* comm = connect_ranks(rank, world, url);
  rondo_fusion_options options;
  rondo_fusion_options_init(&options);
  CHECK(options.bucket_bytes == 4 << 20 && options.buckets == 4 && options.operation == NULL);
  rondo_fusion* fusion = NULL;
  FAILS(rondo_fusion_create(NULL, &options, &fusion, &error), RONDO_INVALID_ARGUMENT, "comm is NULL");
  options.bucket_bytes = 0;
  FAILS(rondo_fusion_create(comm, &options, &fusion, &error), RONDO_INVALID_ARGUMENT, "bucket_bytes");
  CHECK(fusion == NULL);
  options.bucket_bytes = 1024;
  rondo_options operation;
  rondo_options_init(&operation);
  operation.algorithm = "circle";
  options.operation = &operation;
  FAILS(rondo_fusion_create(comm, &options, &fusion, &error), RONDO_INVALID_ARGUMENT, "circle");
  operation.algorithm = "ring";
  MUST(rondo_fusion_create(comm, &options, &fusion, &error));

  /* Tensor t has t % 7 floats; every fiftieth tensor is larger than a bucket. */
  static float in[TENSORS][N], out[TENSORS][N];
  const float w = (float)world, ranks = w * (w - 1) / 2;
  for (int step = 0; step < 3; ++step) {
    for (int t = 0; t < TENSORS; ++t) {
      const int count = t % 50 == 0 ? N : t % 7;
      fill(in[t], N, (float)(rank + t));
      fill(out[t], N, (float)(rank + t));
      MUST(rondo_fusion_await_room(fusion, 20000, &error));
      MUST(rondo_fusion_add(fusion, t % 2 == 0 ? in[t] : out[t], out[t], (uint64_t)count, RONDO_FLOAT32, RONDO_SUM, 1,
                            &error));
      if (t == TENSORS / 2) MUST(rondo_fusion_flush(fusion, &error));
    }
    FAILS(rondo_fusion_add(fusion, in, out, 1, RONDO_BOOL, RONDO_SUM, 1, &error), RONDO_INVALID_ARGUMENT, "bool");
    FAILS(rondo_fusion_add(fusion, NULL, out, 1, RONDO_INT8, RONDO_SUM, 1, &error), RONDO_INVALID_ARGUMENT, "input");
    FAILS(rondo_fusion_add(fusion, in, out, 1, RONDO_INT8, 77, 1, &error), RONDO_INVALID_ARGUMENT, "77");
    if (step == 0) MUST(rondo_fusion_wait(fusion, &error));
    if (step > 0) MUST(rondo_fusion_wait_for(fusion, 20000, &error));
    for (int t = 0; t < TENSORS; ++t) {
      const int count = t % 50 == 0 ? N : t % 7;
      CHECK(is_line(out[t], count, w, ranks + w * (float)t));
      CHECK(count == N || out[t][count] == (float)(rank + t + count)); /* nothing was written beyond the end of the
                                                                        * tensor */
    }
  }
  float half = 2, quarter = 4;
  MUST(rondo_fusion_add(fusion, &half, &half, 1, RONDO_FLOAT32, RONDO_PREMUL_SUM, 0.5, &error));
  MUST(rondo_fusion_add(fusion, &quarter, &quarter, 1, RONDO_FLOAT32, RONDO_PREMUL_SUM, 0.25, &error));
  MUST(rondo_fusion_wait(fusion, &error));
  CHECK(half == w && quarter == w);

  /* If a rank dies, all tensors that were added fail with the same error. */
  tell_when_all_are_here(comm, 1);
  if (rank == 1) raise(SIGKILL);
  rondo_error* error = NULL;
  rondo_code code = RONDO_OK;
  while (code == RONDO_OK) {
    for (int t = 0; t < TENSORS && code == RONDO_OK; ++t)
      code = rondo_fusion_add(fusion, out[t], out[t], 7, RONDO_FLOAT32, RONDO_MAX, 1, &error);
    if (code == RONDO_OK) code = rondo_fusion_wait(fusion, &error);
  }
  CHECK(code == RONDO_PEER_LOST && error->culprit == 1 && strlen(error->host) > 0);
  rondo_error_free(error);
  FAILS(rondo_fusion_wait(fusion, &error), RONDO_PEER_LOST, "rank 1");
  FAILS(rondo_fusion_add(fusion, out, out, 1, RONDO_FLOAT32, RONDO_MAX, 1, &error), RONDO_PEER_LOST, "rank 1");
  rondo_comm_free(comm);
  rondo_fusion_free(fusion);
}

static void stores(int rank, int world, const char* url) {
  rondo_store* store = open_store(url);
  rondo_bytes value = {NULL, 0};
  int64_t sum = 0;
  int yes = 0;
  MUST(rondo_store_get(store, "absent", &value, &yes, 5000, &error));
  CHECK(!yes && value.data == NULL);
  FAILS(rondo_store_wait(store, "absent", &value, 1000, &error), RONDO_STORE_TIMEOUT, "absent");
  if (rank == 0) MUST(rondo_store_set(store, "binary", "a\0b", 3, 5000, &error));
  MUST(rondo_store_wait(store, "binary", &value, 20000, &error));
  CHECK(value.size == 3 && memcmp(value.data, "a\0b", 4) == 0);
  rondo_bytes_free(&value);
  MUST(rondo_store_add(store, "arrived", 1, &sum, 5000, &error));
  CHECK(sum >= 1 && sum <= world);
  /* Exactly one rank sets the key. */
  MUST(rondo_store_compare_set(store, "leader", NULL, 0, &rank, sizeof rank, &yes, &value, 5000, &error));
  CHECK(value.size == sizeof rank && yes == (memcmp(value.data, &rank, sizeof rank) == 0));
  MUST(rondo_store_add(store, "tried", 1, &sum, 5000, &error));
  if (yes) {
    CHECK(value.size == sizeof rank);
    while (sum < world) MUST(rondo_store_add(store, "tried", 0, &sum, 5000, &error)); /* until all ranks have tried */
    MUST(rondo_store_compare_set(store, "leader", value.data, value.size, "x", 1, &yes, NULL, 5000, &error));
    CHECK(yes);
    MUST(rondo_store_remove(store, "leader", &yes, 5000, &error));
    CHECK(yes);
    MUST(rondo_store_remove(store, "leader", &yes, 5000, &error));
    CHECK(!yes);
    MUST(rondo_store_set(store, "leader", "gone", 4, 5000, &error));
  }
  rondo_bytes_free(&value);
  FAILS(rondo_store_set(store, "", "", 0, 5000, &error), RONDO_INVALID_ARGUMENT, "");
  FAILS(rondo_store_add(store, "binary", 1, &sum, 5000, &error), RONDO_INVALID_ARGUMENT, "binary");
  rondo_store_free(store);
}

/* A port of the loopback interface. It stays bound, so no other process gets it. A server that sets SO_REUSEADDR can
 * still listen on it. */
static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  CHECK(bind(fd, (struct sockaddr*)&address, bytes) == 0);
  CHECK(getsockname(fd, (struct sockaddr*)&address, &bytes) == 0);
  return ntohs(address.sin_port);
}

static void a_store_that_speaks_tls(int rank, int world, const char* url) {
  setenv("RONDO_TLS_PSK", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
  rondo_store* beside = open_store(url);
  char tcp[64];
  if (rank == 0) snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", free_port());
  rondo_store_options options;
  rondo_store_options_init(&options);
  options.url = tcp;
  options.timeout_ms = 20000;
  options.serve = rank == 0;
  rondo_store* store = NULL;
  if (rank == 0) {
    setenv("RONDO_TLS", "wool", 1);
    FAILS(rondo_store_open(&options, &store, &error), RONDO_INVALID_ARGUMENT, "RONDO_TLS");
    setenv("RONDO_TLS", "psk", 1);
    MUST(rondo_store_open(&options, &store, &error));
    MUST(rondo_store_set(beside, "url", tcp, strlen(tcp), 5000, &error));
  } else {
    rondo_bytes served = {NULL, 0};
    MUST(rondo_store_wait(beside, "url", &served, 20000, &error));
    snprintf(tcp, sizeof tcp, "%s", (const char*)served.data);
    rondo_bytes_free(&served);
    /* Without TLS the store cannot be opened. */
    FAILS(rondo_store_open(&options, &store, &error), RONDO_AUTH, "TLS");
    setenv("RONDO_TLS", "psk", 1);
    MUST(rondo_store_open(&options, &store, &error));
  }
  int64_t sum = 0;
  MUST(rondo_store_add(store, "here", 1, &sum, 5000, &error));
  while (sum < world) MUST(rondo_store_add(store, "here", 0, &sum, 5000, &error));
  if (rank != 0) rondo_store_free(store);
  MUST(rondo_store_add(beside, "left", 1, &sum, 5000, &error));
  /* Rank 0 serves the store. */
  while (rank == 0 && sum < world) MUST(rondo_store_add(beside, "left", 0, &sum, 5000, &error));
  if (rank == 0) rondo_store_free(store);
  rondo_store_free(beside);
}

/* Tests a store that the program provides as functions. Here the functions use a store of Rondo. */
static int complain(rondo_error* error, char* why, size_t why_bytes) {
  snprintf(why, why_bytes, "%s", error->text);
  rondo_error_free(error);
  return 1;
}
static int own_set(void* user, const char* key, const void* value, size_t bytes, char* why, size_t why_bytes) {
  rondo_error* error = NULL;
  return rondo_store_set(user, key, value, bytes, 5000, &error) ? complain(error, why, why_bytes) : 0;
}
static int own_get(void* user, const char* key, void (*take)(void*, const void*, size_t), void* to, char* why,
                   size_t why_bytes) {
  rondo_error* error = NULL;
  rondo_bytes value = {NULL, 0};
  int found = 0;
  if (rondo_store_get(user, key, &value, &found, 5000, &error)) return complain(error, why, why_bytes);
  if (found) take(to, value.data, value.size);
  rondo_bytes_free(&value);
  return 0;
}
static int own_add(void* user, const char* key, int64_t delta, int64_t* sum, char* why, size_t why_bytes) {
  rondo_error* error = NULL;
  return rondo_store_add(user, key, delta, sum, 5000, &error) ? complain(error, why, why_bytes) : 0;
}
static int own_compare_set(void* user, const char* key, const void* expected, size_t expected_bytes,
                           const void* desired, size_t desired_bytes, int* swapped,
                           void (*take)(void*, const void*, size_t), void* to, char* why, size_t why_bytes) {
  rondo_error* error = NULL;
  rondo_bytes current = {NULL, 0};
  if (rondo_store_compare_set(user, key, expected, expected_bytes, desired, desired_bytes, swapped, &current, 5000,
                              &error))
    return complain(error, why, why_bytes);
  take(to, current.data, current.size);
  rondo_bytes_free(&current);
  return 0;
}
static int broken_set(void* user, const char* key, const void* value, size_t bytes, char* why, size_t why_bytes) {
  (void)user, (void)key, (void)value, (void)bytes;
  snprintf(why, why_bytes, "the disk is full");
  return 1;
}

static void a_store_of_the_programs_own(int rank, int world, const char* url) {
  rondo_store_callbacks functions = {.size = sizeof functions,
                                     .user = open_store(url),
                                     .name = "a wrapped store",
                                     .set = own_set,
                                     .get = own_get,
                                     .add = own_add,
                                     .compare_set = own_compare_set};
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.store = &functions;
  options.interface_ = "lo";
  options.timeout_ms = 20000;
  rondo_comm* comm = NULL;
  FAILS(rondo_connect(&options, &comm, &error), RONDO_INVALID_ARGUMENT, "rank");
  options.rank = rank;
  options.world_size = world;
  functions.compare_set = NULL;
  FAILS(rondo_connect(&options, &comm, &error), RONDO_INVALID_ARGUMENT, "compare_set");
  functions.compare_set = own_compare_set;

  MUST(rondo_connect(&options, &comm, &error));
  int32_t value = 1;
  MUST(rondo_all_reduce(comm, &value, &value, 1, RONDO_INT32, RONDO_SUM, NULL, &error));
  CHECK(value == world);
  MUST(rondo_comm_close(comm, &error));
  rondo_comm_free(comm);

  /* A communicator of only some of a job's ranks needs the numbers of these ranks in the job. */
  const int32_t job_ranks[] = {11, 13, 17, 19};
  options.generation = 3;
  options.group = "tp";
  FAILS(rondo_connect(&options, &comm, &error), RONDO_INVALID_ARGUMENT, "job_ranks");
  options.job_ranks = job_ranks;
  MUST(rondo_connect(&options, &comm, &error));
  FAILS(rondo_send(comm, NULL, 0, RONDO_UINT8, 99, 0, NULL, &error), RONDO_INVALID_ARGUMENT, "rank 99 of group tp");
  MUST(rondo_comm_close(comm, &error));
  FAILS(rondo_barrier(comm, NULL, &error), RONDO_CLOSED, rank == 0 ? "rank 11 (rank 0 of group tp)" : "of group tp)");
  rondo_comm_free(comm);
  options.group = NULL;
  options.generation = 0;

  /* The error names a rank that does not connect, and contains the text of an error in the store. */
  options.generation = 1;
  options.timeout_ms = 500;
  if (rank == 0) FAILS(rondo_connect(&options, &comm, &error), RONDO_RENDEZVOUS_TIMEOUT, "rank 1");
  options.generation = 2;
  functions.set = broken_set;
  functions.get = NULL;
  FAILS(rondo_connect(&options, &comm, &error), RONDO_INVALID_ARGUMENT, "get");
  rondo_store_free(functions.user);
}

static int releases = 0;
static void count_release(void* user) {
  (void)user;
  ++releases;
}

/* The last rank refuses a call and leaves before the other ranks have connected to it. */
static void a_store_that_is_kept_tells_that_a_rank_has_left(int rank, int world, const char* url) {
  rondo_store* const store = open_store(url);
  rondo_store_callbacks functions = {.size = sizeof functions,
                                     .user = store,
                                     .name = "a wrapped store",
                                     .set = own_set,
                                     .get = own_get,
                                     .add = own_add,
                                     .compare_set = own_compare_set,
                                     .release = count_release};
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.store = &functions;
  options.interface_ = "lo";
  options.transport = "tcp";
  options.timeout_ms = 20000;
  rondo_comm* comm = NULL;
  FAILS(rondo_connect(&options, &comm, &error), RONDO_INVALID_ARGUMENT, "rank");
  CHECK(releases == 1);
  options.rank = rank;
  options.world_size = world;
  MUST(rondo_connect(&options, &comm, &error));
  CHECK(releases == 1);
  int64_t sum = 0;
  rondo_bytes value = {NULL, 0};
  if (rank == world - 1) {
    rondo_comm_note_refusal(comm, "a call that is wrong");
    MUST(rondo_comm_leave(comm, 0, &error));
    rondo_comm_free(comm);
    MUST(rondo_store_set(store, "it is gone", "", 0, 5000, &error));
  } else {
    MUST(rondo_store_wait(store, "it is gone", &value, 20000, &error));
    rondo_bytes_free(&value);
    int32_t one = 1;
    FAILS(rondo_all_reduce(comm, &one, &one, 1, RONDO_INT32, RONDO_SUM, NULL, &error), RONDO_MISMATCH,
          "refused a call of its program (a call that is wrong)");
    rondo_comm_free(comm);
  }
  CHECK(releases == 2);
  MUST(rondo_store_add(store, "over", 1, &sum, 5000, &error)); /* the file must not be removed while a rank uses it */
  while (sum < world) MUST(rondo_store_add(store, "over", 0, &sum, 5000, &error));
  rondo_store_free(store);
}

static void a_rendezvous_without_a_communicator(int rank, int world, const char* url) {
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.rendezvous = url;
  options.interface_ = "lo";
  options.rank = rank;
  options.world_size = world;
  options.timeout_ms = 20000;
  rondo_store* store = NULL;
  int32_t own_rank = -1;
  int32_t world_size = 0;
  options.join = 1;
  FAILS(rondo_rendezvous(&options, &store, &own_rank, &world_size, &error), RONDO_INVALID_ARGUMENT, "joiner");
  options.join = 0;
  FAILS(rondo_rendezvous(&options, &store, NULL, &world_size, &error), RONDO_INVALID_ARGUMENT, "rank");
  MUST(rondo_rendezvous(&options, &store, &own_rank, &world_size, &error));
  CHECK(own_rank == rank && world_size == world);
  char key[16];
  snprintf(key, sizeof key, "from %d", rank);
  MUST(rondo_store_set(store, key, key, strlen(key), 5000, &error));
  for (int of = 0; of < world; ++of) {
    rondo_bytes value = {NULL, 0};
    snprintf(key, sizeof key, "from %d", of);
    MUST(rondo_store_wait(store, key, &value, 20000, &error));
    CHECK(strcmp(value.data, key) == 0);
    rondo_bytes_free(&value);
  }
  rondo_store_free(store);
  /* Uses another store, because the other ranks may still use this store, and a store has only one generation at a
   * time. */
  char elsewhere[512];
  snprintf(elsewhere, sizeof elsewhere, "%s.alone", url);
  options.rendezvous = elsewhere;
  options.timeout_ms = 500;
  if (rank == 0)
    FAILS(rondo_rendezvous(&options, &store, &own_rank, &world_size, &error), RONDO_RENDEZVOUS_TIMEOUT, "rank 1");
}

int main(void) {
  if (strcmp(rondo_version(), "0.1.0") != 0 || strcmp(rondo_code_name(RONDO_PEER_LOST), "peer_lost") != 0 ||
      strcmp(rondo_code_name((rondo_code)99), "unknown") != 0 || rondo_dtype_size(RONDO_BFLOAT16) != 2 ||
      rondo_dtype_size((rondo_dtype)12) != 0) {
    fprintf(stderr, "versions, names or sizes are wrong\n");
    return 1;
  }
  rondo_error_free(NULL);
  rondo_comm_free(NULL);
  rondo_work_free(NULL);
  rondo_store_free(NULL);
  rondo_memory_free(NULL);
  rondo_fusion_free(NULL);
  rondo_bytes_free(NULL);
  for (int world = 1; world <= 4; ++world) {
    if (world > 1) on_ranks("every collective, blocking and asynchronous", world, -1, every_collective);
  }
  on_ranks("wrong arguments are reported and fail nothing else", 2, -1, wrong_arguments);
  on_ranks("options of older and newer headers", 2, -1, headers_of_other_versions);
  on_ranks("messages", 3, -1, messages);
  on_ranks("works: not ready, called back, final beyond the communicator", 3, -1, works);
  on_ranks("a rank leaves before the others, which get what it has sent", 2, -1, leaving_in_memory);
  on_ranks("the same over TCP", 2, -1, leaving_over_tcp);
  on_ranks("parts, places and aborts", 3, -1, parts_and_aborts);
  on_ranks("a killed rank is named, and the others go on without it", 3, 1, going_on_without_a_rank);
  on_ranks("operations and memory", 3, -1, operations_and_memory);
  on_ranks("fusion of small all-reduces, and a rank that is killed amid them", 3, 1, fusion);
  on_ranks("stores", 3, -1, stores);
  on_ranks("a store that speaks TLS, and who does not", 3, -1, a_store_that_speaks_tls);
  on_ranks("a rendezvous through a store of the program's own", 2, -1, a_store_of_the_programs_own);
  on_ranks("a store that is kept tells that a rank has left", 3, -1, a_store_that_is_kept_tells_that_a_rank_has_left);
  on_ranks("a rendezvous without a communicator", 3, -1, a_rendezvous_without_a_communicator);
  return 0;
}
