/* Rondo's C interface: collective communication for programs in any language. The header is C11 and compiles as C++.
 *
 *   rondo_connect_options where;
 *   rondo_connect_options_init(&where);                       // env://: settings from torchrun, mpirun, rondo run
 *   rondo_comm* comm = NULL;
 *   rondo_error* error = NULL;
 *   if (rondo_connect(&where, &comm, &error) != RONDO_OK ||
 *       rondo_all_reduce(comm, in, out, count, RONDO_FLOAT32, RONDO_SUM, NULL, &error) != RONDO_OK) {
 *     fprintf(stderr, "%s\n", error->text);                   // names the rank, the host and the address at fault
 *     rondo_error_free(error);
 *   }
 *   rondo_comm_free(comm);
 *
 * Results: every call that can fail returns RONDO_OK or an error code. If `error` is not NULL, the call also sets
 * *error: to NULL on success, otherwise to an error that the caller owns and frees with rondo_error_free. A call that
 * creates an object (communicator, work, store, bytes) gives it to the caller, who must free it. The object is set only
 * with RONDO_OK; after an error it is NULL.
 *
 * Options: every options struct begins with its own size. rondo_..._options_init sets the size and the defaults. So a
 * program compiled against an older header works with a newer library. If a function accepts NULL options, NULL means
 * the defaults.
 *
 * Text: strings are UTF-8 and end with a zero byte. A string that the caller passes must stay valid until the call
 * returns. NULL means no text.
 *
 * Order: all ranks must issue the same collectives of a communicator in the same order. The collectives of a
 * communicator run one after the other, so back-to-back operations on one buffer are well-defined. Independent streams
 * of operations need separate communicators (rondo_comm_split).
 *
 * Buffers: the library uses a buffer until the operation is final, with success or with an error. The blocking call,
 * rondo_work_wait or the callback reports this. Until then the caller must not change an input, read or write an
 * output, or free a buffer. Buffers may have any alignment. Input and output must not overlap, except in place, as each
 * collective says. After an error the output is undefined, and an out-of-place input is unchanged. A buffer without
 * elements may be NULL.
 *
 * Counts: counts are in elements. If a buffer holds one block for each rank, the count is the number of elements in one
 * block. With W ranks such a buffer has W * count elements, packed in rank order. The _v forms take an array of W
 * counts instead, which must stay valid until the call returns.
 *
 * Threads: only one thread at a time may issue collectives of a communicator. Any thread may wait, test, abort, send
 * and receive. A thread that waits for an operation advances the communicator's operations itself. Rondo's progress
 * thread advances operations for which no thread waits.
 *
 * Errors: a call with wrong arguments returns RONDO_INVALID_ARGUMENT or RONDO_UNSUPPORTED and starts nothing; the
 * communicator stays usable. A failed operation fails the communicator on all its ranks: every later call returns the
 * first cause.
 *
 * Fork: a child of fork() must not use objects that its parent made. It may connect again. */
#ifndef RONDO_H_
#define RONDO_H_

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): this is C */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_API __attribute__((visibility("default")))

/* The version of the running library, "0.1.0". The string is static. */
RONDO_API const char* rondo_version(void);

/* ---- errors ---- */

/* Error codes. Existing numbers never change; new ones are appended. All enumerations here have a fixed width. */
typedef int32_t rondo_code;
enum {
  RONDO_OK = 0,
  RONDO_INVALID_ARGUMENT = 1,     /* the arguments are wrong; nothing was started, and no other operation fails */
  RONDO_UNSUPPORTED = 2,          /* this build or this machine lacks the capability */
  RONDO_NOT_READY = 3,            /* a wait ended before the operation did; the operation continues */
  RONDO_TIMEOUT = 4,              /* a deadline passed; the text names the missing ranks */
  RONDO_PEER_LOST = 5,            /* a rank died */
  RONDO_CONNECTION_RESET = 6,     /* a connection broke, but its rank is alive */
  RONDO_UNREACHABLE = 7,          /* no address of a rank accepts a connection */
  RONDO_PROTOCOL = 8,             /* bytes on a connection that no Rondo of this version sends */
  RONDO_MISMATCH = 9,             /* ranks disagree about an operation; the text describes both sides */
  RONDO_VERSION_MISMATCH = 10,    /* the versions or options of the ranks cannot work together */
  RONDO_DUPLICATE_RANK = 11,      /* two processes claim one rank */
  RONDO_WORLD_SIZE_MISMATCH = 12, /* processes disagree about the number of ranks */
  RONDO_RENDEZVOUS_TIMEOUT = 13,  /* some ranks did not join in time; the text names them */
  RONDO_STALE = 14,               /* a process or its data belongs to an earlier run or generation */
  RONDO_STORE_LOST = 15,          /* the connection to the store broke */
  RONDO_STORE_TIMEOUT = 16,       /* the store did not answer in time, or a key did not appear in time */
  RONDO_STORE_IO = 17,            /* the file of a file store could not be used */
  RONDO_ADDRESS_IN_USE = 18,      /* a port is taken */
  RONDO_RESOURCE = 19,            /* a limit of the system or of the options was reached */
  RONDO_OUT_OF_MEMORY = 20,
  RONDO_CORRUPT = 21,      /* a checksum did not match */
  RONDO_AUTH = 22,         /* a process could not prove that it belongs to the job */
  RONDO_ABORTED = 23,      /* rondo_comm_abort was called on this rank */
  RONDO_PEER_ABORTED = 24, /* rondo_comm_abort was called on another rank */
  RONDO_CLOSED = 25,       /* used after rondo_comm_close, or a peer closed although this rank still needed it */
  RONDO_INTERNAL = 26,     /* an error in Rondo itself */
  RONDO_REBUILD_FAILED = 27,
  RONDO_DEVICE = 28 /* a GPU or its driver failed; the text quotes the driver */
};

/* The name of a code, for example "peer_lost"; "unknown" for an unknown number. The string is static. */
RONDO_API const char* rondo_code_name(rondo_code code);

/* An error. Only the library creates errors. Text fields are never NULL; unused text fields are "". */
typedef struct rondo_error {
  rondo_code code;
  int32_t rank; /* the rank that reports the error; -1: none */
  /* The rank that caused it, as a rank of the communicator; -1: unknown. `text` names it as a rank of the job */
  int32_t culprit;
  int64_t step;        /* the index of the step in this rank's schedule; -1: none */
  uint64_t sequence;   /* the number of the operation in its communicator, from 1; 0: none */
  uint64_t bytes_done; /* the bytes of that step that were transferred */
  uint64_t bytes_due;  /* the total number of bytes of that step */
  const char* text;    /* the complete error in one or more lines, to show to the user */
  const char* message;
  const char* host;       /* the culprit's host */
  const char* address;    /* the culprit's address, or the address that failed */
  const char* interface_; /* the local network interface */
  const char* collective; /* the operation, for example "all_reduce float32 x 1000 sum" */
  const char* first_cause;
} rondo_error;

/* Frees an error. NULL is allowed. */
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
  RONDO_BOOL = 11 /* one byte; 0 is false, any other value is true; results are 0 or 1 */
};

/* The bytes of one element; 0 for an unknown type. */
RONDO_API size_t rondo_dtype_size(rondo_dtype dtype);

/* A predefined operation, or a number that rondo_comm_define_op returned. */
typedef int32_t rondo_op;
enum {
  RONDO_SUM = 1, /* integers wrap */
  RONDO_PROD = 2,
  RONDO_MIN = 3, /* NaN if an operand is NaN; -0 is less than +0 */
  RONDO_MAX = 4,
  /* The sum, divided by the world size once, at the end; integers round towards zero. The result is correct if the
   * average fits the type, even if the sum does not */
  RONDO_AVG = 5,
  RONDO_BAND = 6,
  RONDO_BOR = 7,
  RONDO_BXOR = 8, /* bitwise on integers, logical on bool */
  /* The sum of options->scale * operand, with each rank's own scale; only for floating-point types */
  RONDO_PREMUL_SUM = 9
};

enum { RONDO_ANY_RANK = -2, RONDO_ANY_TAG = -1 };

/* Yes, no, or RONDO_DEFAULT. RONDO_DEFAULT in the options of an operation means the setting of its communicator. */
typedef int32_t rondo_choice;
enum { RONDO_DEFAULT = 0, RONDO_YES = 1, RONDO_NO = 2 };

/* The kind of memory of an operation's buffers. RONDO_MEMORY_CUDA is memory of a GPU. All such operations of a
 * communicator must use the same GPU on this rank. If no GPU can be used (no driver, no GPU, a build without CUDA), the
 * call returns RONDO_UNSUPPORTED with the reason. Only collectives accept GPU memory; messages use host memory. */
typedef int32_t rondo_memory_kind;
enum { RONDO_MEMORY_HOST = 0, RONDO_MEMORY_CUDA = 1 };

/* The options of one operation. */
typedef struct rondo_options {
  size_t size;
  uint64_t timeout_ms;   /* counted from the call; 0: the communicator's timeout */
  const char* algorithm; /* "ring", "tree", ...: `rondo explain` lists them; NULL: the fastest. Equal on all ranks */
  double scale;          /* this rank's factor for RONDO_PREMUL_SUM; default 1 */
  /* RONDO_YES: whatever the algorithm, the result is that of a left fold in rank order. Equal on all ranks */
  rondo_choice reproducible;
  /* RONDO_YES: reductions of 16-bit floats keep partial results in float32 and round once, at the end. Averages of
   * float16 always do this. Equal on all ranks */
  rondo_choice fp32_accumulate;
  rondo_choice compare_results; /* ranks compare their results. Equal on all ranks */
  rondo_memory_kind memory;     /* the kind of all buffers of the operation. Equal on all ranks */
  /* The cudaStream_t for RONDO_MEMORY_CUDA; NULL: the default stream. The operation starts after all work that is on
   * the stream at the time of the call. Work put on the stream later waits for the operation. No other stream waits,
   * and the caller need not wait for the rondo_work. After an error the stream continues.
   *
   * If the stream is being captured, the operation becomes part of the CUDA graph. That needs all ranks on one host and
   * GPUs that reach each other's memory; otherwise the call returns RONDO_UNSUPPORTED. Every rank must capture the same
   * operations and launch them in the same order. Two operations of one communicator must never be launched at once.
   * The communicator and the buffers must stay alive until no launch can still be running on any rank.
   * rondo_comm_failure reports whether a launch has failed. */
  void* stream;
  /* RONDO_NO: work put on the stream later does not wait for the operation, so a user of the result must wait for the
   * rondo_work. RONDO_DEFAULT: work put on the stream later waits. A waiting stream needs a thread of this process to
   * end the operation. The CUDA driver can block that thread if the driver itself waits for the stream, for example
   * while it loads a kernel. Such a driver call may return only after the operation has failed at its timeout
   * (docs/GOTCHAS.md). */
  rondo_choice stream_waits;
} rondo_options;

RONDO_API void rondo_options_init_sized(rondo_options* options, size_t size);
static inline void rondo_options_init(rondo_options* options) { rondo_options_init_sized(options, sizeof *options); }

/* ---- stores: small key-value services through which ranks find each other ---- */

typedef struct rondo_store rondo_store;
typedef struct rondo_bytes {
  void* data;
  size_t size;
} rondo_bytes;
RONDO_API void rondo_bytes_free(rondo_bytes* bytes); /* frees the data, and sets data and size to zero */

typedef struct rondo_store_options {
  size_t size;
  const char* url;     /* tcp://host:port or file:///path */
  const char* job;     /* jobs do not see each other's keys; default "default" */
  const char* token;   /* the job's secret; NULL: the value of variable RONDO_TOKEN, if it is set */
  int serve;           /* not 0: this process serves the store until rondo_store_free; only for tcp */
  uint64_t timeout_ms; /* the time to reach the store; default 60000 */
} rondo_store_options;
RONDO_API void rondo_store_options_init_sized(rondo_store_options* options, size_t size);
static inline void rondo_store_options_init(rondo_store_options* options) {
  rondo_store_options_init_sized(options, sizeof *options);
}

/* Any thread may use a store. A key has 1 to 1024 bytes, a value at most 1 MiB. Every call ends within its timeout_ms.
 * A store over tcp uses TLS if variable RONDO_TLS says so. */
RONDO_API rondo_code rondo_store_open(const rondo_store_options* options, rondo_store** store, rondo_error** error);
RONDO_API void rondo_store_free(rondo_store* store);
RONDO_API rondo_code rondo_store_set(rondo_store* store, const char* key, const void* value, size_t bytes,
                                     uint64_t timeout_ms, rondo_error** error);
/* Returns at once, with *found 0 if the key does not exist. `value` may be NULL. */
RONDO_API rondo_code rondo_store_get(rondo_store* store, const char* key, rondo_bytes* value, int* found,
                                     uint64_t timeout_ms, rondo_error** error);
/* Waits until the key exists. `value` may be NULL. */
RONDO_API rondo_code rondo_store_wait(rondo_store* store, const char* key, rondo_bytes* value, uint64_t timeout_ms,
                                      rondo_error** error);
/* Adds to a decimal number; a missing key counts as 0. `sum`, which may be NULL, receives the new number. */
RONDO_API rondo_code rondo_store_add(rondo_store* store, const char* key, int64_t delta, int64_t* sum,
                                     uint64_t timeout_ms, rondo_error** error);
/* Sets the key to `desired` if the key holds `expected`, or, if `expected` is NULL, if the key does not exist. *swapped
 * says whether the key was set. `current`, which may be NULL, receives the value of the key after the call. It is empty
 * if the key does not exist. */
RONDO_API rondo_code rondo_store_compare_set(rondo_store* store, const char* key, const void* expected,
                                             size_t expected_bytes, const void* desired, size_t desired_bytes,
                                             int* swapped, rondo_bytes* current, uint64_t timeout_ms,
                                             rondo_error** error);
/* Removes a key. *removed says whether the key existed; `removed` may be NULL. */
RONDO_API rondo_code rondo_store_remove(rondo_store* store, const char* key, int* removed, uint64_t timeout_ms,
                                        rondo_error** error);

/* A store that the program implements, for rondo_connect. With it, Rondo can use the store of a framework. Any thread
 * may call the functions, but only one call runs at a time. The functions may block. Each function returns 0, or
 * another value on failure. On failure it writes a reason for people into `why`, a buffer of `why_bytes` bytes. */
typedef struct rondo_store_callbacks {
  size_t size;      /* sizeof(rondo_store_callbacks) */
  void* user;       /* passed to every function */
  const char* name; /* used in messages, for example "torch's TCPStore at 10.0.0.1:29500" */
  int (*set)(void* user, const char* key, const void* value, size_t bytes, char* why, size_t why_bytes);
  /* Calls `take` once with the value, or does not call `take` if the key does not exist. */
  int (*get)(void* user, const char* key, void (*take)(void* to, const void* value, size_t bytes), void* to, char* why,
             size_t why_bytes);
  int (*add)(void* user, const char* key, int64_t delta, int64_t* sum, char* why, size_t why_bytes);
  /* Sets the key to `desired` if the key holds `expected`, or, if `expected` is NULL, if the key does not exist.
   * *swapped says whether the key was set. Calls `take` with the value of the key after the call. */
  int (*compare_set)(void* user, const char* key, const void* expected, size_t expected_bytes, const void* desired,
                     size_t desired_bytes, int* swapped, void (*take)(void* to, const void* value, size_t bytes),
                     void* to, char* why, size_t why_bytes);
  int (*remove)(void* user, const char* key, char* why, size_t why_bytes); /* may be NULL: keys are never removed */
  /* May be NULL. If it is set, rondo_connect may keep the store after the rendezvous. A rank that closes then writes
   * its goodbye to the store, and ranks that were never connected to it read the goodbye there. Rondo calls `release`
   * once, from any thread, when it no longer uses the store. This happens at the latest when the communicator is freed
   * or when rondo_connect fails. It happens later only if a function of the store is still running then. */
  void (*release)(void* user);
} rondo_store_callbacks;

/* ---- communicators ---- */

typedef struct rondo_comm rondo_comm;
typedef int32_t rondo_log_level;
enum { RONDO_LOG_DEBUG = 0, RONDO_LOG_INFO = 1, RONDO_LOG_WARNING = 2 };

typedef struct rondo_connect_options {
  size_t size;
  /* env:// (the default: the launcher's variables, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT), tcp://host:port
   * or file:///path. Each may end with ?rank=2&world_size=4. */
  const char* rendezvous;
  int32_t rank;       /* -1: from the URL or the environment, otherwise in order of arrival at the store */
  int32_t world_size; /* 0: from the URL or the environment */
  /* If not NULL, the rendezvous uses this store and `rendezvous` is ignored; rank and world_size must be given. The
   * store's functions must stay callable until rondo_connect returns. With `rebuildable` they must stay callable until
   * the communicator and all communicators rebuilt from it are freed. With `release` they must stay callable until
   * `release` is called. */
  const rondo_store_callbacks* store;
  const char* job;        /* processes of different jobs refuse each other */
  const char* token;      /* the job's secret; NULL: the value of variable RONDO_TOKEN, if it is set */
  uint64_t generation;    /* the number of this rendezvous among those of the job in this store; equal on all ranks */
  int external_store;     /* not 0: another process serves the store of tcp://; otherwise rank 0 does */
  const char* addresses;  /* local addresses to use, separated by commas; NULL: chosen by reachability */
  const char* interface_; /* local interfaces to use: "eth0,ib0", "^docker0,lo" (all but these), "=eth0" (exact name),
                           * "10.0.0.0/8" */
  const char* transport;  /* "auto", "tcp", "shm", "ib"; equal on all ranks */
  const char* rdma_port;  /* the RDMA port: "mlx5_0:1", or its address; a "+" and a name add a standby port */
  /* For rondo_connect and for every operation. 0 (default): RONDO_TIMEOUT in seconds, otherwise 60 s. */
  uint64_t timeout_ms;
  uint32_t rails;      /* the number of connections to each peer among which large collectives are divided; default 1;
                        * equal on all ranks */
  int progress_thread; /* 0: operations advance only while a thread waits or tests; default 1 */
  int checksums;       /* not 0: CRC-32C of every frame; equal on all ranks */
  /* Not 0: operations are reproducible, unless their own option says RONDO_NO. Equal on all ranks. */
  int reproducible;
  /* Not 0: operations keep partial results in float32, unless their own option says RONDO_NO. Equal on all ranks. */
  int fp32_accumulate;
  /* Not 0: ranks compare results, unless an operation's own option says RONDO_NO. Equal on all ranks. */
  int compare_results;
  int rebuildable;              /* not 0: rondo_comm_rebuild can continue after ranks were lost; equal on all ranks */
  int join;                     /* not 0: this process joins a running job */
  uint32_t recorded_operations; /* the number of operations that the flight recorder keeps; default 1024 */
  const char* record_dir;       /* the directory for the flight recorder's file, written on failure; NULL: no file */
  /* Receives the library's few messages (choices, fallbacks); any thread may call it. NULL: no messages. */
  void (*log)(void* user, rondo_log_level level, const char* text);
  void* log_user; /* passed to `log` */
  /* For a communicator of only some of a job's ranks: the group's name, which is copied. Errors, logs and records then
   * name both ranks: "rank 3 (rank 1 of group tp)". Groups made by rondo_comm_split derive both from their parent.
   * NULL: the communicator's ranks are the job's ranks. */
  const char* group;
  const int32_t* job_ranks; /* with `group`: world_size ranks of the job, indexed by rank of the communicator; copied */
  const char* ports;        /* TCP ports to listen on, "29500-29599"; NULL: variable RONDO_PORTS, otherwise any port */
} rondo_connect_options;
RONDO_API void rondo_connect_options_init_sized(rondo_connect_options* options, size_t size);
static inline void rondo_connect_options_init(rondo_connect_options* options) {
  rondo_connect_options_init_sized(options, sizeof *options);
}

/* Performs the rendezvous within timeout_ms. This call reads the environment variables; no later call reads them. */
RONDO_API rondo_code rondo_connect(const rondo_connect_options* options, rondo_comm** comm, rondo_error** error);
/* Performs the rendezvous like rondo_connect, but makes no communicator. Returns the store of the rendezvous, this
 * rank and the world size. It is for programs that use a store themselves; they must not use keys that begin with
 * "rondo/". If this process serves the store, it does so until rondo_store_free. */
RONDO_API rondo_code rondo_rendezvous(const rondo_connect_options* options, rondo_store** store, int32_t* rank,
                                      int32_t* world_size, rondo_error** error);
/* Frees the communicator. If it was not closed (rondo_comm_close) before, peers that are still in an operation receive
 * a notice that this rank left, and their operation fails. NULL is allowed. */
RONDO_API void rondo_comm_free(rondo_comm* comm);
/* Waits for issued operations and exchanges goodbyes with the connected peers. It may also report a failure that no
 * earlier call could detect. If an operation has not ended within the communicator's timeout, it fails on all ranks. */
RONDO_API rondo_code rondo_comm_close(rondo_comm* comm, rondo_error** error);
/* Closes like rondo_comm_close, but within patience_ms, and whether or not the other ranks close too. It is meant for
 * the end of a process. It always sends goodbyes. A receive for which no message has arrived ends with RONDO_CLOSED.
 * Any other operation that has not ended within patience_ms fails on all ranks. Slower ranks still receive everything
 * that this rank has sent; operations that need more from this rank end with RONDO_CLOSED. */
RONDO_API rondo_code rondo_comm_leave(rondo_comm* comm, uint64_t patience_ms, rondo_error** error);
/* Fails all pending and later operations, on this rank and on all others. The other ranks' errors quote `reason`. Any
 * thread may call it, and it returns at once. */
RONDO_API void rondo_comm_abort(rondo_comm* comm, const char* reason);
/* For language bindings that refuse calls before they reach the library. `call` names the refused call and the reason.
 * If this rank then closes, ranks that wait for it in that operation fail with RONDO_MISMATCH and this text instead of
 * RONDO_CLOSED. The next operation that is issued cancels the note. For calls that the library itself refuses, it makes
 * this note itself. Any thread may call it. */
RONDO_API void rondo_comm_note_refusal(rondo_comm* comm, const char* call);
/* Returns RONDO_OK, or the first cause if the communicator has failed. An operation in a launched CUDA graph can fail
 * it, too. Any thread may call it. */
RONDO_API rondo_code rondo_comm_failure(rondo_comm* comm, rondo_error** error);

RONDO_API int32_t rondo_comm_rank(const rondo_comm* comm);
RONDO_API int32_t rondo_comm_world_size(const rondo_comm* comm);
/* The generation of the options, plus one for every rebuild. */
RONDO_API uint64_t rondo_comm_generation(const rondo_comm* comm);
/* The host of a rank, or "" for an invalid rank. The string is valid while the communicator lives. */
RONDO_API const char* rondo_comm_host(const rondo_comm* comm, int32_t rank);
/* The number of ranks on this rank's host, and this rank's index among them. */
RONDO_API int32_t rondo_comm_local_size(const rondo_comm* comm);
RONDO_API int32_t rondo_comm_local_rank(const rondo_comm* comm);
/* Describes the path to each peer, one line each, for people. */
RONDO_API rondo_code rondo_comm_describe(const rondo_comm* comm, rondo_bytes* text, rondo_error** error);
/* The contents of the flight recorder as JSON, including `reason`. Any thread may call it at any time. */
RONDO_API rondo_code rondo_comm_records(const rondo_comm* comm, const char* reason, rondo_bytes* json,
                                        rondo_error** error);

/* Collective. Ranks with the same color form a new communicator, ordered by (key, rank). A rank with a negative color
 * gets no communicator: *part is NULL. */
RONDO_API rondo_code rondo_comm_split(rondo_comm* comm, int32_t color, int32_t key, rondo_comm** part,
                                      rondo_error** error);

typedef struct rondo_rebuild_options {
  size_t size;
  int32_t min_ranks;   /* if fewer ranks remain, the call returns RONDO_REBUILD_FAILED; default 1 */
  int32_t max_ranks;   /* joiners are admitted up to this world size; 0 (default): no joiners */
  uint64_t settle_ms;  /* how long to wait for ranks that are not known to be dead; default 5000 */
  uint64_t timeout_ms; /* for the whole call; 0: the communicator's timeout */
} rondo_rebuild_options;
RONDO_API void rondo_rebuild_options_init_sized(rondo_rebuild_options* options, size_t size);
static inline void rondo_rebuild_options_init(rondo_rebuild_options* options) {
  rondo_rebuild_options_init_sized(options, sizeof *options);
}
/* Continues after ranks were lost: makes a communicator of the remaining ranks, one generation later. Every remaining
 * rank must call it (docs/REBUILDING.md). The caller still owns the old communicator and must free it. It returns
 * RONDO_STALE if the other ranks continued without this rank. */
RONDO_API rondo_code rondo_comm_rebuild(rondo_comm* comm, const rondo_rebuild_options* options, rondo_comm** next,
                                        rondo_error** error);
/* For a rebuilt communicator: the rank that `rank` had before. Returns -1 if `rank` is a joiner, or if the communicator
 * was not rebuilt. */
RONDO_API int32_t rondo_comm_old_rank(const rondo_comm* comm, int32_t rank);

/* Memory that the transport moves without a copy if it can. It stays valid until rondo_memory_free, even if the
 * communicator is freed first. No operation may use it when it is freed. */
typedef struct rondo_memory rondo_memory;
RONDO_API rondo_code rondo_comm_allocate(rondo_comm* comm, size_t bytes, rondo_memory** memory, void** data,
                                         rondo_error** error);
/* Prepares memory of the caller in the same way, if the transport can. The caller must call rondo_memory_free before it
 * frees its own memory. */
RONDO_API rondo_code rondo_comm_register(rondo_comm* comm, void* data, size_t bytes, rondo_memory** memory,
                                         rondo_error** error);
RONDO_API void rondo_memory_free(rondo_memory* memory);

/* Computes output[i] = left[i] op right[i]; `output` may be `left` or `right`. Any thread that advances operations may
 * call it. It must not call the communicator. */
typedef void (*rondo_combine)(void* user, const void* left, const void* right, void* output, size_t elements,
                              rondo_dtype dtype);
/* Collective: all ranks must define the same operations in the same order. `user` must stay valid until the
 * communicator and all communicators split from it are freed. */
RONDO_API rondo_code rondo_comm_define_op(rondo_comm* comm, const char* name, int commutative, rondo_combine combine,
                                          void* user, rondo_op* op, rondo_error** error);

/* ---- works: operations that run while the caller does something else ---- */

typedef struct rondo_work rondo_work;
/* Waits until the operation is final. Returns RONDO_OK or the operation's error. May be called any number of times. */
RONDO_API rondo_code rondo_work_wait(rondo_work* work, rondo_error** error);
/* Like rondo_work_wait, but waits for at most timeout_ms. After that time it returns RONDO_NOT_READY, and the operation
 * continues. A time of more than a second for which the process is stopped meanwhile does not count. */
RONDO_API rondo_code rondo_work_wait_for(rondo_work* work, uint64_t timeout_ms, rondo_error** error);
/* Does not wait: returns RONDO_NOT_READY, without an error, while the operation continues. */
RONDO_API rondo_code rondo_work_test(rondo_work* work, rondo_error** error);
/* Calls `done` once when the operation is final, with NULL or the error, which is valid until `done` returns. If the
 * operation is already final, rondo_work_then calls `done` itself. Otherwise the thread that completes the operation
 * calls it. `done` may use any communicator, but must not free this one. */
RONDO_API rondo_code rondo_work_then(rondo_work* work, void (*done)(void* user, const rondo_error* error), void* user,
                                     rondo_error** error);
/* The number of the collective in its communicator, from 1; 0 for a message. */
RONDO_API uint64_t rondo_work_sequence(const rondo_work* work);

typedef struct rondo_message {
  int32_t source;
  int32_t tag;
  rondo_dtype dtype;
  uint64_t count;
} rondo_message;
/* The message of a receive that has ended with RONDO_OK; otherwise the function returns RONDO_NOT_READY. */
RONDO_API rondo_code rondo_work_message(const rondo_work* work, rondo_message* message);
/* Frees the work. The operation continues and uses its buffers until it is final. NULL is allowed. */
RONDO_API void rondo_work_free(rondo_work* work);

/* ---- collectives: a blocking function, and one that returns a rondo_work (..._async) ----
 *
 * `options` may be NULL. An asynchronous call with wrong arguments returns the error at once and makes no work. */

/* Combines every rank's `count` elements element by element; every rank gets the result. In place: input == output. */
RONDO_API rondo_code rondo_all_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                      rondo_error** error);
RONDO_API rondo_code rondo_all_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                            rondo_work** work, rondo_error** error);

/* Like all_reduce, but only the root gets the result; other ranks' output is ignored. In place: input == output at the
 * root. */
RONDO_API rondo_code rondo_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  rondo_op op, int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                        rondo_dtype dtype, rondo_op op, int32_t root, const rondo_options* options,
                                        rondo_work** work, rondo_error** error);

/* Copies the root's `input` to every rank's `output`; other ranks' input is ignored. In place: input == output at the
 * root. */
RONDO_API rondo_code rondo_broadcast(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                     rondo_dtype dtype, int32_t root, const rondo_options* options,
                                     rondo_error** error);
RONDO_API rondo_code rondo_broadcast_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                           rondo_dtype dtype, int32_t root, const rondo_options* options,
                                           rondo_work** work, rondo_error** error);

/* Copies every rank's `count` elements to every rank: block r of `output` is the input of rank r. In place: input is
 * this rank's block of the output. */
RONDO_API rondo_code rondo_all_gather(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                            rondo_error** error);

/* Like all_gather, but rank r contributes counts[r] elements. Every rank must pass the same counts. */
RONDO_API rondo_code rondo_all_gather_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                        rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_gather_v_async(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                              rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                              rondo_error** error);

/* Combines inputs of one block per rank element by element; rank r gets block r of the result. In place: output is this
 * rank's block of the input; the other blocks are then undefined. */
RONDO_API rondo_code rondo_reduce_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                          rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                          rondo_error** error);
RONDO_API rondo_code rondo_reduce_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                                rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                                rondo_work** work, rondo_error** error);

/* Like reduce_scatter, but block r has counts[r] elements. Every rank must pass the same counts. */
RONDO_API rondo_code rondo_reduce_scatter_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                            rondo_dtype dtype, rondo_op op, const rondo_options* options,
                                            rondo_error** error);
RONDO_API rondo_code rondo_reduce_scatter_v_async(rondo_comm* comm, const void* input, void* output,
                                                  const uint64_t* counts, rondo_dtype dtype, rondo_op op,
                                                  const rondo_options* options, rondo_work** work, rondo_error** error);

/* Copies every rank's `count` elements to the root: block r of the root's `output` is the input of rank r. In place:
 * input is the root's block of its output. */
RONDO_API rondo_code rondo_gather(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                        rondo_dtype dtype, int32_t root, const rondo_options* options,
                                        rondo_work** work, rondo_error** error);

/* Like gather, but this rank contributes `count` elements. Only the root must know all counts; other ranks may pass
 * NULL. */
RONDO_API rondo_code rondo_gather_v(rondo_comm* comm, const void* input, uint64_t count, void* output,
                                    const uint64_t* counts, rondo_dtype dtype, int32_t root,
                                    const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_gather_v_async(rondo_comm* comm, const void* input, uint64_t count, void* output,
                                          const uint64_t* counts, rondo_dtype dtype, int32_t root,
                                          const rondo_options* options, rondo_work** work, rondo_error** error);

/* Copies block r of the root's `input` to the output of rank r. In place: output is the root's block of its input. */
RONDO_API rondo_code rondo_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                   int32_t root, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                         rondo_dtype dtype, int32_t root, const rondo_options* options,
                                         rondo_work** work, rondo_error** error);

/* Like scatter, but this rank gets `count` elements. Only the root must know all counts; other ranks may pass NULL. */
RONDO_API rondo_code rondo_scatter_v(rondo_comm* comm, const void* input, const uint64_t* counts, void* output,
                                     uint64_t count, rondo_dtype dtype, int32_t root, const rondo_options* options,
                                     rondo_error** error);
RONDO_API rondo_code rondo_scatter_v_async(rondo_comm* comm, const void* input, const uint64_t* counts, void* output,
                                           uint64_t count, rondo_dtype dtype, int32_t root,
                                           const rondo_options* options, rondo_work** work, rondo_error** error);

/* Copies block j of `input` to rank j; block i of `output` comes from rank i. Not in place. */
RONDO_API rondo_code rondo_all_to_all(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_all_to_all_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                            rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                            rondo_error** error);

/* Like all_to_all, but rank j gets input_counts[j] elements, and output_counts[i] elements come from rank i. Each rank
 * knows only its own counts. */
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
 * A fusion copies the added tensors into buckets, one tensor after the other. It reduces each bucket in place as one
 * all-reduce, and copies the results to their outputs. It issues a bucket when the next tensor does not fit, when the
 * bucket is exactly full, when dtype or op change, and on a flush. While one bucket is filled, others may be in flight.
 * A tensor of bucket_bytes or more is reduced alone, without a copy.
 *
 * All ranks must add the same tensors (count, dtype, op) in the same order, and flush at the same places. Buckets are
 * collectives of the communicator like any others. Add, flush and wait issue them, so the thread that issues the
 * communicator's other collectives must call these functions.
 *
 * Input and output may be the same memory. The fusion uses both from add until rondo_fusion_wait or
 * rondo_fusion_wait_for returns RONDO_OK or an error other than RONDO_NOT_READY. It may write the output at any time
 * until then, so the output must not be part of another tensor.
 *
 * An add with wrong arguments adds nothing, and the communicator stays usable. Any other error fails all tensors added
 * since the last wait, and also the communicator. Every later call returns that error again. */

typedef struct rondo_fusion rondo_fusion;

typedef struct rondo_fusion_options {
  size_t size;
  uint64_t bucket_bytes; /* default 4 MiB; equal on all ranks */
  uint32_t buckets;      /* 2 to 64, default 4: 2 to 64, default 4: how many may be in flight; their memory is allocated
                          * once */
  /* The options of every all-reduce, except the scale. They must stay valid until create returns. May be NULL. */
  const rondo_options* operation;
} rondo_fusion_options;
RONDO_API void rondo_fusion_options_init_sized(rondo_fusion_options* options, size_t size);
static inline void rondo_fusion_options_init(rondo_fusion_options* options) {
  rondo_fusion_options_init_sized(options, sizeof *options);
}

/* After the communicator is freed, the only allowed call for its fusions is rondo_fusion_free. */
RONDO_API rondo_code rondo_fusion_create(rondo_comm* comm, const rondo_fusion_options* options, rondo_fusion** fusion,
                                         rondo_error** error);
/* Adds a tensor. `scale` is this rank's factor for RONDO_PREMUL_SUM; add applies it, in the type of the elements. A
 * tensor without elements has no effect. If all buckets are in flight, add waits for the oldest. */
RONDO_API rondo_code rondo_fusion_add(rondo_fusion* fusion, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, rondo_op op, double scale, rondo_error** error);
/* Issues the bucket that is partly filled, if there is one. */
RONDO_API rondo_code rondo_fusion_flush(rondo_fusion* fusion, rondo_error** error);
/* Flushes, and returns when every result is in its output. */
RONDO_API rondo_code rondo_fusion_wait(rondo_fusion* fusion, rondo_error** error);
/* Like rondo_fusion_wait, but waits for at most timeout_ms. After that time it returns RONDO_NOT_READY, and the fusion
 * continues. */
RONDO_API rondo_code rondo_fusion_wait_for(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error);
/* Returns RONDO_OK when the next add will not wait, or RONDO_NOT_READY after timeout_ms. It is for callers that must
 * not block in an add. */
RONDO_API rondo_code rondo_fusion_await_room(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error);
/* Waits for the buckets in flight and drops tensors that were not flushed. NULL is allowed. */
RONDO_API void rondo_fusion_free(rondo_fusion* fusion);

/* ---- messages between two ranks: not ordered with collectives; any thread, any number at once ----
 *
 * A send ends when its buffer may be used again; a large send ends only when the message was received. Of the options
 * only timeout_ms has an effect. A receive's `count` is the capacity of its buffer. If the message is longer or has
 * another dtype, the receive returns RONDO_MISMATCH and the message is lost. If it is shorter, the rest of the buffer
 * stays unchanged. A send or receive that no rank answers in time fails alone; the communicator stays usable. A timeout
 * in the middle of a transfer fails the communicator. Tags are 0 to 2^31 - 1. Messages of one sender and tag arrive in
 * the order in which they were sent. */

RONDO_API rondo_code rondo_send(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype, int32_t to,
                                int32_t tag, const rondo_options* options, rondo_error** error);
RONDO_API rondo_code rondo_send_async(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype,
                                      int32_t to, int32_t tag, const rondo_options* options, rondo_work** work,
                                      rondo_error** error);

/* Receives a message. `message`, which may be NULL, receives its source, tag, dtype and count. */
RONDO_API rondo_code rondo_recv(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype, int32_t from_or_any,
                                int32_t tag_or_any, const rondo_options* options, rondo_message* message,
                                rondo_error** error);
RONDO_API rondo_code rondo_recv_async(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype,
                                      int32_t from_or_any, int32_t tag_or_any, const rondo_options* options,
                                      rondo_work** work, rondo_error** error);

/* Sends and receives at once, so ranks that exchange messages, for example around a ring, cannot deadlock, whatever the
 * size. */
RONDO_API rondo_code rondo_send_recv(rondo_comm* comm, const void* output, uint64_t output_count, int32_t to,
                                     int32_t tag, void* input, uint64_t input_count, int32_t from_or_any,
                                     int32_t tag_or_any, rondo_dtype dtype, const rondo_options* options,
                                     rondo_message* message, rondo_error** error);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_H_ */
