// Writes a communicator's records as text, for people and for `rondo trace`: which operations run, which ended, and
// why.
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
  // host, host_id and pid are this rank's. The other fields mean the same as in CommunicatorOptions.
  struct Options {
    std::string job;
    std::uint64_t generation = 0;
    std::string host;
    std::string host_id;
    std::uint64_t pid = 0;
    std::string folder;  // for the files; "": there is none
    std::shared_ptr<const RankFrame> frame;
    Logger* logger = nullptr;
  };
  // The communicator's name in its job. `ranks`: ranks of the job, by rank of the communicator.
  struct Group {
    std::string_view name;
    std::string_view description;
    const std::vector<Rank>& ranks;
  };
  // The parts of the communicator that the writer needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    const SharedEndpoint& endpoint;
    const OperationQueue& queue;
    const OperationRecords& records;
    const Failure& failure;
  };
  RecordWriter(Options options, const Neighbours& neighbours) : options_(std::move(options)), near_(neighbours) {}

  // Appends the records of this communicator, if it keeps any.
  void Add(const Group& group, std::vector<DumpedGroup>& groups) const;
  // Returns the text of `groups`. `reason` says why the text was requested, and becomes part of it.
  std::string Text(const Group& group, std::string_view reason, const std::vector<DumpedGroup>& groups) const;
  // Writes the text of the groups that `groups`() returns into a file in the folder, and returns the file's path. Files
  // are written one at a time, so the newest file has the latest records. kInvalidArgument: there is no folder. Other
  // errors: those of the file system.
  Result<std::string> Write(const Group& group, std::string_view reason,
                            const std::function<std::vector<DumpedGroup>()>& groups) const;

  bool has_folder() const { return !options_.folder.empty(); }
  // Logs that records could not be written.
  void LogFailure(const Error& error) const;

 private:
  DumpOrigin Origin(const Group& group, std::string_view reason) const;

  const Options options_;
  const Neighbours near_;
  mutable Mutex writing_;  // locked before all other locks
};

}  // namespace rondo
