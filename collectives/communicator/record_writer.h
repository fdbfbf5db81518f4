// Writes a communicator's records as text: what is under way, what ended, and why. For people, and for rondo trace.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/rank_frame.h"
#include "base/result.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/recorder/dump.h"

namespace rondo {

class RecordWriter {
 public:
  // As CommunicatorOptions has them; host, host_id, pid: this rank's.
  struct Options {
    std::string job;
    std::uint64_t generation = 0;
    std::string host;
    std::string host_id;
    std::uint64_t pid = 0;
    std::string folder;  // for files; "": there is none
    std::shared_ptr<const RankFrame> frame;
    Logger* logger = nullptr;
  };
  // The communicator's name in its job. `ranks`: of the job, by rank of the communicator.
  struct Group {
    std::string_view name;
    std::string_view description;
    const std::vector<Rank>& ranks;
  };
  // The parts of the communicator that it needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    const SharedEndpoint& endpoint;
    const OperationQueue& queue;
    const OperationRecords& records;
    const Failure& failure;
  };
  RecordWriter(Options options, const Neighbours& neighbours) : options_(std::move(options)), near_(neighbours) {}

  // Appends the records of this communicator, unless nothing is recorded.
  void Add(const Group& group, std::vector<DumpedGroup>& groups) const;
  // The text of `groups`, and why it was asked for.
  std::string Text(const Group& group, std::string_view reason, const std::vector<DumpedGroup>& groups) const;
  // Writes that text, with what `groups` gives, into a file of the folder, and returns its path. One file is written at
  // a time: the last one has the latest records. kInvalidArgument: there is no folder. Errors of the file system.
  Result<std::string> Write(const Group& group, std::string_view reason,
                            const std::function<std::vector<DumpedGroup>()>& groups) const;

  bool has_folder() const { return !options_.folder.empty(); }
  // Tells the log that records could not be written.
  void LogFailure(const Error& error) const;

 private:
  DumpOrigin Origin(const Group& group, std::string_view reason) const;

  const Options options_;
  const Neighbours near_;
  mutable Mutex writing_;  // taken before all other locks
};

}  // namespace rondo
