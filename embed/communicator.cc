#include <algorithm>
#include <utility>

#include "collectives/connect.h"
#include "cuda/cuda.h"
#include "embed/handles.h"

namespace rondo::embed {
namespace {

class CallbackLogger final : public Logger {
 public:
  CallbackLogger(void (*log)(void*, rondo_log_level, const char*), void* user) : log_(log), user_(user) {}
  void Write(LogLevel level, std::string_view text) override {
    log_(user_, static_cast<rondo_log_level>(level), std::string(text).c_str());
  }

 private:
  void (*const log_)(void*, rondo_log_level, const char*);
  void* const user_;
};

std::vector<std::string> AtCommas(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Result<Path> PathOf(const std::string& name) {
  if (name.empty() || name == "auto") return Path::kAuto;
  if (name == "tcp") return Path::kTcp;
  if (name == "shm") return Path::kShm;
  if (name == "ib") return Path::kIb;
  return Fail(ErrorCode::kInvalidArgument, "options.transport: expected auto, tcp, shm or ib, got '{}'",
              Printable(name));
}

// The device of the process, shared by all communicators. It is never destroyed, because communicators may outlive
// static objects.
std::shared_ptr<Device> DeviceOfProcess() {
  static const auto* const device = new std::shared_ptr<Device>(OpenCudaLazily());
  return *device;
}

Result<std::shared_ptr<const RankFrame>> FrameOf(const rondo_connect_options& given) {
  if (given.group == nullptr) return nullptr;
  if (given.job_ranks == nullptr || given.world_size < 1)
    return Fail(
        ErrorCode::kInvalidArgument,
        "options.group needs job_ranks and world_size, because they say which ranks are in the group; {} is missing",
        given.job_ranks == nullptr ? "job_ranks" : "world_size");
  return std::make_shared<const RankFrame>(
      RankFrame{Printable(given.group), {given.job_ranks, given.job_ranks + given.world_size}});
}

// `kept` must outlive everything made with the options.
Result<ConnectOptions> OptionsOf(const rondo_connect_options& given, Kept& kept) {
  ConnectOptions options;
  if (given.store != nullptr) {  // handled first, so that the store is released even if another option is wrong
    RONDO_ASSIGN(AdoptedStore adopted, AdoptStoreCallbacks(*given.store));
    options.store = std::move(adopted.store);
    options.keeps_store = adopted.is_kept;
  }
  if (given.log != nullptr) kept.logger = std::make_unique<CallbackLogger>(given.log, given.log_user);
  options.rendezvous = given.rendezvous == nullptr ? "env://" : given.rendezvous;
  if (given.rank < -1)
    return Fail(ErrorCode::kInvalidArgument, "options.rank: expected at least 0, or -1 for none, got {}", given.rank);
  if (given.world_size < 0)
    return Fail(ErrorCode::kInvalidArgument, "options.world_size: expected at least 1, or 0 for none, got {}",
                given.world_size);
  if (given.rank >= 0) options.rank = given.rank;
  if (given.world_size > 0) options.world_size = given.world_size;
  options.job = TextOf(given.job);
  options.token = TextOf(given.token);
  options.generation = given.generation;
  options.external_store = given.external_store != 0;
  options.addresses = AtCommas(TextOf(given.addresses));
  options.interface = TextOf(given.interface_);
  if (given.ports != nullptr && *given.ports != '\0') {
    auto ports = ParsePortRange(given.ports);
    if (!ports) return Fail(ErrorCode::kInvalidArgument, "options.ports: {}", ports.error().message());
    options.ports = *ports;
  }
  RONDO_ASSIGN(options.path, PathOf(TextOf(given.transport)));
  options.rdma_port = TextOf(given.rdma_port);
  if (given.timeout_ms != 0) {
    RONDO_ASSIGN(options.timeout, MillisecondsOf("options.timeout_ms", given.timeout_ms));
  }
  options.environment = ProcessEnvironment;
  options.logger = kept.logger.get();
  options.rebuildable = given.rebuildable != 0;
  options.join = given.join != 0;
  CommunicatorOptions& communicator = options.communicator;
  communicator.rails = given.rails;
  communicator.progress_thread = given.progress_thread != 0;
  communicator.checksums = given.checksums != 0;
  communicator.reproducible = given.reproducible != 0;
  communicator.fp32_accumulate = given.fp32_accumulate != 0;
  communicator.compare_results = given.compare_results != 0;
  communicator.recorded_operations = given.recorded_operations;
  communicator.record_dir = TextOf(given.record_dir);
  communicator.device = DeviceOfProcess();
  RONDO_ASSIGN(communicator.frame, FrameOf(given));
  return options;
}

Result<std::unique_ptr<rondo_comm>> ConnectBy(const rondo_connect_options& given) {
  auto comm = std::make_unique<rondo_comm>();
  comm->kept = std::make_shared<Kept>();
  RONDO_ASSIGN(const ConnectOptions options, OptionsOf(given, *comm->kept));
  RONDO_ASSIGN(comm->communicator, Connect(options));
  return comm;
}

Result<std::unique_ptr<rondo_store>> RendezvousBy(const rondo_connect_options& given, std::int32_t& rank,
                                                  std::int32_t& world_size) {
  auto held = std::make_unique<rondo_store>();
  held->kept = std::make_shared<Kept>();
  RONDO_ASSIGN(const ConnectOptions options, OptionsOf(given, *held->kept));
  RONDO_ASSIGN(RendezvousResult result, Rendezvous(options));
  held->store = std::move(result.store);
  rank = result.rank;
  world_size = result.world_size;
  return held;
}

// Stores `made` in *to. `made` was made from the communicator `from`, and both share from.kept, which outlives them.
Status Give(const rondo_comm& from, std::unique_ptr<Communicator> made, rondo_comm** to) {
  if (made == nullptr) return {};
  auto comm = std::make_unique<rondo_comm>();
  comm->kept = from.kept;
  comm->communicator = std::move(made);
  *to = comm.release();
  return {};
}

Status Give(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration, rondo_memory** to) {
  auto held = std::make_unique<rondo_memory>();
  held->memory = std::move(memory);
  held->registration = std::move(registration);
  *to = held.release();
  return {};
}

bool SameHost(const Communicator& communicator, Rank rank) {
  const PeerIdentity& own = communicator.peer(communicator.rank());
  return rank == communicator.rank() || (!own.host_id.empty() && communicator.peer(rank).host_id == own.host_id);
}

std::int32_t CountLocal(const Communicator& communicator, Rank below) {
  std::int32_t count = 0;
  for (Rank rank = 0; rank < below; ++rank) count += SameHost(communicator, rank) ? 1 : 0;
  return count;
}

}  // namespace
}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

rondo_code rondo_connect(const rondo_connect_options* options, rondo_comm** comm, rondo_error** error) {
  if (comm != nullptr) *comm = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_ASSIGN(const rondo_connect_options known,
                 Known(options, rondo_connect_options_init_sized, "connect_options", "rondo_connect_options_init"));
    RONDO_ASSIGN(auto made, ConnectBy(known));
    *comm = made.release();
    return {};
  });
}

rondo_code rondo_rendezvous(const rondo_connect_options* options, rondo_store** store, int32_t* rank,
                            int32_t* world_size, rondo_error** error) {
  if (store != nullptr) *store = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(rank, "rank"));
    RONDO_TRY(NotNull(world_size, "world_size"));
    RONDO_ASSIGN(const rondo_connect_options known,
                 Known(options, rondo_connect_options_init_sized, "connect_options", "rondo_connect_options_init"));
    RONDO_ASSIGN(auto held, RendezvousBy(known, *rank, *world_size));
    *store = held.release();
    return {};
  });
}

void rondo_comm_free(rondo_comm* comm) { delete comm; }

rondo_code rondo_comm_close(rondo_comm* comm, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    return comm->communicator->Close();
  });
}

rondo_code rondo_comm_leave(rondo_comm* comm, uint64_t patience_ms, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_ASSIGN(const Duration patience, MillisecondsOf("patience_ms", patience_ms));
    return comm->communicator->Leave(patience);
  });
}

void rondo_comm_abort(rondo_comm* comm, const char* reason) {
  if (comm != nullptr) comm->communicator->Abort(reason == nullptr ? "" : reason);
}

void rondo_comm_note_refusal(rondo_comm* comm, const char* call) {
  if (comm != nullptr && call != nullptr) comm->communicator->NoteRefusal(call);
}

rondo_code rondo_comm_failure(rondo_comm* comm, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    if (const auto failure = comm->communicator->failure()) return Fail(*failure);
    return {};
  });
}

int32_t rondo_comm_rank(const rondo_comm* comm) { return comm == nullptr ? kNoRank : comm->communicator->rank(); }

int32_t rondo_comm_world_size(const rondo_comm* comm) { return comm == nullptr ? 0 : comm->communicator->world_size(); }

uint64_t rondo_comm_generation(const rondo_comm* comm) {
  return comm == nullptr ? 0 : comm->communicator->report().generation;
}

const char* rondo_comm_host(const rondo_comm* comm, int32_t rank) {
  if (comm == nullptr || rank < 0 || rank >= comm->communicator->world_size()) return "";
  return comm->communicator->peer(rank).host.c_str();
}

int32_t rondo_comm_local_size(const rondo_comm* comm) {
  return comm == nullptr ? 0 : CountLocal(*comm->communicator, comm->communicator->world_size());
}

int32_t rondo_comm_local_rank(const rondo_comm* comm) {
  return comm == nullptr ? kNoRank : CountLocal(*comm->communicator, comm->communicator->rank());
}

rondo_code rondo_comm_describe(const rondo_comm* comm, rondo_bytes* text, rondo_error** error) {
  if (text != nullptr) *text = {};
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(text, "text"));
    return GiveBytes(comm->communicator->DescribePaths(), text);
  });
}

rondo_code rondo_comm_records(const rondo_comm* comm, const char* reason, rondo_bytes* json, rondo_error** error) {
  if (json != nullptr) *json = {};
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(json, "json"));
    return GiveBytes(comm->communicator->DumpRecords(reason == nullptr ? "call" : reason), json);
  });
}

rondo_code rondo_comm_split(rondo_comm* comm, int32_t color, int32_t key, rondo_comm** part, rondo_error** error) {
  if (part != nullptr) *part = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(part, "part"));
    RONDO_ASSIGN(auto made, comm->communicator->Split(color, key));
    return Give(*comm, std::move(made), part);
  });
}

rondo_code rondo_comm_rebuild(rondo_comm* comm, const rondo_rebuild_options* options, rondo_comm** next,
                              rondo_error** error) {
  if (next != nullptr) *next = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(next, "next"));
    RONDO_ASSIGN(const rondo_rebuild_options known,
                 Known(options, rondo_rebuild_options_init_sized, "rebuild_options", "rondo_rebuild_options_init"));
    RebuildOptions asked;
    asked.min_ranks = known.min_ranks;
    asked.max_ranks = known.max_ranks;
    RONDO_ASSIGN(asked.settle, MillisecondsOf("options.settle_ms", known.settle_ms));
    if (known.timeout_ms != 0) {
      RONDO_ASSIGN(asked.timeout, MillisecondsOf("options.timeout_ms", known.timeout_ms));
    }
    RONDO_ASSIGN(auto made, comm->communicator->Rebuild(asked));
    return Give(*comm, std::move(made), next);
  });
}

int32_t rondo_comm_old_rank(const rondo_comm* comm, int32_t rank) {
  if (comm == nullptr || rank < 0) return kNoRank;
  const std::vector<Rank>& old = comm->communicator->report().old_ranks;
  return static_cast<std::size_t>(rank) < old.size() ? old[static_cast<std::size_t>(rank)] : kNoRank;
}

rondo_code rondo_comm_allocate(rondo_comm* comm, size_t bytes, rondo_memory** memory, void** data,
                               rondo_error** error) {
  if (memory != nullptr) *memory = nullptr;
  if (data != nullptr) *data = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(memory, "memory"));
    RONDO_TRY(NotNull(data, "data"));
    RONDO_ASSIGN(auto made, comm->communicator->Allocate(bytes));
    void* const there = made->bytes().data();
    RONDO_TRY(Give(std::move(made), nullptr, memory));
    *data = there;
    return {};
  });
}

rondo_code rondo_comm_register(rondo_comm* comm, void* data, size_t bytes, rondo_memory** memory, rondo_error** error) {
  if (memory != nullptr) *memory = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(memory, "memory"));
    RONDO_TRY(NotNull(data, "data"));
    RONDO_ASSIGN(auto made, comm->communicator->Register({static_cast<std::byte*>(data), bytes}));
    return Give(nullptr, std::move(made), memory);
  });
}

void rondo_memory_free(rondo_memory* memory) { delete memory; }

rondo_code rondo_comm_define_op(rondo_comm* comm, const char* name, int commutative, rondo_combine combine, void* user,
                                rondo_op* op, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(name, "name"));
    RONDO_TRY(NotNull(op, "op"));
    RONDO_TRY(NotNull(reinterpret_cast<const void*>(combine), "combine"));
    UserOperation operation;
    operation.name = name;
    operation.commutative = commutative != 0;
    operation.combine = [combine, user](const void* left, const void* right, void* output, std::size_t elements,
                                        DataType type) {
      combine(user, left, right, output, elements, static_cast<rondo_dtype>(type));
    };
    RONDO_ASSIGN(const ReduceOp defined, comm->communicator->DefineOperation(std::move(operation)));
    *op = static_cast<rondo_op>(defined);
    return {};
  });
}
