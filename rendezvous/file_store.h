// A store in a file that all ranks can open. The ranks are on one host, or use a network file system whose locks work
// between hosts.
//
// The file is a log: a header (magic, version, job, generation, creator), then one record with a checksum for each
// change. An exclusive lock orders the writers. If a writer dies, its unfinished record fails the checksum, and the
// next writer cuts it off.
//
// The content of the store is valid while at least one process has it open. Each process that opens the store holds a
// second, shared lock until it closes the file. The kernel releases that lock when the process dies. So Open can detect
// whether any process of an earlier run is still alive:
// - If no other process has the file open, Open empties the file and starts a new log. With `refuse_leftover`, Open
//   gives kStale instead if the file belongs to the same job and generation. That option is for job ids that are never
//   used twice, such as those of launchers. With such an id, a leftover store means that the rendezvous of this job has
//   already ended, so this process would wait for ranks that never come.
// - If a process of another job or generation has the file open, Open gives kStale. The error names the path, the
//   creator and the time of the last change, and says what to do. Open returns it at once, with one exception: an
//   earlier generation of the same job may end soon, so Open waits for its end until the deadline.
//
// Open holds the exclusive lock during all of this, so two processes never both start a new log.
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

// Thread rule: any thread. A call delays the call of another thread at most for the time of one access to the file.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;
    std::string job;  // at most 256 bytes
    std::uint64_t generation = 0;
    std::string who;                      // describes this process for people ("host a, pid 17"), at most 256 bytes
    TimePoint deadline;                   // the deadline of Open, which may have to wait for the lock
    bool refuse_leftover = false;         // gives kStale if all processes of the same job and generation have ended
    std::uint64_t max_bytes = 256 << 20;  // limit for the log; a larger log gives kResource
    // The longest pause between two reads by a Wait; the first pause is 1 ms.
    Duration longest_pause = std::chrono::milliseconds(20);
    std::shared_ptr<const Clock> clock;   // null: SteadyClock
    std::function<void(Duration)> sleep;  // null: the calling thread sleeps
    Logger* logger = nullptr;             // must outlive the store
  };

  // kStoreIo, here and in every call, names the path and the system's reason. Examples: the directory does not exist,
  // or the path is a directory; the file system is read-only, or has no space or no locks; the file is not a store's,
  // or another process removed or truncated it. kStale: see the comment at the top of this file. kVersionMismatch:
  // another process has the file open in another format version. kStoreTimeout: another process holds the lock until
  // the deadline.
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
  // Makes the error that lists which of `keys` were missing when the log was last read.
  Error Missing(std::span<const std::string> keys);

  // Each function below REQUIRES mutex_ and the file's lock. Begin checks the header, or writes one. It sets
  // `may_leave` if an earlier generation of this job has the file open, so that waiting may help.
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
