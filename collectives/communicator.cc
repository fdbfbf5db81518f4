#include "collectives/communicator.h"

#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "collectives/communicator_core.h"

namespace rondo {
namespace {

using Counts = std::span<const std::uint64_t>;

OperationRequest Request(Collective collective, const void* input, void* output, std::uint64_t count, DataType type) {
  OperationRequest request;
  request.descriptor = {.count = count, .collective = collective, .type = type};
  request.input = input;
  request.output = output;
  return request;
}

// Reducing and the next two functions return the request that they are given. It belongs to the caller's expression and
// lives as long as the call.
OperationRequest&& Reducing(OperationRequest&& request, ReduceOp op) {
  request.descriptor.op = op;
  return std::move(request);
}

OperationRequest&& Rooted(OperationRequest&& request, Rank root) {
  request.descriptor.root = root;
  return std::move(request);
}

OperationRequest&& Varying(OperationRequest&& request, Counts input_counts, Counts output_counts) {
  request.descriptor.varying = true;
  request.input_counts = input_counts;
  request.output_counts = output_counts;
  return std::move(request);
}

MessageRequest CallOf(const Communicator::Outgoing& out, DataType type, const MessageOptions& options) {
  return {.sends = true,
          .buffer = const_cast<void*>(out.buffer),  // sends never write through their buffer
          .count = out.count,
          .peer = out.to,
          .tag = out.tag,
          .type = type,
          .timeout = options.timeout};
}

MessageRequest CallOf(const Communicator::Incoming& in, DataType type, const MessageOptions& options) {
  return {.buffer = in.buffer,
          .count = in.count,
          .peer = in.from_or_any,
          .tag = in.tag_or_any,
          .type = type,
          .timeout = options.timeout};
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorCore> core) : core_(std::move(core)) {}
Communicator::~Communicator() {
  if (core_->IsInItsProcess()) {
    core_->Destroy();
    return;
  }
  // This process is a forked child. It has no progress thread, and it shares sockets and shared memory with its parent.
  // It must not send or release anything, so the core is leaked on purpose.
  (void)new (std::nothrow) std::shared_ptr(core_);
}

Result<std::unique_ptr<Communicator>> Communicator::Create(CommunicatorOptions options) {
  RONDO_ASSIGN(const auto core, CommunicatorCore::Create(std::move(options)));
  return Own(core);
}

Result<std::unique_ptr<Communicator>> Communicator::Own(const std::shared_ptr<CommunicatorCore>& core) {
  std::unique_ptr<Communicator> owner(new (std::nothrow) Communicator(core));
  if (owner != nullptr) return owner;
  core->Abort("memory ran out");
  core->Destroy();
  return Fail(OutOfMemoryWhile("making a communicator"));
}

Rank Communicator::rank() const { return core_->rank(); }
int Communicator::world_size() const { return core_->world_size(); }

Status Communicator::AllReduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                               const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Reducing(Request(Collective::kAllReduce, input, output, count, type), op), options));
}
Work Communicator::AllReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                                  const OperationOptions& options) {
  return core_->RunAsync(Reducing(Request(Collective::kAllReduce, input, output, count, type), op), options);
}

Status Communicator::Reduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, Rank root,
                            const OperationOptions& options) {
  return core_->names().Framed(core_->issuer().Run(
      Rooted(Reducing(Request(Collective::kReduce, input, output, count, type), op), root), options));
}
Work Communicator::ReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                               Rank root, const OperationOptions& options) {
  return core_->RunAsync(Rooted(Reducing(Request(Collective::kReduce, input, output, count, type), op), root), options);
}

Status Communicator::Broadcast(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                               const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Rooted(Request(Collective::kBroadcast, input, output, count, type), root), options));
}
Work Communicator::BroadcastAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                                  const OperationOptions& options) {
  return core_->RunAsync(Rooted(Request(Collective::kBroadcast, input, output, count, type), root), options);
}

Status Communicator::AllGather(const void* input, void* output, std::uint64_t count, DataType type,
                               const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Request(Collective::kAllGather, input, output, count, type), options));
}
Work Communicator::AllGatherAsync(const void* input, void* output, std::uint64_t count, DataType type,
                                  const OperationOptions& options) {
  return core_->RunAsync(Request(Collective::kAllGather, input, output, count, type), options);
}

Status Communicator::AllGatherV(const void* input, void* output, Counts counts, DataType type,
                                const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Varying(Request(Collective::kAllGather, input, output, 0, type), {}, counts), options));
}
Work Communicator::AllGatherVAsync(const void* input, void* output, Counts counts, DataType type,
                                   const OperationOptions& options) {
  return core_->RunAsync(Varying(Request(Collective::kAllGather, input, output, 0, type), {}, counts), options);
}

Status Communicator::ReduceScatter(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                                   const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Reducing(Request(Collective::kReduceScatter, input, output, count, type), op), options));
}
Work Communicator::ReduceScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                                      const OperationOptions& options) {
  return core_->RunAsync(Reducing(Request(Collective::kReduceScatter, input, output, count, type), op), options);
}

Status Communicator::ReduceScatterV(const void* input, void* output, Counts counts, DataType type, ReduceOp op,
                                    const OperationOptions& options) {
  return core_->names().Framed(core_->issuer().Run(
      Varying(Reducing(Request(Collective::kReduceScatter, input, output, 0, type), op), counts, {}), options));
}
Work Communicator::ReduceScatterVAsync(const void* input, void* output, Counts counts, DataType type, ReduceOp op,
                                       const OperationOptions& options) {
  return core_->RunAsync(Varying(Reducing(Request(Collective::kReduceScatter, input, output, 0, type), op), counts, {}),
                         options);
}

Status Communicator::Gather(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                            const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Rooted(Request(Collective::kGather, input, output, count, type), root), options));
}
Work Communicator::GatherAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                               const OperationOptions& options) {
  return core_->RunAsync(Rooted(Request(Collective::kGather, input, output, count, type), root), options);
}

Status Communicator::GatherV(const void* input, std::uint64_t count, void* output, Counts counts, DataType type,
                             Rank root, const OperationOptions& options) {
  return core_->names().Framed(core_->issuer().Run(
      Varying(Rooted(Request(Collective::kGather, input, output, count, type), root), {}, counts), options));
}
Work Communicator::GatherVAsync(const void* input, std::uint64_t count, void* output, Counts counts, DataType type,
                                Rank root, const OperationOptions& options) {
  return core_->RunAsync(Varying(Rooted(Request(Collective::kGather, input, output, count, type), root), {}, counts),
                         options);
}

Status Communicator::Scatter(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                             const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Rooted(Request(Collective::kScatter, input, output, count, type), root), options));
}
Work Communicator::ScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                                const OperationOptions& options) {
  return core_->RunAsync(Rooted(Request(Collective::kScatter, input, output, count, type), root), options);
}

Status Communicator::ScatterV(const void* input, Counts counts, void* output, std::uint64_t count, DataType type,
                              Rank root, const OperationOptions& options) {
  return core_->names().Framed(core_->issuer().Run(
      Varying(Rooted(Request(Collective::kScatter, input, output, count, type), root), counts, {}), options));
}
Work Communicator::ScatterVAsync(const void* input, Counts counts, void* output, std::uint64_t count, DataType type,
                                 Rank root, const OperationOptions& options) {
  return core_->RunAsync(Varying(Rooted(Request(Collective::kScatter, input, output, count, type), root), counts, {}),
                         options);
}

Status Communicator::AllToAll(const void* input, void* output, std::uint64_t count, DataType type,
                              const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Request(Collective::kAllToAll, input, output, count, type), options));
}
Work Communicator::AllToAllAsync(const void* input, void* output, std::uint64_t count, DataType type,
                                 const OperationOptions& options) {
  return core_->RunAsync(Request(Collective::kAllToAll, input, output, count, type), options);
}

Status Communicator::AllToAllV(const void* input, Counts input_counts, void* output, Counts output_counts,
                               DataType type, const OperationOptions& options) {
  return core_->names().Framed(core_->issuer().Run(
      Varying(Request(Collective::kAllToAll, input, output, 0, type), input_counts, output_counts), options));
}
Work Communicator::AllToAllVAsync(const void* input, Counts input_counts, void* output, Counts output_counts,
                                  DataType type, const OperationOptions& options) {
  return core_->RunAsync(Varying(Request(Collective::kAllToAll, input, output, 0, type), input_counts, output_counts),
                         options);
}

Status Communicator::Barrier(const OperationOptions& options) {
  return core_->names().Framed(
      core_->issuer().Run(Request(Collective::kBarrier, nullptr, nullptr, 0, DataType::kUint8), options));
}
Work Communicator::BarrierAsync(const OperationOptions& options) {
  return core_->RunAsync(Request(Collective::kBarrier, nullptr, nullptr, 0, DataType::kUint8), options);
}

Result<ReduceOp> Communicator::DefineOperation(UserOperation operation) {
  return core_->names().Framed(core_->DefineOperation(std::move(operation)));
}

Status Communicator::Send(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                          const MessageOptions& options) {
  return core_->names().Framed(core_->messages().Send(CallOf(Outgoing{buffer, count, to, tag}, type, options)));
}
Result<Message> Communicator::Recv(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                                   const MessageOptions& options) {
  return core_->names().Framed(
      core_->messages().Receive(CallOf(Incoming{buffer, count, from_or_any, tag_or_any}, type, options)));
}
Work Communicator::SendAsync(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                             const MessageOptions& options) {
  return core_->StartMessage(CallOf(Outgoing{buffer, count, to, tag}, type, options));
}
Work Communicator::RecvAsync(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                             const MessageOptions& options) {
  return core_->StartMessage(CallOf(Incoming{buffer, count, from_or_any, tag_or_any}, type, options));
}
Result<Message> Communicator::SendRecv(const Outgoing& out, const Incoming& in, DataType type,
                                       const MessageOptions& options) {
  return core_->names().Framed(core_->messages().SendAndReceive(CallOf(out, type, options), CallOf(in, type, options)));
}

Result<std::unique_ptr<Communicator>> Communicator::Split(int color, int key, const GroupOptions& options) {
  return core_->names().Framed(core_->Split(color, key, options));
}

Result<std::unique_ptr<Memory>> Communicator::Allocate(std::size_t bytes) {
  return OrOutOfMemory("allocating", [&] { return core_->options().transport->Allocate(bytes); });
}
Result<std::unique_ptr<Registration>> Communicator::Register(MutableBytes memory) {
  return OrOutOfMemory("registering", [&] { return core_->options().transport->Register(memory); });
}

void Communicator::Abort(std::string_view reason) { core_->Abort(reason); }
void Communicator::NoteRefusal(std::string_view call) {
  IfMemoryAllows([&] { core_->closing().NoteRefusal(call); });
}
Status Communicator::Close() { return core_->names().Framed(core_->closing().Close()); }
Status Communicator::Leave(Duration patience) { return core_->names().Framed(core_->closing().Leave(patience)); }
Result<std::unique_ptr<Communicator>> Communicator::Rebuild(const RebuildOptions& options) {
  return core_->names().Framed(core_->Rebuild(options));
}
const RebuildReport& Communicator::report() const { return core_->options().report; }
bool Communicator::Progress() { return core_->operation_progress().ProgressOnce(); }
std::optional<Error> Communicator::failure() const {
  core_->graphs().Check();
  const std::optional<Error> failed = core_->failure();
  return failed ? std::optional(core_->names().FramedError(*failed)) : std::nullopt;
}
std::string Communicator::Transports() const { return core_->Transports(); }

std::string Communicator::DescribePaths() const { return core_->DescribePaths(); }
const PeerIdentity& Communicator::peer(Rank rank) const { return core_->peer(rank); }
PeerPath Communicator::PathTo(Rank peer) const { return core_->PathTo(peer); }

std::string Communicator::DumpRecords(std::string_view reason) const { return core_->DumpRecords(reason); }
Result<std::string> Communicator::WriteRecords(std::string_view reason) const {
  return OrOutOfMemory("writing records", [&] { return core_->WriteRecords(reason); });
}

const Topology& Communicator::topology() const { return core_->checker().topology(); }

Result<Communicator::Choice> Communicator::Choose(const Question& question, const OperationOptions& options) const {
  OperationDescriptor descriptor{.count = question.count,
                                 .collective = question.collective,
                                 .type = question.type,
                                 .op = question.op,
                                 .varying = question.varying};
  RONDO_TRY(core_->checker().CheckOperation(descriptor));
  descriptor.type = core_->checker().TravellingType(descriptor, options);
  RONDO_ASSIGN(const Selection selection, core_->checker().Choose(descriptor, options));
  const bool bytes_known = !question.varying || question.collective == Collective::kAllGather ||
                           question.collective == Collective::kReduceScatter;
  if (!bytes_known) return Choice{selection.algorithm, selection.reason};
  const Candidate expected = core_->checker().Expect(descriptor, options, selection.algorithm);
  return Choice{selection.algorithm, selection.reason, expected.us, expected.measured};
}

// ---- Work ----

Status Work::Wait() {
  if (refused_) return Fail(*refused_);
  if (core_ == nullptr) return Fail(ErrorCode::kInvalidArgument, "this Work is empty: it belongs to no operation");
  if (operation_ != nullptr) return core_->names().Framed(core_->messages().WaitFor(*operation_, TimePoint::max()));
  return core_->names().Framed(core_->operation_progress().WaitFor(sequence_, TimePoint::max()));
}

Status Work::Wait(TimePoint deadline) {
  if (refused_) return Fail(*refused_);
  if (core_ == nullptr) return Fail(ErrorCode::kInvalidArgument, "this Work is empty: it belongs to no operation");
  if (operation_ != nullptr) return core_->names().Framed(core_->messages().WaitFor(*operation_, deadline));
  return core_->names().Framed(core_->operation_progress().WaitFor(sequence_, deadline));
}

std::optional<Status> Work::Test() {
  if (refused_) return Status(Fail(*refused_));
  if (core_ == nullptr)
    return Status(Fail(ErrorCode::kInvalidArgument, "this Work is empty: it belongs to no operation"));
  core_->operation_progress().ProgressOnce();  // does nothing if another thread already advances the engine
  std::optional<Status> ended = operation_ != nullptr ? core_->messages().FinalStatus(*operation_)
                                                      : core_->operation_progress().FinalStatus(sequence_);
  if (ended) ended = core_->names().Framed(*std::move(ended));
  return ended;
}

std::optional<Message> Work::message() const {
  if (operation_ == nullptr || operation_->sends || !operation_->final.load() || operation_->error) return std::nullopt;
  return operation_->message;
}

void Work::Then(std::function<void(const Status&)> done) {
  if (refused_) return done(Fail(*refused_));
  if (core_ == nullptr)
    return done(Fail(ErrorCode::kInvalidArgument, "this Work is empty: it belongs to no operation"));
  if (core_->options().frame != nullptr)
    done = [core = core_.get(), then = std::move(done)](const Status& ended) {
      then(core->names().Framed(Status(ended)));
    };
  core_->operation_progress().Then(sequence_, operation_, std::move(done));
}

}  // namespace rondo
