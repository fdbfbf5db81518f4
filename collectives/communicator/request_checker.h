// Checks a call of a collective before anything starts: completes its request, and chooses its algorithm. The choices
// are the same on all ranks.
//
// Thread rules: any thread, except Define. Only the issuer may call Define, while no operation is pending and no other
// thread calls any method.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/communicator/operation_options.h"
#include "collectives/communicator/user_operation.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/operation_request.h"
#include "collectives/model/selector.h"

namespace rondo {

// The options of calls that do not set them (see CommunicatorOptions).
struct CallDefaults {
  Duration timeout{};
  bool reproducible = false;
  bool fp32_accumulate = false;
  bool compare_results = false;
  std::uint32_t max_pending_operations = 1;
};

class RequestChecker {
 public:
  RequestChecker(Rank rank, int world_size, const CallDefaults& defaults, std::shared_ptr<const Profile> profile,
                 Topology topology)
      : rank_(rank), world_size_(world_size), defaults_(defaults), selector_(std::move(profile), std::move(topology)) {}

  // Checks every argument and completes the request. Starts nothing.
  Status Check(OperationRequest& request, const OperationOptions& options) const;

  // ---- parts of Check ----
  // Checks that type and operation exist and can be combined.
  Status CheckOperation(const OperationDescriptor& descriptor) const;
  // The type in which the elements are sent: the user's type, or a wider one.
  DataType TravellingType(const OperationDescriptor& descriptor, const OperationOptions& options) const;
  Result<Selection> Choose(const OperationDescriptor& descriptor, const OperationOptions& options) const;
  Candidate Expect(const OperationDescriptor& descriptor, const OperationOptions& options, Algorithm algorithm) const;
  // Chooses a schedule for a request whose algorithm was intranode, for the case that there is no shared segment after
  // all.
  Result<Selection> ChooseSchedule(const OperationRequest& request) const {
    return selector_.Choose(std::nullopt, CallOf(request.descriptor, request.reproducible));
  }
  const Topology& topology() const { return selector_.topology(); }

  // Whether all ranks share memory, as far as is known at the moment.
  bool may_have_shared_segment() const { return may_have_shared_segment_.load(std::memory_order_relaxed); }
  void SetMayHaveSharedSegment(bool may) { may_have_shared_segment_.store(may); }

  // ---- operations of users ----
  std::size_t defined() const { return user_operations_.size(); }
  // REQUIRES: defined() < kMaxUserOps.
  ReduceOp Define(UserOperation&& operation);
  // Takes over the user operations of the communicator from which this one is split.
  void Inherit(const RequestChecker& parent) { user_operations_ = parent.user_operations_; }

 private:
  Status CheckCounts(OperationRequest& request) const;
  Status CheckBuffers(OperationRequest& request) const;
  Call CallOf(const OperationDescriptor& descriptor, bool reproducible) const;
  bool IsReproducible(const OperationOptions& options) const {
    return options.reproducible.value_or(defaults_.reproducible);
  }

  const Rank rank_;
  const int world_size_;
  const CallDefaults defaults_;
  const Selector selector_;
  std::atomic<bool> may_have_shared_segment_{false};
  std::vector<std::shared_ptr<const UserOperation>> user_operations_;  // by UserOpIndex
};

}  // namespace rondo
