// Issues operations on device memory, and prepares what they need: access to the device, staging memory, and
// registrations of memory that network adapters send. For an operation in a graph it also prepares a program of the
// devices' work.
//
// Thread rule: the issuer, unless a method says otherwise.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/graph_watch.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/request_checker.h"
#include "collectives/communicator/stream_guard.h"
#include "collectives/device/registrations.h"
#include "collectives/device/staging.h"
#include "collectives/engine/device.h"
#include "collectives/engine/operation_request.h"
#include "transport/transport.h"

namespace rondo {

// The part of the communicator that device operations call.
class OperationIssuer {
 public:
  // Returns kClosed after Close, and the first cause after a failure; otherwise operations may be issued.
  virtual Status MayIssue() = 0;
  // Puts a complete request into the queue.
  virtual Result<Sequence> IssueChecked(const OperationRequest& request) = 0;
  // kNotReady: the operation has not ended by the time `until`.
  virtual Status WaitFor(Sequence sequence, TimePoint until) = 0;

 protected:
  ~OperationIssuer() = default;
};

class DeviceOperations {
 public:
  // The fields mean the same as in CommunicatorOptions.
  struct Options {
    Rank rank = 0;
    int world_size = 1;
    std::shared_ptr<Device> device = {};
    bool device_peers = false;
    std::shared_ptr<Transport> transport = {};
    Logger* logger = nullptr;
  };
  // The parts of the communicator that DeviceOperations needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    OperationQueue& queue;
    const RequestChecker& checker;
    const CurrentOperation& current;
    DeviceAccess& device;
    StreamGuard& streams;
    GraphWatch& graphs;
    Failure& failure;
    OperationIssuer& issuer;
  };
  DeviceOperations(const Options& options, const Neighbours& neighbours) : options_(options), near_(neighbours) {}

  // Issues a request that was checked. If its stream is being captured, runs the operation once, and adds the devices'
  // work to the graph.
  Result<Sequence> Issue(OperationRequest& request);

 private:
  // Opens the device if this was not done before, and checks that the memory belongs to that device.
  Status Open(const OperationRequest& request);
  Status Prepare(OperationRequest& request);
  Status GrowStaging(const OperationRequest& request);
  // Whether lanes may send the input directly from the device.
  bool AdaptersKnow(const OperationRequest& request, bool idle);

  Result<Sequence> IssueIntoGraph(OperationRequest& request);
  Status PrepareForGraph(OperationRequest& request);
  Status WriteProgramOfOne(const OperationRequest& request);

  const Options options_;
  const Neighbours near_;
  std::unique_ptr<StagingMemory> staging_memory_;
  std::unique_ptr<DeviceRegistrations> registrations_;
  DeviceProgram program_;  // the devices' work for the operation that is being captured
  enum class Staged : std::uint8_t { kUnexplained, kExplained } staged_ = Staged::kUnexplained;
};

}  // namespace rondo
