#include "collectives/communicator.h"

#include <utility>

#include "collectives/algorithms/table.h"
#include "collectives/communicator_core.h"
#include "collectives/select.h"

namespace rondo {
namespace {

OperationRequest AllReduceRequest(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op) {
  OperationRequest request;
  request.descriptor = {.count = count, .collective = Collective::kAllReduce, .type = type, .op = op};
  request.input = input;
  request.output = output;
  return request;
}

OperationRequest BroadcastRequest(const void* input, void* output, std::uint64_t count, DataType type, Rank root) {
  OperationRequest request;
  request.descriptor = {.count = count, .collective = Collective::kBroadcast, .type = type, .root = root};
  request.input = input;
  request.output = output;
  return request;
}

OperationRequest BarrierRequest() {
  OperationRequest request;
  request.descriptor = {.collective = Collective::kBarrier};
  return request;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorCore> core) : core_(std::move(core)) {}
Communicator::~Communicator() { core_->Destroy(); }

Result<std::unique_ptr<Communicator>> Communicator::Create(CommunicatorOptions options) {
  RONDO_ASSIGN(auto core, CommunicatorCore::Create(std::move(options)));
  return std::unique_ptr<Communicator>(new Communicator(std::move(core)));
}

Rank Communicator::rank() const { return core_->rank(); }
int Communicator::world_size() const { return core_->world_size(); }

Status Communicator::AllReduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                               const OperationOptions& options) {
  return core_->Run(AllReduceRequest(input, output, count, type, op), options);
}
Work Communicator::AllReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                                  const OperationOptions& options) {
  return core_->RunAsync(AllReduceRequest(input, output, count, type, op), options);
}

Status Communicator::Broadcast(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                               const OperationOptions& options) {
  return core_->Run(BroadcastRequest(input, output, count, type, root), options);
}
Work Communicator::BroadcastAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                                  const OperationOptions& options) {
  return core_->RunAsync(BroadcastRequest(input, output, count, type, root), options);
}

Status Communicator::Barrier(const OperationOptions& options) { return core_->Run(BarrierRequest(), options); }
Work Communicator::BarrierAsync(const OperationOptions& options) { return core_->RunAsync(BarrierRequest(), options); }

Status Communicator::Send(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                          const MessageOptions& options) {
  return core_->Send({buffer, count, to, tag}, type, options);
}
Result<Message> Communicator::Recv(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                                   const MessageOptions& options) {
  return core_->Recv({buffer, count, from_or_any, tag_or_any}, type, options);
}
Work Communicator::SendAsync(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                             const MessageOptions& options) {
  return core_->SendAsync({buffer, count, to, tag}, type, options);
}
Work Communicator::RecvAsync(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                             const MessageOptions& options) {
  return core_->RecvAsync({buffer, count, from_or_any, tag_or_any}, type, options);
}
Result<Message> Communicator::SendRecv(const Outgoing& out, const Incoming& in, DataType type,
                                       const MessageOptions& options) {
  return core_->SendRecv(out, in, type, options);
}

Result<std::unique_ptr<Communicator>> Communicator::Split(int color, int key) {
  RONDO_ASSIGN(auto child, core_->Split(color, key));
  if (child == nullptr) return std::unique_ptr<Communicator>();
  return std::unique_ptr<Communicator>(new Communicator(std::move(child)));
}

Result<std::unique_ptr<Memory>> Communicator::Allocate(std::size_t bytes) {
  return core_->options().transport->Allocate(bytes);
}
Result<std::unique_ptr<Registration>> Communicator::Register(MutableBytes memory) {
  return core_->options().transport->Register(memory);
}

void Communicator::Abort(std::string_view reason) { core_->Abort(reason); }
Status Communicator::Close() { return core_->Close(); }
bool Communicator::Progress() { return core_->ProgressOnce(); }
std::optional<Error> Communicator::failure() const { return core_->failure(); }
std::string Communicator::DescribePaths() const { return core_->DescribePaths(); }

Result<Communicator::Choice> Communicator::Choose(Collective collective, std::uint64_t count, DataType type,
                                                  const OperationOptions& options) const {
  if (options.algorithm) {
    if (FindAlgorithm(collective, *options.algorithm) == nullptr)
      return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not serve {}", Name(*options.algorithm),
                  Name(collective));
    return Choice{*options.algorithm, "asked for"};
  }
  const Selection selection = Select(collective, world_size(), count * SizeOf(type));
  return Choice{selection.algorithm, selection.reason};
}

// ---- Work ----

Status Work::Wait() {
  if (refused_) return Fail(*refused_);
  if (core_ == nullptr) return Fail(ErrorCode::kInvalidArgument, "this Work names no operation");
  if (operation_ != nullptr) return core_->WaitForMessage(*operation_, TimePoint::max());
  return core_->WaitForGood(sequence_);
}

Status Work::Wait(TimePoint deadline) {
  if (refused_) return Fail(*refused_);
  if (core_ == nullptr) return Fail(ErrorCode::kInvalidArgument, "this Work names no operation");
  if (operation_ != nullptr) return core_->WaitForMessage(*operation_, deadline);
  return core_->WaitFor(sequence_, deadline);
}

std::optional<Status> Work::Test() {
  if (refused_) return Status(Fail(*refused_));
  if (core_ == nullptr) return Status(Fail(ErrorCode::kInvalidArgument, "this Work names no operation"));
  core_->ProgressOnce();  // where somebody drives already this does nothing
  return operation_ != nullptr ? core_->FinalStatus(*operation_) : core_->FinalStatus(sequence_);
}

std::optional<Message> Work::message() const {
  if (operation_ == nullptr || operation_->sends || !operation_->final.load() || operation_->error) return std::nullopt;
  return operation_->message;
}

void Work::Then(std::function<void(const Status&)> done) {
  if (refused_) return done(Fail(*refused_));
  if (core_ == nullptr) return done(Fail(ErrorCode::kInvalidArgument, "this Work names no operation"));
  core_->Then(sequence_, operation_, std::move(done));
}

}  // namespace rondo
