/* Rondo's C interface: collective communication for programs in any language. C11, and C++ as it is.
 *
 *   rondo_connect_options where;
 *   rondo_connect_options_init(&where);                       // env://, as torchrun, mpirun and rondo run leave it
 *   rondo_comm* comm = NULL;
 *   rondo_error* error = NULL;
 *   if (rondo_connect(&where, &comm, &error) != RONDO_OK ||
 *       rondo_all_reduce(comm, in, out, count, RONDO_FLOAT32, RONDO_SUM, NULL, &error) != RONDO_OK) {
 *     fprintf(stderr, "%s\n", error->text);                   // names the rank, the host and the address at fault
 *     rondo_error_free(error);
 *   }
 *   rondo_comm_free(comm);
 *
 * Results: every call that can fail returns RONDO_OK or a code, and then, where `error` is not NULL, hands an error
 * over in *error: the caller's, to free by rondo_error_free. After RONDO_OK *error is NULL. What a call makes
 * (communicators, works, stores, bytes) is the caller's too, and is set only by RONDO_OK, to NULL else.
 *
 * Options: structs begin with their size, which rondo_..._options_init fills in with the defaults: so programs compiled
 * against an older header go on with a newer library. Where options may be NULL, that is the defaults.
 *
 * Text: UTF-8, ends with a zero, lent until the call returns. NULL where nothing is to be said.
 *
 * Order: all ranks issue the same collectives of a communicator in the same order. They are serial: back-to-back
 * operations on one buffer are well-defined. Independent streams take a communicator of their own (rondo_comm_split).
 *
 * Buffers: lent until the call (or rondo_work_wait, or the callback) returns final, success or error. Host memory of
 * any alignment; input and output must not overlap, except in place, as each collective says. After an error the output
 * is undefined and an out-of-place input intact. Buffers without elements may be NULL.
 *
 * Counts: elements, of one block where a buffer holds a block per rank: with W ranks, W * count elements lie there,
 * packed in rank order. The _v forms have an array of W counts instead, lent until the call returns.
 *
 * Threads: one thread at a time issues collectives of a communicator. Any thread may wait, test, abort, send and
 * receive. Whoever waits drives; a progress thread of Rondo's drives what nobody waits for.
 *
 * Errors: what a call itself gets wrong (RONDO_INVALID_ARGUMENT, RONDO_UNSUPPORTED) starts nothing, and the
 * communicator goes on. A failed operation fails the communicator on all its ranks: every later call returns the first
 * cause.
 *
 * Fork: a child of fork() must not use what its parent made; it may connect anew.
 */
#ifndef RONDO_H_
#define RONDO_H_

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): this is C */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_API __attribute__((visibility("default")))

/* The version of the library that runs, "0.1.0"; static. */
RONDO_API const char* rondo_version(void);

/* ---- errors ---- */

/* Numbers are never changed; new ones are appended. This and the other enumerations are numbers of a known width. */
typedef int32_t rondo_code;
enum {
  RONDO_OK = 0,
  RONDO_INVALID_ARGUMENT = 1,     /* the call makes no sense; nothing was started, nothing else fails */
  RONDO_UNSUPPORTED = 2,          /* a capability that this build or machine lacks */
  RONDO_NOT_READY = 3,            /* a wait ended before its operation, which goes on */
  RONDO_TIMEOUT = 4,              /* a deadline passed; the text says who is missing */
  RONDO_PEER_LOST = 5,            /* a rank died */
  RONDO_CONNECTION_RESET = 6,     /* a connection broke while its rank lives */
  RONDO_UNREACHABLE = 7,          /* no address of a rank could be connected to */
  RONDO_PROTOCOL = 8,             /* bytes on a wire that no Rondo of this version sends */
  RONDO_MISMATCH = 9,             /* ranks disagree about an operation; the text has both */
  RONDO_VERSION_MISMATCH = 10,    /* ranks run versions or options that cannot work together */
  RONDO_DUPLICATE_RANK = 11,      /* two processes claim one rank */
  RONDO_WORLD_SIZE_MISMATCH = 12, /* processes disagree about the number of ranks */
  RONDO_RENDEZVOUS_TIMEOUT = 13,  /* not everybody came in time; the text says who did not */
  RONDO_STALE = 14,               /* left over from an earlier run or generation */
  RONDO_STORE_LOST = 15,          /* the store's connection broke */
  RONDO_STORE_TIMEOUT = 16,       /* the store did not answer, or a key did not appear, in time */
  RONDO_STORE_IO = 17,            /* a file store's file could not be used */
  RONDO_ADDRESS_IN_USE = 18,      /* a port is taken */
  RONDO_RESOURCE = 19,            /* a limit of the system or of options */
  RONDO_OUT_OF_MEMORY = 20,
  RONDO_CORRUPT = 21,      /* a checksum did not match */
  RONDO_AUTH = 22,         /* somebody could not prove to belong to the job */
  RONDO_ABORTED = 23,      /* rondo_comm_abort was called on this rank */
  RONDO_PEER_ABORTED = 24, /* ... on another one */
  RONDO_CLOSED = 25,       /* used after rondo_comm_close, or a peer closed while it was needed */
  RONDO_INTERNAL = 26,     /* a fault of Rondo itself */
  RONDO_REBUILD_FAILED = 27,
  RONDO_DEVICE = 28 /* a GPU or its driver failed; the text says what the driver said */
};

/* "peer_lost"; static. Of an unknown number "unknown". */
RONDO_API const char* rondo_code_name(rondo_code code);

/* Made by the library only. No text is NULL; those that say nothing are "". */
typedef struct rondo_error {
  rondo_code code;
  int32_t rank;      /* that reports; -1: none */
  int32_t culprit;   /* that caused it, where known; else -1. Numbers of the communicator; text has the job's */
  int64_t step;      /* of this rank's schedule; -1: none */
  uint64_t sequence; /* of the operation, from 1; 0: none */
  uint64_t bytes_done;
  uint64_t bytes_due; /* of that step */
  const char* text;   /* all of it, in one or more lines: what to show to people */
  const char* message;
  const char* host;       /* of the culprit */
  const char* address;    /* of the culprit, or that failed */
  const char* interface_; /* the local network interface */
  const char* collective; /* "all_reduce float32 x 1000 sum" */
  const char* first_cause;
} rondo_error;

/* NULL is nothing to free. */
RONDO_API void rondo_error_free(rondo_error* error);

/* ---- types and operations ---- */

typedef int32_t rondo_dtype;
enum {
  RONDO_INT8 = 1,
  RONDO_UINT8 = 2,
  RONDO_INT32 = 3,
  RONDO_UINT32 = 4,
  RONDO_INT64 = 5,
  RONDO_UINT64 = 6,
  RONDO_FLOAT16 = 7,  /* IEEE 754 binary16 */
  RONDO_BFLOAT16 = 8, /* the upper half of a binary32 */
  RONDO_FLOAT32 = 9,
  RONDO_FLOAT64 = 10,
  RONDO_BOOL = 11 /* one byte; 0 is false, everything else true; results are 0 or 1 */
};

/* Bytes of an element; 0: no such type. */
RONDO_API size_t rondo_dtype_size(rondo_dtype dtype);

/* Or a number that rondo_comm_define_op gave. */
typedef int32_t rondo_op;
enum {
  RONDO_SUM = 1, /* integers wrap */
  RONDO_PROD = 2,
  RONDO_MIN = 3, /* a NaN gives NaN; -0 is below +0 */
  RONDO_MAX = 4,
  RONDO_AVG = 5, /* the sum, divided once at the end; integers round towards zero. Right where it fits the type,
                    although the sum does not */
  RONDO_BAND = 6,
  RONDO_BOR = 7,
  RONDO_BXOR = 8,      /* bitwise on integers, logical on bool */
  RONDO_PREMUL_SUM = 9 /* the sum of options->scale * operand, each rank its own; floating types */
};

enum { RONDO_ANY_RANK = -2, RONDO_ANY_TAG = -1 };

/* Yes, no, or what stands one level above: an operation's options above the communicator's. */
typedef int32_t rondo_choice;
enum { RONDO_AS_ABOVE = 0, RONDO_YES = 1, RONDO_NO = 2 };

/* Where buffers lie. RONDO_MEMORY_CUDA is memory of a GPU, the same one for all operations of a communicator on this
 * rank. Where there is none to be reached (no driver, no GPU, a build without CUDA) the answer is RONDO_UNSUPPORTED,
 * with the reason. It is for collectives: messages go from and to the host's memory. */
typedef int32_t rondo_memory_kind;
enum { RONDO_MEMORY_HOST = 0, RONDO_MEMORY_CUDA = 1 };

/* Of one operation. */
typedef struct rondo_options {
  size_t size;
  uint64_t timeout_ms;        /* from the call on; 0: the communicator's */
  const char* algorithm;      /* "ring", "tree" ...: rondo explain lists them; NULL: the fastest. Equal on all ranks */
  double scale;               /* of RONDO_PREMUL_SUM, default 1 */
  rondo_choice reproducible;  /* the left fold in rank order, whatever the algorithm. Equal on all ranks */
  rondo_choice wide_partials; /* 16-bit floats travel as float32 and round once, as averages of float16 always do.
                                 Equal on all ranks */
  rondo_choice compare_results; /* ranks compare what they got. Equal on all ranks */
  rondo_memory_kind memory;     /* of all its buffers. Equal on all ranks */
  /* A cudaStream_t, of RONDO_MEMORY_CUDA: the operation comes after all that is on it when it is called, and what is
   * put there later waits for the operation. Nothing else does, and nobody need wait for the work. NULL: the default
   * stream. After an error the stream goes on. Of a stream that is being captured the operation becomes part of the
   * CUDA graph, where all ranks are on one host and their GPUs reach each other's memory, else RONDO_UNSUPPORTED.
   * Every rank captures the same and launches it in the same order, never two of a communicator at once; the
   * communicator and the buffers must live as long as any rank's launch may be under way, and rondo_comm_failure tells
   * whether one has failed. */
  void* stream;
  /* RONDO_NO: what is put on the stream later does not wait, and who wants the result waits for the work. A stream that
   * waits needs a thread of this process: what the driver does while it waits itself for that stream, as when it loads
   * a kernel, perhaps ends only when the operation has failed at its timeout (docs/GOTCHAS.md). RONDO_AS_ABOVE: it
   * waits. */
  rondo_choice stream_waits;
} rondo_options;

RONDO_API void rondo_options_init_sized(rondo_options* options, size_t size);
static inline void rondo_options_init(rondo_options* options) { rondo_options_init_sized(options, sizeof *options); }

/* ---- stores: a small shared dictionary, by which ranks find each other ---- */

typedef struct rondo_store rondo_store;
typedef struct rondo_bytes {
  void* data;
  size_t size;
} rondo_bytes;
RONDO_API void rondo_bytes_free(rondo_bytes* bytes); /* and sets it to nothing */

typedef struct rondo_store_options {
  size_t size;
  const char* url;     /* tcp://host:port or file:///path */
  const char* job;     /* jobs do not see each other's keys; default "default" */
  const char* token;   /* the job's secret; NULL: variable RONDO_TOKEN's, if any */
  int serve;           /* not 0: over tcp this process serves it, until rondo_store_free */
  uint64_t timeout_ms; /* to reach it, default 60000 */
} rondo_store_options;
RONDO_API void rondo_store_options_init_sized(rondo_store_options* options, size_t size);
static inline void rondo_store_options_init(rondo_store_options* options) {
  rondo_store_options_init_sized(options, sizeof *options);
}

/* Any thread uses a store. Keys have 1 to 1024 bytes, values at most 1 MiB. Every call ends within its timeout_ms.
 * Over tcp a store speaks TLS where variable RONDO_TLS says so. */
RONDO_API rondo_code rondo_store_open(const rondo_store_options* options, rondo_store** store, rondo_error** error);
RONDO_API void rondo_store_free(rondo_store* store);
RONDO_API rondo_code rondo_store_set(rondo_store* store, const char* key, const void* value, size_t bytes,
                                     uint64_t timeout_ms, rondo_error** error);
/* Does not wait for the key: *found is 0 where there is none now. */
RONDO_API rondo_code rondo_store_get(rondo_store* store, const char* key, rondo_bytes* value, int* found,
                                     uint64_t timeout_ms, rondo_error** error);
/* Waits for the key. */
RONDO_API rondo_code rondo_store_wait(rondo_store* store, const char* key, rondo_bytes* value, uint64_t timeout_ms,
                                      rondo_error** error);
/* Adds to a decimal number, 0 where there is none. */
RONDO_API rondo_code rondo_store_add(rondo_store* store, const char* key, int64_t delta, int64_t* sum,
                                     uint64_t timeout_ms, rondo_error** error);
/* Sets the key to `desired` if it holds `expected`, or, where that is NULL, if there is no such key. *swapped says
 * whether; `current`, which may be NULL, gets what is there then. */
RONDO_API rondo_code rondo_store_compare_set(rondo_store* store, const char* key, const void* expected,
                                             size_t expected_bytes, const void* desired, size_t desired_bytes,
                                             int* swapped, rondo_bytes* current, uint64_t timeout_ms,
                                             rondo_error** error);
/* *removed, which may be NULL: whether it was there. */
RONDO_API rondo_code rondo_store_remove(rondo_store* store, const char* key, int* removed, uint64_t timeout_ms,
                                        rondo_error** error);

/* A store of somebody else's, for rondo_connect: how a framework's own store serves. Functions may block and may be
 * called by any thread, one at a time. Each returns 0, or not 0 and then in `why` (of `why_bytes`) what went wrong, in
 * words. */
typedef struct rondo_foreign_store {
  size_t size;      /* sizeof(rondo_foreign_store) */
  void* user;       /* handed to all of them */
  const char* name; /* for messages: "torch's TCPStore at 10.0.0.1:29500" */
  int (*set)(void* user, const char* key, const void* value, size_t bytes, char* why, size_t why_bytes);
  /* Calls `take` once with the value, or not at all where the key is not there now. */
  int (*get)(void* user, const char* key, void (*take)(void* to, const void* value, size_t bytes), void* to, char* why,
             size_t why_bytes);
  int (*add)(void* user, const char* key, int64_t delta, int64_t* sum, char* why, size_t why_bytes);
  /* Sets the key to `desired` if it holds `expected`, or, where that is NULL, if there is none, and says whether it
   * did. Calls `take` with what is there then. */
  int (*compare_set)(void* user, const char* key, const void* expected, size_t expected_bytes, const void* desired,
                     size_t desired_bytes, int* swapped, void (*take)(void* to, const void* value, size_t bytes),
                     void* to, char* why, size_t why_bytes);
  int (*remove)(void* user, const char* key, char* why, size_t why_bytes); /* may be NULL: keys stay */
  /* May be NULL. Else rondo_connect may keep the store: a rank that closes leaves its goodbye there for ranks that were
   * never connected to it, and such ranks look for it. Called once, by any thread, as soon as nothing uses the store
   * any more: at the latest when the communicator is freed, or when rondo_connect fails; later only if a function of
   * the store has not returned by then. */
  void (*release)(void* user);
} rondo_foreign_store;

/* ---- communicators ---- */

typedef struct rondo_comm rondo_comm;
typedef int32_t rondo_log_level;
enum { RONDO_LOG_DEBUG = 0, RONDO_LOG_INFO = 1, RONDO_LOG_WARNING = 2 };

typedef struct rondo_connect_options {
  size_t size;
  /* env:// (default: what the launcher says, or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), tcp://host:port,
   * file:///path; each may carry ?rank=2&world_size=4. */
  const char* rendezvous;
  int32_t rank;       /* -1: the URL's or the environment's, else by arrival */
  int32_t world_size; /* 0: the URL's or the environment's */
  /* Not NULL: ranks meet through it, and rendezvous is not looked at; rank and world size must be given. Used until
   * rondo_connect returns; where rebuildable, as long as the communicator and those rebuilt from it; where it has
   * `release`, until that is called. */
  const rondo_foreign_store* store;
  const char* job;        /* processes of different jobs refuse each other */
  const char* token;      /* the job's secret; NULL: variable RONDO_TOKEN's, if any */
  uint64_t generation;    /* counts the meetings of one job on one store */
  int external_store;     /* not 0: rank 0 of tcp:// need not serve the store */
  const char* addresses;  /* local addresses to use, behind commas; NULL: chosen by reachability */
  const char* interface_; /* "eth0,ib0", "^docker0,lo", "=eth0", "10.0.0.0/8" */
  const char* transport;  /* "auto", "tcp", "shm", "ib"; equal on all ranks */
  const char* rdma_port;  /* "mlx5_0:1", an address of a port; behind a + one that stands by */
  uint64_t timeout_ms;    /* of the meeting, and of every operation; 0 (default): RONDO_TIMEOUT's seconds, else 60 s */
  uint32_t rails;         /* connections to each peer that share large collectives; default 1; equal on all ranks */
  int progress_thread;    /* 0: operations advance only while somebody waits or tests; default 1 */
  int checksums;          /* not 0: CRC-32C of every frame; equal on all ranks */
  int reproducible;       /* these three for all operations that do not say otherwise; equal on all ranks */
  int wide_partials;
  int compare_results;
  int rebuildable;              /* not 0: rondo_comm_rebuild can go on after ranks were lost; equal on all ranks */
  int join;                     /* not 0: a newcomer to a job that runs */
  uint32_t recorded_operations; /* of the flight recorder; default 1024 */
  const char* record_dir;       /* where it is written on failure; NULL: nowhere */
  /* Gets the library's few words (choices, what fell back); any thread. NULL: silence. */
  void (*log)(void* user, rondo_log_level level, const char* text);
  void* log_user;
  /* Of a communicator of some of a job's ranks: what the group is called, and world_size numbers, the ranks of the job
   * by rank of the communicator. Errors, logs and records then name both: "rank 3 (rank 1 of group tp)". Copied. Groups
   * of rondo_comm_split have it from the communicator that they are split from. NULL: its ranks are the job's */
  const char* group;
  const int32_t* job_ranks;
  const char* ports; /* TCP ports to listen on, "29500-29599"; NULL: variable RONDO_PORTS's, else any */
} rondo_connect_options;
RONDO_API void rondo_connect_options_init_sized(rondo_connect_options* options, size_t size);
static inline void rondo_connect_options_init(rondo_connect_options* options) {
  rondo_connect_options_init_sized(options, sizeof *options);
}

/* Meets the other ranks, within timeout_ms. Environment variables are read here, and nowhere later. */
RONDO_API rondo_code rondo_connect(const rondo_connect_options* options, rondo_comm** comm, rondo_error** error);
/* Meets them likewise and connects nothing: gives the store in which they met, who this rank is and of how many. For
 * programs that have a use of their own for a store; keys that begin with "rondo/" are not theirs. Where this process
 * serves it, it is there until rondo_store_free. */
RONDO_API rondo_code rondo_meet(const rondo_connect_options* options, rondo_store** store, int32_t* rank,
                                int32_t* world_size, rondo_error** error);
/* Peers still in an operation are told that this rank left, unless rondo_comm_close was called. NULL is nothing. */
RONDO_API void rondo_comm_free(rondo_comm* comm);
/* Waits for issued operations and says goodbye; what the last call could not see yet is reported. What has not ended
 * within the communicator's timeout fails then, on all ranks. */
RONDO_API rondo_code rondo_comm_close(rondo_comm* comm, rondo_error** error);
/* The same within patience_ms, whether or not the other ranks close too: for the end of a process. It says goodbye in
 * any case. Receives that no message has come for end with RONDO_CLOSED; what else has not ended by then fails, on all
 * ranks. Later ranks get all that this rank has sent, and RONDO_CLOSED where they still need it. */
RONDO_API rondo_code rondo_comm_leave(rondo_comm* comm, uint64_t patience_ms, rondo_error** error);
/* Fails all pending and later operations, here and on all ranks, which are told `reason`. Any thread, at once. */
RONDO_API void rondo_comm_abort(rondo_comm* comm, const char* reason);
/* For bindings, which refuse calls before the library sees them: `call` names the call and says why. If this rank then
 * closes, ranks that wait for it in that operation fail with RONDO_MISMATCH and these words instead of RONDO_CLOSED.
 * The next operation that is issued makes it void. Calls that the library refuses are noted already. Any thread. */
RONDO_API void rondo_comm_note_refusal(rondo_comm* comm, const char* call);
/* The first cause once the communicator has failed, by a launched graph too: its code, and the error; else RONDO_OK.
 * Any thread. */
RONDO_API rondo_code rondo_comm_failure(rondo_comm* comm, rondo_error** error);

RONDO_API int32_t rondo_comm_rank(const rondo_comm* comm);
RONDO_API int32_t rondo_comm_world_size(const rondo_comm* comm);
/* Counts from that of the options, one up at every rebuild. */
RONDO_API uint64_t rondo_comm_generation(const rondo_comm* comm);
/* The host of a rank; valid while the communicator lives. "" of a rank that there is not. */
RONDO_API const char* rondo_comm_host(const rondo_comm* comm, int32_t rank);
/* How many ranks share this rank's host, and the how-many-th of them it is. */
RONDO_API int32_t rondo_comm_local_size(const rondo_comm* comm);
RONDO_API int32_t rondo_comm_local_rank(const rondo_comm* comm);
/* The path to each peer in words, a line each. */
RONDO_API rondo_code rondo_comm_describe(const rondo_comm* comm, rondo_bytes* text, rondo_error** error);
/* What the flight recorder holds, as JSON. Any thread, at any time. */
RONDO_API rondo_code rondo_comm_records(const rondo_comm* comm, const char* reason, rondo_bytes* json,
                                        rondo_error** error);

/* Collective. Ranks of one color form a communicator of their own, in the order of (key, rank); a negative color joins
 * none and gets NULL. */
RONDO_API rondo_code rondo_comm_split(rondo_comm* comm, int32_t color, int32_t key, rondo_comm** part,
                                      rondo_error** error);

typedef struct rondo_rebuild_options {
  size_t size;
  int32_t min_ranks;   /* fewer give RONDO_REBUILD_FAILED; default 1 */
  int32_t max_ranks;   /* room for newcomers up to this; 0 (default): a shrink */
  uint64_t settle_ms;  /* how long ranks not known to be dead are waited for; default 5000 */
  uint64_t timeout_ms; /* of the whole call; 0: the communicator's */
} rondo_rebuild_options;
RONDO_API void rondo_rebuild_options_init_sized(rondo_rebuild_options* options, size_t size);
static inline void rondo_rebuild_options_init(rondo_rebuild_options* options) {
  rondo_rebuild_options_init_sized(options, sizeof *options);
}
/* Goes on after ranks were lost: the communicator of those left, one generation later. Every rank that is left calls it
 * (docs/REBUILDING.md). The old one stays the caller's to free. RONDO_STALE: the others went on without this rank. */
RONDO_API rondo_code rondo_comm_rebuild(rondo_comm* comm, const rondo_rebuild_options* options, rondo_comm** next,
                                        rondo_error** error);
/* Of a rebuilt communicator: the rank that one of its ranks had before; -1: a newcomer, or it was not rebuilt. */
RONDO_API int32_t rondo_comm_old_rank(const rondo_comm* comm, int32_t rank);

/* Memory that the transport moves without a copy where it can. Stays until it is freed, which no operation may use
 * then; freeing it after the communicator is right, too. */
typedef struct rondo_memory rondo_memory;
RONDO_API rondo_code rondo_comm_allocate(rondo_comm* comm, size_t bytes, rondo_memory** memory, void** data,
                                         rondo_error** error);
/* The same for memory of the caller's, as far as that is possible. To be freed before that memory is. */
RONDO_API rondo_code rondo_comm_register(rondo_comm* comm, void* data, size_t bytes, rondo_memory** memory,
                                         rondo_error** error);
RONDO_API void rondo_memory_free(rondo_memory* memory);

/* output[i] = left[i] op right[i]; `output` may be `left` or `right`. Called by whichever thread drives, and must not
 * call the communicator. */
typedef void (*rondo_combine)(void* user, const void* left, const void* right, void* output, size_t elements,
                              rondo_dtype dtype);
/* Collective: all ranks define the same operations in the same order. `user` must live as long as the communicator and
 * those split from it. */
RONDO_API rondo_code rondo_comm_define_op(rondo_comm* comm, const char* name, int commutative, rondo_combine combine,
                                          void* user, rondo_op* op, rondo_error** error);

/* ---- works: operations that go on while the caller does something else ---- */

typedef struct rondo_work rondo_work;
/* Final: RONDO_OK, or what the operation failed of. Any number of times. */
RONDO_API rondo_code rondo_work_wait(rondo_work* work, rondo_error** error);
/* RONDO_NOT_READY when the time passes first; the operation goes on. */
RONDO_API rondo_code rondo_work_wait_for(rondo_work* work, uint64_t timeout_ms, rondo_error** error);
/* RONDO_NOT_READY, without an error, while it goes on. */
RONDO_API rondo_code rondo_work_test(rondo_work* work, rondo_error** error);
/* Calls `done` once, with NULL or the error (lent), from the thread that drives then, or at once. It may use any
 * communicator, but must not free this one. */
RONDO_API rondo_code rondo_work_then(rondo_work* work, void (*done)(void* user, const rondo_error* error), void* user,
                                     rondo_error** error);
/* The number of its collective on the communicator, from 1; 0 of messages. */
RONDO_API uint64_t rondo_work_sequence(const rondo_work* work);

typedef struct rondo_message {
  int32_t source;
  int32_t tag;
  rondo_dtype dtype;
  uint64_t count;
} rondo_message;
/* Of a receive that has ended with RONDO_OK: what came. Else RONDO_NOT_READY. */
RONDO_API rondo_code rondo_work_message(const rondo_work* work, rondo_message* message);
/* Forgets it; the operation goes on, and keeps its buffers until it is final. NULL is nothing. */
RONDO_API void rondo_work_free(rondo_work* work);

/* ---- collectives, each blocking and, as ..._async, with a work ----
 *
 * `options` may be NULL. What an asynchronous call itself gets wrong it says at once, and makes no work. */

/* Every rank's `count` elements combined element by element; every rank gets the result. In place: input == output. */
RONDO_API rondo_code rondo_all_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                      rondo_error** error);
RONDO_API rondo_code rondo_all_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                            rondo_work** work, rondo_error** error);

/* The same for the root alone; other ranks' output is ignored. In place: input == output at the root. */
RONDO_API rondo_code rondo_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  rondo_op op, int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                        rondo_dtype dtype, rondo_op op, int32_t root, const rondo_options* options,
                                        rondo_work** work, rondo_error** error);

/* The root's `input` to every rank's `output`; other ranks' input is ignored. In place: input == output at the root. */
RONDO_API rondo_code rondo_broadcast(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                     rondo_dtype dtype, int32_t root, const rondo_options* options,
                                     rondo_error** error);
RONDO_API rondo_code rondo_broadcast_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                           rondo_dtype dtype, int32_t root, const rondo_options* options,
                                           rondo_work** work, rondo_error** error);

/* Every rank's `count` elements to every rank: block r of `output` is the input of rank r. In place: input is this
 * rank's block of the output. */
RONDO_API rondo_code rondo_all_gather(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                            rondo_error** error);

/* Rank r brings counts[r] elements; every rank gives the same counts. */
RONDO_API rondo_code rondo_all_gather_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                        rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_gather_v_async(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                              rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                              rondo_error** error);

/* Inputs of a block per rank, combined element by element; rank r gets block r. In place: output is this rank's block
 * of the input; the others are undefined then. */
RONDO_API rondo_code rondo_reduce_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                          rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                          rondo_error** error);
RONDO_API rondo_code rondo_reduce_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                                rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                                rondo_work** work, rondo_error** error);

/* Block r has counts[r] elements; every rank gives the same counts. */
RONDO_API rondo_code rondo_reduce_scatter_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                            rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                            rondo_error** error);
RONDO_API rondo_code rondo_reduce_scatter_v_async(rondo_comm* comm, const void* input, void* output,
                                                  const uint64_t* counts, rondo_dtype dtype, rondo_op op,
                                                  const rondo_options* options, rondo_work** work, rondo_error** error);

/* Every rank's `count` elements to the root: block r of its `output` is the input of rank r. In place: input is the
 * root's block of its output. */
RONDO_API rondo_code rondo_gather(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                        rondo_dtype dtype, int32_t root, const rondo_options* options,
                                        rondo_work** work, rondo_error** error);

/* This rank brings `count` elements; the root alone knows all counts, others may give NULL. */
RONDO_API rondo_code rondo_gather_v(rondo_comm* comm, const void* input, uint64_t count, void* output,
                                    const uint64_t* counts, rondo_dtype dtype, int32_t root,
                                    const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_gather_v_async(rondo_comm* comm, const void* input, uint64_t count, void* output,
                                          const uint64_t* counts, rondo_dtype dtype, int32_t root,
                                          const rondo_options* options, rondo_work** work, rondo_error** error);

/* Block r of the root's `input` to the output of rank r. In place: output is the root's block of its input. */
RONDO_API rondo_code rondo_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                   int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                         rondo_dtype dtype, int32_t root, const rondo_options* options,
                                         rondo_work** work, rondo_error** error);

/* This rank gets `count` elements; the root alone knows all counts, others may give NULL. */
RONDO_API rondo_code rondo_scatter_v(rondo_comm* comm, const void* input, const uint64_t* counts, void* output,
                                     uint64_t count, rondo_dtype dtype, int32_t root, const rondo_options* options,
                                     rondo_error** error);
RONDO_API rondo_code rondo_scatter_v_async(rondo_comm* comm, const void* input, const uint64_t* counts, void* output,
                                           uint64_t count, rondo_dtype dtype, int32_t root,
                                           const rondo_options* options, rondo_work** work, rondo_error** error);

/* Block j of `input` goes to rank j; block i of `output` comes from rank i. Not in place. */
RONDO_API rondo_code rondo_all_to_all(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_to_all_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                            rondo_error** error);

/* input_counts[j] elements go to rank j, output_counts[i] come from rank i; each rank knows its own. */
RONDO_API rondo_code rondo_all_to_all_v(rondo_comm* comm, const void* input, const uint64_t* input_counts, void* output,
                                        const uint64_t* output_counts, rondo_dtype dtype, const rondo_options* options,
                                        rondo_error** error);
RONDO_API rondo_code rondo_all_to_all_v_async(rondo_comm* comm, const void* input, const uint64_t* input_counts,
                                              void* output, const uint64_t* output_counts, rondo_dtype dtype,
                                              const rondo_options* options, rondo_work** work, rondo_error** error);

/* Returns when every rank has called it. */
RONDO_API rondo_code rondo_barrier(rondo_comm* comm, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_barrier_async(rondo_comm* comm, const rondo_options* options, rondo_work** work,
                                         rondo_error** error);

/* ---- fusion: many small all-reduces as few large ones ----
 *
 * Tensors are added one after the other and copied into buckets, each of which is reduced as one all-reduce, in place,
 * when the next tensor does not fit, when it is exactly full, when dtype or op change, and by a flush; results are
 * copied to where they belong. While a bucket is filled others are under way. A tensor of bucket_bytes or more goes by
 * itself, without a copy.
 *
 * All ranks add the same tensors (count, dtype, op) in the same order, and flush at the same places. Buckets are
 * collectives of the communicator like others, issued inside add, flush and wait, by the thread that issues the others.
 *
 * Input and output, which may be one memory, are lent from add until rondo_fusion_wait(_for) returns, with RONDO_OK or
 * an error other than RONDO_NOT_READY. In between the output may be written at any time, so it is no part of another
 * tensor.
 *
 * What an add itself gets wrong adds nothing, and the communicator goes on. Any other error fails all that was added
 * since the last wait, and the communicator with it; every later call returns it again. */

typedef struct rondo_fusion rondo_fusion;

typedef struct rondo_fusion_options {
  size_t size;
  uint64_t bucket_bytes;          /* default 4 MiB; equal on all ranks */
  uint32_t buckets;               /* 2 to 64, default 4: their memory is taken once, and as many may be under way */
  const rondo_options* operation; /* of every all-reduce but for the scale, lent until create returns; may be NULL */
} rondo_fusion_options;
RONDO_API void rondo_fusion_options_init_sized(rondo_fusion_options* options, size_t size);
static inline void rondo_fusion_options_init(rondo_fusion_options* options) {
  rondo_fusion_options_init_sized(options, sizeof *options);
}

/* Once the communicator is freed, a fusion can be freed, and nothing else. */
RONDO_API rondo_code rondo_fusion_create(rondo_comm* comm, const rondo_fusion_options* options, rondo_fusion** fusion,
                                         rondo_error** error);
/* `scale` is that of RONDO_PREMUL_SUM, each rank its own; it is applied here, in the type of the elements. A tensor
 * without elements is nothing. Waits for the oldest bucket where all are under way. */
RONDO_API rondo_code rondo_fusion_add(rondo_fusion* fusion, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, rondo_op op, double scale, rondo_error** error);
/* Issues the bucket that is not full, if there is one. */
RONDO_API rondo_code rondo_fusion_flush(rondo_fusion* fusion, rondo_error** error);
/* Flushes, and returns when every result is where it belongs. */
RONDO_API rondo_code rondo_fusion_wait(rondo_fusion* fusion, rondo_error** error);
/* RONDO_NOT_READY when the time passes first; everything goes on. */
RONDO_API rondo_code rondo_fusion_wait_for(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error);
/* RONDO_OK when the next add will not wait; RONDO_NOT_READY when the time passes first. For callers that must not be
 * stuck in an add. */
RONDO_API rondo_code rondo_fusion_await_room(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error);
/* Waits for what is under way; what was not flushed is dropped. NULL is nothing. */
RONDO_API void rondo_fusion_free(rondo_fusion* fusion);

/* ---- messages between two ranks: outside the order of collectives; any thread, any number at once ----
 *
 * A send ends when its buffer is free again, which a large one is only when it was received. Of options, timeout_ms
 * counts. A receive's `count` is the room: what is longer, or of another dtype, gives RONDO_MISMATCH and is lost; a
 * shorter one leaves the rest as it was. What nobody receives or sends in time fails alone; the communicator goes on.
 * Tags are 0 to 2^31 - 1; of one sender and tag, messages come in the order in which they were sent. */

RONDO_API rondo_code rondo_send(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype, int32_t to,
                                int32_t tag, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_send_async(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype,
                                      int32_t to, int32_t tag, const rondo_options* options, rondo_work** work,
                                      rondo_error** error);

/* `message`, which may be NULL, gets what came. */
RONDO_API rondo_code rondo_recv(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype, int32_t from_or_any,
                                int32_t tag_or_any, const rondo_options* options, rondo_message* message,
                                rondo_error** error);
RONDO_API rondo_code rondo_recv_async(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype,
                                      int32_t from_or_any, int32_t tag_or_any, const rondo_options* options,
                                      rondo_work** work, rondo_error** error);

/* Both at once, so that rings and exchanges of any size cannot wait for themselves. */
RONDO_API rondo_code rondo_send_recv(rondo_comm* comm, const void* output, uint64_t output_count, int32_t to,
                                     int32_t tag, void* input, uint64_t input_count, int32_t from_or_any,
                                     int32_t tag_or_any, rondo_dtype dtype, const rondo_options* options,
                                     rondo_message* message, rondo_error** error);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_H_ */
