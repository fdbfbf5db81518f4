// A store in a file that all ranks see: on one host, or in a network file system whose locks all hosts share.
//
// The file is a log: a header (magic, version, job, generation, who made it), then one checked record for each change.
// An exclusive lock orders the writers; a tail cut short by a writer that died is recognised by its check and cut off
// by the next one.
//
// The store lives as long as somebody has it open, as a TCP store does. Every opener holds a second, shared lock for
// its whole life, which the kernel takes back when the process dies, however it dies. So the next one can prove that
// everybody of an earlier run is gone: then it empties the file and begins anew. (Where job ids are never used twice,
// as launchers' are, a store of this very job and generation that everybody has left means a mistake, and
// `refuse_leftover` gives kStale for it: otherwise the last ones of a meeting would wait in a new one that nobody else
// comes to.) While somebody of another job or
// generation lives, opening gives kStale with the path, who made it, when it last changed and what to do: at once, or
// if it is an earlier generation of this job, whose last ranks may be about to leave, at the deadline. The exclusive
// lock covers all of this, so two that come at once never both begin anew.
//
// A file that is not a store's is never written to.
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

// Thread rule: any thread; no call holds up another for longer than one read of the file.
class FileStore final : public Store {
 public:
  struct Options {
    std::string path;
    std::string job;  // at most 256 bytes
    std::uint64_t generation = 0;
    std::string who;                      // this process for people ("host a, pid 17"), at most 256 bytes
    TimePoint deadline;                   // of opening: others may hold the lock
    bool refuse_leftover = false;         // kStale where everybody of this very job and generation is gone
    std::uint64_t max_bytes = 256 << 20;  // of the log; more gives kResource
    Duration longest_pause = std::chrono::milliseconds(20);  // between two looks of a Wait; the first is 1 ms
    std::shared_ptr<const Clock> clock;                      // null: the machine's
    std::function<void(Duration)> sleep;                     // null: this thread sleeps
    Logger* logger = nullptr;                                // outlives the store
  };

  // kStoreIo, here and in every call, names the path and what the system said: no such directory, a directory,
  // read-only, no space, not a store's file, removed or cut by somebody else, no locks. kStale: see above.
  // kVersionMismatch: a store of another version. kStoreTimeout: somebody holds the lock until the deadline.
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
  // Likewise, after state_ has been brought up to date.
  template <typename Work>
  auto WithState(Access access, TimePoint deadline, const Work& work) -> decltype(work());
  // GetMany without its checks.
  Result<std::vector<std::optional<std::string>>> Read(std::span<const std::string> keys, TimePoint deadline);
  // Whether the log's length differs from `seen`, which becomes it. Takes no lock of the file.
  Result<bool> Changed(std::uint64_t& seen);
  // What is missing of `keys` as far as the log has been read.
  Error Missing(std::span<const std::string> keys);

  // All of these: REQUIRES mutex_ and the file's lock.
  // Checks the header, or writes one. `may_leave`: what is in the way is an earlier generation of this job.
  Status Begin(bool& may_leave);
  Status CheckIdentity() const;   // the path still names our file
  Status CatchUp(Access access);  // replays new records; a writer cuts off an unfinished one
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
  StoreState state_;       // guarded by mutex_: the log up to end_
  std::uint64_t end_ = 0;  // likewise
};

}  // namespace rondo
