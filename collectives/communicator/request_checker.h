// What a call of a collective must satisfy before anything starts: it completes requests, and chooses their algorithms.
//
// Thread rules: any thread, but for Define, which is the issuer's while no operation is pending, and so excludes all
// others. The choices are the same on all ranks.
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

// The options of calls that do not set their own (CommunicatorOptions).
struct CallDefaults {
  Duration timeout{};
  bool reproducible = false;
  bool wide_partials = false;
  bool compare_results = false;
  std::uint32_t max_pending_operations = 1;
};

class RequestChecker {
 public:
  RequestChecker(Rank rank, int world_size, const CallDefaults& defaults, std::shared_ptr<const Profile> profile,
                 Place place)
      : rank_(rank), world_size_(world_size), defaults_(defaults), selector_(std::move(profile), std::move(place)) {}

  // Checks every argument and completes the request. Starts nothing.
  Status Check(OperationRequest& request, const OperationOptions& options) const;

  // ---- its parts ----
  // Whether type and operation exist and belong together.
  Status CheckOperation(const OperationDescriptor& descriptor) const;
  // The type in which the elements are sent.
  DataType TravellingType(const OperationDescriptor& descriptor, const OperationOptions& options) const;
  Result<Selection> Choose(const OperationDescriptor& descriptor, const OperationOptions& options) const;
  Candidate Expect(const OperationDescriptor& descriptor, const OperationOptions& options, Algorithm algorithm) const;
  // An algorithm with a schedule, for a request that was to go through shared memory, where there is none after all.
  Result<Selection> ChooseSchedule(const OperationRequest& request) const {
    return selector_.Choose(std::nullopt, CallOf(request.descriptor, request.reproducible));
  }
  const Place& place() const { return selector_.place(); }

  // Whether all ranks share memory, as far as is known now.
  bool may_have_shared_segment() const { return may_have_shared_segment_.load(std::memory_order_relaxed); }
  void SetMayHaveSharedSegment(bool may) { may_have_shared_segment_.store(may); }

  // ---- operations of users ----
  std::size_t defined() const { return user_operations_.size(); }
  // REQUIRES: defined() < kMaxUserOps.
  ReduceOp Define(UserOperation&& operation);
  // Those of the communicator that this one is split from.
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
