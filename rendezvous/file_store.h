// A store in a file that all ranks see: on one host, or in a network file system whose locks all hosts share.
//
// The file is a log: a header (magic, version, job, generation, creator), then one record with a checksum for each
// change. An exclusive lock orders the writers. If a writer dies, its unfinished record fails the checksum, and the
// next writer cuts it off.
//
// The store lasts as long as a process has it open, as a TCP store does. Each opener holds a second, shared lock until
// it closes the file. The kernel releases that lock when the process dies. So a new opener can prove that all processes
// of an earlier run have ended. What Open then does:
// - If no other process has the file open, Open empties the file and starts a new log. With `refuse_leftover`, Open
//   gives kStale instead if the file belongs to the same job and generation. That option is for job ids that are never
//   used twice, as launchers' are: a leftover store then means that this process came to a finished rendezvous, where
//   it would wait for ranks that do not come.
// - If a process of another job or generation has the file open, Open gives kStale. The error names the path, the
//   creator and the time of the last change, and says what to do. It comes at once. An earlier generation of the same
//   job may be about to end, so for it Open waits until the deadline.
//
// The exclusive lock covers all of this, so two openers never both start a new log.
//
// A file that is not a Rondo store is never written to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/net/fd.h"
#include "rendezvous/store.h"
#include "rendezvous/store_state.h"

namespace rondo {

// Thread rule: any thread. A call delays another one at most for the time of one access to the file.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;
    std::string job;  // at most 256 bytes
    std::uint64_t generation = 0;
    std::string who;                      // describes this process for people ("host a, pid 17"), at most 256 bytes
    TimePoint deadline;                   // for Open: other processes may hold the lock
    bool refuse_leftover = false;         // gives kStale if all processes of the same job and generation have ended
    std::uint64_t max_bytes = 256 << 20;  // limit for the log; a larger log gives kResource
    Duration longest_pause = std::chrono::milliseconds(20);  // between two looks of a Wait; the first pause is 1 ms
    std::shared_ptr<const Clock> clock;                      // null: SteadyClock
    std::function<void(Duration)> sleep;                     // null: the calling thread sleeps
    Logger* logger = nullptr;                                // must outlive the store
  };

  // kStoreIo, here and in every call, names the path and the system's reason: no such directory, a directory,
  // read-only, no space, no store's file, removed or cut by another process, no locks. kStale: see the top.
  // kVersionMismatch: another process has the file open in another format version. kStoreTimeout: another process holds
  // the lock until the deadline.
  static Result<std::unique_ptr<FileStore>> Open(Options options);

  std::string Describe() const override { return "file://" + options_.path; }
  Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) override;
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                          TimePoint deadline) override;
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override;
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) override;
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint deadline) override;
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) override;

 private:
  FileStore(Options options, Fd fd);

  enum class Access { kRead, kWrite };

  // Runs `work` with mutex_ and the file's lock held.
  template <typename Work>
  auto Locked(Access access, TimePoint deadline, const Work& work) -> decltype(work());
  // Like Locked, but brings state_ up to date before `work`.
  template <typename Work>
  auto WithState(Access access, TimePoint deadline, const Work& work) -> decltype(work());
  // GetMany without its checks.
  Result<std::vector<std::optional<std::string>>> Read(std::span<const std::string> keys, TimePoint deadline);
  // Whether the log's length differs from `seen`; stores the present length in `seen`. Does not lock the file.
  Result<bool> Changed(std::uint64_t& seen);
  // Makes the error for the keys that the log, as read so far, lacks.
  Error Missing(std::span<const std::string> keys);

  // Each function below REQUIRES mutex_ and the file's lock.
  // Checks the header, or writes one. Sets `may_leave` if an earlier generation of this job has the file open.
  Status Begin(bool& may_leave);
  Status CheckIdentity() const;   // checks that the path still names the open file
  Status CatchUp(Access access);  // replays new records; with kWrite, cuts off an unfinished record
  Status Append(const std::string& body);
  Status WriteAt(std::uint64_t offset, const std::string& bytes);
  std::string Header() const;

  tl::unexpected<Error> IoError(const char* doing, int number) const;
  tl::unexpected<Error> Cut(std::uint64_t size) const;
  tl::unexpected<Error> Damaged() const;
  void Pause(Duration& pause, TimePoint deadline) const;

  const Options options_;
  const Fd fd_;
  std::mutex mutex_;
  StoreState state_;       // guarded by mutex_: the content of the log up to end_
  std::uint64_t end_ = 0;  // guarded by mutex_: the position in the log up to which state_ is valid
};

}  // namespace rondo
