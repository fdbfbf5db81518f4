// Rondo for C++17: a header-only layer over the C interface. rondo.h documents every call.
//
//   rondo::Comm comm = rondo::Comm::Connect();                  // env://
//   std::vector<float> gradients = ...;
//   comm.AllReduce(gradients.data(), gradients.data(), gradients.size(), RONDO_AVG);
//
// A failed call throws rondo::Error, which holds every field of a rondo_error. Handles can be moved, not copied; a
// handle's destructor frees its object. Element types are those that ElementOf accepts. For 16-bit floats, pass get()
// to the functions of rondo.h.
#ifndef RONDO_HPP_
#define RONDO_HPP_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rondo.h"

namespace rondo {

class Error : public std::runtime_error {
 public:
  // Takes ownership of `error`. Null means that there was no memory for an error.
  Error(rondo_code code, rondo_error* error)
      : std::runtime_error(error != nullptr ? error->text : rondo_code_name(code)),
        code_(code),
        error_(error, rondo_error_free) {}

  rondo_code code() const { return code_; }
  int culprit() const { return error_ != nullptr ? error_->culprit : -1; }
  // All fields of the error; null only if there was no memory for them.
  const rondo_error* details() const { return error_.get(); }

 private:
  rondo_code code_;
  std::shared_ptr<rondo_error> error_;  // shared, because exceptions are copied
};

// Calls `call` with a rondo_error**, and throws an Error if the call fails.
template <typename Call>
void ThrowIfFailed(Call&& call) {
  rondo_error* error = nullptr;
  if (const rondo_code code = call(&error); code != RONDO_OK) throw Error(code, error);
}

template <typename T>
constexpr rondo_dtype ElementOf() {
  using Plain = std::remove_cv_t<T>;
  constexpr bool kInteger = std::is_integral_v<Plain> && !std::is_same_v<Plain, bool>;
  static_assert(
      kInteger || std::is_same_v<Plain, bool> || std::is_same_v<Plain, float> || std::is_same_v<Plain, double>,
      "Rondo does not support this element type; for 16-bit floats use the functions of rondo.h and get()");
  if constexpr (std::is_same_v<Plain, bool>) return RONDO_BOOL;
  if constexpr (std::is_same_v<Plain, float>) return RONDO_FLOAT32;
  if constexpr (std::is_same_v<Plain, double>) return RONDO_FLOAT64;
  if constexpr (kInteger && sizeof(Plain) == 1) return std::is_signed_v<Plain> ? RONDO_INT8 : RONDO_UINT8;
  if constexpr (kInteger && sizeof(Plain) == 4) return std::is_signed_v<Plain> ? RONDO_INT32 : RONDO_UINT32;
  if constexpr (kInteger && sizeof(Plain) == 8) return std::is_signed_v<Plain> ? RONDO_INT64 : RONDO_UINT64;
  static_assert(!kInteger || sizeof(Plain) != 2, "Rondo has no 16-bit integers");
}

// The options of an operation. Chained calls change the defaults: Options().Timeout(5s).Algorithm("ring"). The text
// `algorithm` must live as long as the Options are used.
class Options {
 public:
  Options() { rondo_options_init(&options_); }
  Options& Timeout(std::chrono::milliseconds timeout) {
    options_.timeout_ms = static_cast<std::uint64_t>(timeout.count());
    return *this;
  }
  Options& Algorithm(const char* algorithm) {
    options_.algorithm = algorithm;
    return *this;
  }
  Options& Scale(double scale) {
    options_.scale = scale;
    return *this;
  }
  Options& Reproducible(bool yes) {
    options_.reproducible = yes ? RONDO_YES : RONDO_NO;
    return *this;
  }
  Options& Fp32Accumulate(bool yes) {
    options_.fp32_accumulate = yes ? RONDO_YES : RONDO_NO;
    return *this;
  }
  Options& CompareResults(bool yes) {
    options_.compare_results = yes ? RONDO_YES : RONDO_NO;
    return *this;
  }
  // The buffers are in memory of a GPU, and the operation is put on `stream`, a cudaStream_t. If `waits` is true, work
  // that is put on the stream later waits for the operation.
  Options& OnCuda(void* stream, bool waits = true) {
    options_.memory = RONDO_MEMORY_CUDA;
    options_.stream = stream;
    options_.stream_waits = waits ? RONDO_YES : RONDO_NO;
    return *this;
  }
  const rondo_options* get() const { return &options_; }

 private:
  rondo_options options_;
};

// An operation in flight. The destructor calls rondo_work_free: the operation continues and uses its buffers until it
// is final.
class Work {
 public:
  explicit Work(rondo_work* work) : work_(work, rondo_work_free) {}

  void Wait() {
    ThrowIfFailed([&](rondo_error** error) { return rondo_work_wait(work_.get(), error); });
  }
  // Returns whether the operation is final. Throws if it has failed.
  bool WaitFor(std::chrono::milliseconds timeout) {
    const auto ms = static_cast<std::uint64_t>(timeout.count());
    return IsFinal([&](rondo_error** error) { return rondo_work_wait_for(work_.get(), ms, error); });
  }
  bool Test() {
    return IsFinal([&](rondo_error** error) { return rondo_work_test(work_.get(), error); });
  }
  // The message of a receive that has ended with success; otherwise nullopt.
  std::optional<rondo_message> message() const {
    rondo_message came{};
    if (rondo_work_message(work_.get(), &came) != RONDO_OK) return std::nullopt;
    return came;
  }
  rondo_work* get() const { return work_.get(); }

 private:
  template <typename Call>
  static bool IsFinal(Call&& call) {
    rondo_error* error = nullptr;
    const rondo_code code = call(&error);
    if (code == RONDO_NOT_READY) rondo_error_free(error);
    if (code != RONDO_OK && code != RONDO_NOT_READY) throw Error(code, error);
    return code == RONDO_OK;
  }

  std::unique_ptr<rondo_work, void (*)(rondo_work*)> work_;
};

class Comm {
 public:
  explicit Comm(rondo_comm* comm) : comm_(comm, rondo_comm_free) {}
  static Comm Connect(const rondo_connect_options& options) {
    rondo_comm* comm = nullptr;
    ThrowIfFailed([&](rondo_error** error) { return rondo_connect(&options, &comm, error); });
    return Comm(comm);
  }
  static Comm Connect() {
    rondo_connect_options options;
    rondo_connect_options_init(&options);
    return Connect(options);
  }

  int rank() const { return rondo_comm_rank(get()); }
  int world_size() const { return rondo_comm_world_size(get()); }
  std::string host(int rank) const { return rondo_comm_host(get(), rank); }
  rondo_comm* get() const { return comm_.get(); }

  void Close() {
    ThrowIfFailed([&](rondo_error** error) { return rondo_comm_close(get(), error); });
  }
  void Leave(std::chrono::milliseconds patience) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_comm_leave(get(), static_cast<std::uint64_t>(patience.count()), error);
    });
  }
  void Abort(const std::string& reason) { rondo_comm_abort(get(), reason.c_str()); }
  void NoteRefusal(const std::string& call) { rondo_comm_note_refusal(get(), call.c_str()); }
  // Returns nullopt if the color is negative.
  std::optional<Comm> Split(int color, int key) {
    rondo_comm* part = nullptr;
    ThrowIfFailed([&](rondo_error** error) { return rondo_comm_split(get(), color, key, &part, error); });
    return part != nullptr ? std::optional<Comm>(Comm(part)) : std::nullopt;
  }
  Comm Rebuild(const rondo_rebuild_options& options) {
    rondo_comm* next = nullptr;
    ThrowIfFailed([&](rondo_error** error) { return rondo_comm_rebuild(get(), &options, &next, error); });
    return Comm(next);
  }

  template <typename T>
  void AllReduce(const T* input, T* output, std::uint64_t count, rondo_op op, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_all_reduce(get(), input, output, count, ElementOf<T>(), op, options.get(), error);
    });
  }
  template <typename T>
  Work AllReduceAsync(const T* input, T* output, std::uint64_t count, rondo_op op, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_all_reduce_async(get(), input, output, count, ElementOf<T>(), op, options.get(), work, error);
    });
  }

  template <typename T>
  void Reduce(const T* input, T* output, std::uint64_t count, rondo_op op, int root, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_reduce(get(), input, output, count, ElementOf<T>(), op, root, options.get(), error);
    });
  }
  template <typename T>
  Work ReduceAsync(const T* input, T* output, std::uint64_t count, rondo_op op, int root, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_reduce_async(get(), input, output, count, ElementOf<T>(), op, root, options.get(), work, error);
    });
  }

  template <typename T>
  void Broadcast(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_broadcast(get(), input, output, count, ElementOf<T>(), root, options.get(), error);
    });
  }
  template <typename T>
  Work BroadcastAsync(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_broadcast_async(get(), input, output, count, ElementOf<T>(), root, options.get(), work, error);
    });
  }

  template <typename T>
  void AllGather(const T* input, T* output, std::uint64_t count, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_all_gather(get(), input, output, count, ElementOf<T>(), options.get(), error);
    });
  }
  template <typename T>
  Work AllGatherAsync(const T* input, T* output, std::uint64_t count, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_all_gather_async(get(), input, output, count, ElementOf<T>(), options.get(), work, error);
    });
  }

  template <typename T>
  void AllGatherV(const T* input, T* output, const std::uint64_t* counts, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_all_gather_v(get(), input, output, counts, ElementOf<T>(), options.get(), error);
    });
  }
  template <typename T>
  Work AllGatherVAsync(const T* input, T* output, const std::uint64_t* counts, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_all_gather_v_async(get(), input, output, counts, ElementOf<T>(), options.get(), work, error);
    });
  }

  template <typename T>
  void ReduceScatter(const T* input, T* output, std::uint64_t count, rondo_op op, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_reduce_scatter(get(), input, output, count, ElementOf<T>(), op, options.get(), error);
    });
  }
  template <typename T>
  Work ReduceScatterAsync(const T* input, T* output, std::uint64_t count, rondo_op op, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_reduce_scatter_async(get(), input, output, count, ElementOf<T>(), op, options.get(), work, error);
    });
  }

  template <typename T>
  void ReduceScatterV(const T* input, T* output, const std::uint64_t* counts, rondo_op op,
                      const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_reduce_scatter_v(get(), input, output, counts, ElementOf<T>(), op, options.get(), error);
    });
  }
  template <typename T>
  Work ReduceScatterVAsync(const T* input, T* output, const std::uint64_t* counts, rondo_op op,
                           const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_reduce_scatter_v_async(get(), input, output, counts, ElementOf<T>(), op, options.get(), work, error);
    });
  }

  template <typename T>
  void Gather(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_gather(get(), input, output, count, ElementOf<T>(), root, options.get(), error);
    });
  }
  template <typename T>
  Work GatherAsync(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_gather_async(get(), input, output, count, ElementOf<T>(), root, options.get(), work, error);
    });
  }

  template <typename T>
  void GatherV(const T* input, std::uint64_t count, T* output, const std::uint64_t* counts, int root,
               const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_gather_v(get(), input, count, output, counts, ElementOf<T>(), root, options.get(), error);
    });
  }
  template <typename T>
  Work GatherVAsync(const T* input, std::uint64_t count, T* output, const std::uint64_t* counts, int root,
                    const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_gather_v_async(get(), input, count, output, counts, ElementOf<T>(), root, options.get(), work,
                                  error);
    });
  }

  template <typename T>
  void Scatter(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_scatter(get(), input, output, count, ElementOf<T>(), root, options.get(), error);
    });
  }
  template <typename T>
  Work ScatterAsync(const T* input, T* output, std::uint64_t count, int root, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_scatter_async(get(), input, output, count, ElementOf<T>(), root, options.get(), work, error);
    });
  }

  template <typename T>
  void ScatterV(const T* input, const std::uint64_t* counts, T* output, std::uint64_t count, int root,
                const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_scatter_v(get(), input, counts, output, count, ElementOf<T>(), root, options.get(), error);
    });
  }
  template <typename T>
  Work ScatterVAsync(const T* input, const std::uint64_t* counts, T* output, std::uint64_t count, int root,
                     const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_scatter_v_async(get(), input, counts, output, count, ElementOf<T>(), root, options.get(), work,
                                   error);
    });
  }

  template <typename T>
  void AllToAll(const T* input, T* output, std::uint64_t count, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_all_to_all(get(), input, output, count, ElementOf<T>(), options.get(), error);
    });
  }
  template <typename T>
  Work AllToAllAsync(const T* input, T* output, std::uint64_t count, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_all_to_all_async(get(), input, output, count, ElementOf<T>(), options.get(), work, error);
    });
  }

  template <typename T>
  void AllToAllV(const T* input, const std::uint64_t* input_counts, T* output, const std::uint64_t* output_counts,
                 const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_all_to_all_v(get(), input, input_counts, output, output_counts, ElementOf<T>(), options.get(),
                                error);
    });
  }
  template <typename T>
  Work AllToAllVAsync(const T* input, const std::uint64_t* input_counts, T* output, const std::uint64_t* output_counts,
                      const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_all_to_all_v_async(get(), input, input_counts, output, output_counts, ElementOf<T>(), options.get(),
                                      work, error);
    });
  }

  void Barrier(const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) { return rondo_barrier(get(), options.get(), error); });
  }
  Work BarrierAsync(const Options& options = {}) {
    return Start(
        [&](rondo_work** work, rondo_error** error) { return rondo_barrier_async(get(), options.get(), work, error); });
  }

  template <typename T>
  void Send(const T* buffer, std::uint64_t count, int to, int tag, const Options& options = {}) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_send(get(), buffer, count, ElementOf<T>(), to, tag, options.get(), error);
    });
  }
  template <typename T>
  Work SendAsync(const T* buffer, std::uint64_t count, int to, int tag, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_send_async(get(), buffer, count, ElementOf<T>(), to, tag, options.get(), work, error);
    });
  }

  template <typename T>
  rondo_message Recv(T* buffer, std::uint64_t count, int from_or_any, int tag_or_any, const Options& options = {}) {
    rondo_message came{};
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_recv(get(), buffer, count, ElementOf<T>(), from_or_any, tag_or_any, options.get(), &came, error);
    });
    return came;
  }
  template <typename T>
  Work RecvAsync(T* buffer, std::uint64_t count, int from_or_any, int tag_or_any, const Options& options = {}) {
    return Start([&](rondo_work** work, rondo_error** error) {
      return rondo_recv_async(get(), buffer, count, ElementOf<T>(), from_or_any, tag_or_any, options.get(), work,
                              error);
    });
  }

  // Sends and receives at once. `output` is sent to rank `to`; `input` receives the message from `from_or_any`.
  template <typename T>
  rondo_message SendRecv(const T* output, std::uint64_t output_count, int to, int tag, T* input,
                         std::uint64_t input_count, int from_or_any, int tag_or_any, const Options& options = {}) {
    rondo_message came{};
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_send_recv(get(), output, output_count, to, tag, input, input_count, from_or_any, tag_or_any,
                             ElementOf<T>(), options.get(), &came, error);
    });
    return came;
  }

 private:
  template <typename Call>
  static Work Start(Call&& call) {
    rondo_work* work = nullptr;
    ThrowIfFailed([&](rondo_error** error) { return call(&work, error); });
    return Work(work);
  }

  std::unique_ptr<rondo_comm, void (*)(rondo_comm*)> comm_;
};

// Combines many small all-reduces into few large ones. rondo.h says when buckets are issued and how long memory is
// used.
class Fusion {
 public:
  Fusion(Comm& comm, const rondo_fusion_options& options) : fusion_(nullptr, rondo_fusion_free) {
    rondo_fusion* fusion = nullptr;
    ThrowIfFailed([&](rondo_error** error) { return rondo_fusion_create(comm.get(), &options, &fusion, error); });
    fusion_.reset(fusion);
  }
  // A fusion with default options and buckets of `bucket_bytes` bytes.
  Fusion(Comm& comm, std::uint64_t bucket_bytes) : Fusion(comm, WithBuckets(bucket_bytes)) {}

  template <typename T>
  void Add(const T* input, T* output, std::uint64_t count, rondo_op op, double scale = 1) {
    ThrowIfFailed([&](rondo_error** error) {
      return rondo_fusion_add(get(), input, output, count, ElementOf<T>(), op, scale, error);
    });
  }
  void Flush() {
    ThrowIfFailed([&](rondo_error** error) { return rondo_fusion_flush(get(), error); });
  }
  void Wait() {
    ThrowIfFailed([&](rondo_error** error) { return rondo_fusion_wait(get(), error); });
  }
  rondo_fusion* get() const { return fusion_.get(); }

 private:
  static rondo_fusion_options WithBuckets(std::uint64_t bucket_bytes) {
    rondo_fusion_options options;
    rondo_fusion_options_init(&options);
    options.bucket_bytes = bucket_bytes;
    return options;
  }

  std::unique_ptr<rondo_fusion, void (*)(rondo_fusion*)> fusion_;
};

}  // namespace rondo

#endif  // RONDO_HPP_
