#include "rendezvous/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/byte_codec.h"
#include "base/crc32c.h"
#include "base/net/descriptors.h"
#include "rendezvous/store_arguments.h"

// The layout of the file. Integers are little-endian; the number of bits of each is in parentheses. A text is a 32-bit
// length followed by its bytes.
//
//   header  magic (8 bytes), version (32), size of the rest of the header in bytes (32), CRC-32C of that rest (32);
//           the rest: job (text), generation (64), creator (text)
//   record  size of its body in bytes (32), CRC-32C of its body (32), body
//   body    the change (8), count of keys (32), then for each key:
//           change 1 (set): key and value (texts); change 2 (delete): key (text)
//
// The locks on the file are "open file description" locks (fcntl(2), F_OFD_SETLK) on two bytes far beyond the end of
// the data. They belong to the open file, so they also work between several stores of one process. NFS supports them.

namespace rondo {
namespace {

constexpr std::string_view kMagic{"RONDO\0FS", 8};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderHeadBytes = 20;
constexpr std::size_t kRecordHeadBytes = 8;
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::size_t kMaxRecordBytes = kMaxBatchBytes + kMaxBatch * 8 + 64;
constexpr off_t kChangeLock = off_t{1} << 62;
constexpr off_t kPresenceLock = kChangeLock + 1;
// The state needs no limit of its own, because the limit of the log bounds the state that is replayed from it.
constexpr std::size_t kNoLimit = ~std::size_t{0} / 2;
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
// A Wait reads the file after this time even if the length of the file is unchanged. There are two reasons: a changed
// file can have the same length by chance, and over NFS the length can be out of date until the file is locked.
constexpr Duration kLookAnyway = std::chrono::milliseconds(200);

enum Change : std::uint8_t { kSet = 1, kDelete = 2 };

// True: this process now holds the lock. False: another process holds it. After an error, errno still has the reason.
Result<bool> TryLock(int fd, off_t byte, short kind, const std::string& path) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  for (;;) {
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    return Fail(ErrorCode::kStoreIo,
                "file store {}: locking the file failed ({}); put it on a file system that supports locks on the hosts "
                "of all ranks",
                path, SystemWords(errno));
  }
}

std::string EncodeSet(std::span<const KeyValue> entries) {
  ByteWriter body;
  body.Number(static_cast<std::uint8_t>(kSet)).Number(static_cast<std::uint32_t>(entries.size()));
  for (const auto& [key, value] : entries) body.Text(key).Text(value);
  return body.Take();
}

std::string EncodeDelete(std::span<const std::string> keys) {
  ByteWriter body;
  body.Number(static_cast<std::uint8_t>(kDelete)).Number(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) body.Text(key);
  return body.Take();
}

// Applies one record to the state. Returns false if the record has a correct checksum but an unknown format.
bool Replay(std::string_view body, StoreState& state) {
  ByteReader in(body);
  const auto change = in.Number<std::uint8_t>();
  const auto count = in.Number<std::uint32_t>();
  if (count > kMaxBatch) return false;
  std::vector<KeyValue> entries;
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const std::string_view key = in.Text(kMaxKeyBytes);
    if (change == kSet) {
      entries.push_back({std::string(key), std::string(in.Text(kMaxValueBytes))});
    } else {
      keys.emplace_back(key);
    }
  }
  if (!in.AtEnd() || (change != kSet && change != kDelete)) return false;
  if (change == kDelete) state.Delete(keys);
  return change == kDelete || state.Set(entries).has_value();
}

// Gives the time of the last change: "2026-11-20 15:17:05 UTC".
std::string LastChanged(const struct stat& file) {
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&file.st_mtime, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

// Reads up to `bytes` from `offset`; gives fewer at the end of the file. nullopt: errno has the reason.
std::optional<std::string> ReadAt(int fd, std::uint64_t offset, std::size_t bytes) {
  std::string data(bytes, '\0');
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd, data.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  data.resize(done);
  return data;
}

// The content of the file's header: the store's creator, job and generation.
struct Made {
  std::string job;
  std::uint64_t generation = 0;
  std::string who;
  std::uint64_t header_bytes = 0;
};

}  // namespace

// ---- opening ----

Result<std::unique_ptr<FileStore>> FileStore::Open(Options options) {
  if (options.path.empty())
    return Fail(ErrorCode::kInvalidArgument, "the path of the file store is empty; expected the path of a file");
  if (options.job.size() > kMaxTextBytes || options.who.size() > kMaxTextBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "the job id and the name of this process in a file store may have at most {} bytes each",
                kMaxTextBytes);
  }
  if (options.clock == nullptr) options.clock = std::make_shared<const SteadyClock>();
  if (!options.sleep) options.sleep = [](Duration pause) { std::this_thread::sleep_for(pause); };
  Fd fd(open(options.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd) {
    return Fail(errno == EMFILE || errno == ENFILE ? ErrorCode::kResource : ErrorCode::kStoreIo,
                "file store {}: opening the file failed: {}", options.path, SystemWords(errno));
  }
  const TimePoint deadline = options.deadline;
  std::unique_ptr<FileStore> store(new FileStore(std::move(options), std::move(fd)));
  struct stat file {};
  if (fstat(store->fd_.get(), &file) != 0) return store->IoError("reading the files size", errno);
  if (!S_ISREG(file.st_mode)) {
    return Fail(ErrorCode::kStoreIo, "file store {}: the path is not a regular file", store->options_.path);
  }
  for (Duration pause = kFirstPause;;) {
    bool may_leave = false;
    const Status begun = store->Locked(Access::kWrite, deadline, [&] { return store->Begin(may_leave); });
    if (begun) return store;
    if (!may_leave || store->options_.clock->Now() >= deadline) return tl::unexpected(begun.error());
    store->Pause(pause, deadline);
  }
}

FileStore::FileStore(Options options, Fd fd)
    : options_(std::move(options)), fd_(std::move(fd)), state_({.max_bytes = kNoLimit, .max_wait_bytes = 0}) {}

std::string FileStore::Header() const {
  ByteWriter rest;
  rest.Text(options_.job).Number(options_.generation).Text(options_.who);
  ByteWriter header;
  header.Raw(kMagic).Number(kVersion).Number(static_cast<std::uint32_t>(rest.size())).Number(Crc32c(rest.bytes()));
  header.Raw(rest.bytes());
  return header.Take();
}

Status FileStore::Begin(bool& may_leave) {
  RONDO_TRY(CheckIdentity());
  struct stat file {};
  if (fstat(fd_.get(), &file) != 0) return IoError("reading the files size", errno);
  const auto head = ReadAt(fd_.get(), 0, kHeaderHeadBytes + 3 * kMaxTextBytes);
  if (!head) return IoError("reading the file", errno);
  const std::size_t seen = std::min(head->size(), kMagic.size());
  if (std::string_view(*head).substr(0, seen) != kMagic.substr(0, seen)) {
    return Fail(ErrorCode::kStoreIo, "file store {}: the file is not a Rondo store; it was left unchanged",
                options_.path);
  }
  // True: this process got the lock exclusively, so no other process has the file open.
  RONDO_ASSIGN(const bool alone, TryLock(fd_.get(), kPresenceLock, F_WRLCK, options_.path));

  std::optional<Made> made;
  ByteReader in(*head);
  in.Raw(kMagic.size());
  const auto version = in.Number<std::uint32_t>();
  const auto rest_bytes = in.Number<std::uint32_t>();
  const auto crc = in.Number<std::uint32_t>();
  const std::string_view rest = in.Raw(rest_bytes);
  if (in.ok() && version == kVersion && Crc32c(rest) == crc) {
    ByteReader fields(rest);
    made.emplace();
    made->job = fields.Text(kMaxTextBytes);
    made->generation = fields.Number<std::uint64_t>();
    made->who = fields.Text(kMaxTextBytes);
    made->header_bytes = kHeaderHeadBytes + rest_bytes;
  }

  if (alone && made && options_.refuse_leftover && made->job == options_.job &&
      made->generation == options_.generation) {
    return Fail(
        ErrorCode::kStale,
        "file store {}: the file is left over from an earlier rendezvous of job '{}' generation {} (made by {}, last "
        "changed {}), whose processes have all ended; give each rendezvous its own generation, or remove the file",
        options_.path, made->job, made->generation, made->who, LastChanged(file));
  }
  if (alone) {
    if (made) {
      Log(options_.logger, LogLevel::kInfo,
          "file store {}: the file is left over from job '{}' generation {} (made by {}, last changed {}), whose "
          "processes have all ended; emptying it for this rendezvous",
          options_.path, made->job, made->generation, made->who, LastChanged(file));
    }
    if (ftruncate(fd_.get(), 0) != 0) return IoError("emptying the file", errno);
    const std::string header = Header();
    RONDO_TRY(WriteAt(0, header));
    end_ = header.size();
  } else if (!made && head->size() >= kMagic.size() + 4 && version != kVersion) {
    return Fail(ErrorCode::kVersionMismatch,
                "file store {}: another process uses the file with format version {}, but this process has version {}",
                options_.path, version, kVersion);
  } else if (!made) {
    return Fail(ErrorCode::kStoreIo, "file store {}: the header of the file is damaged", options_.path);
  } else if (made->job != options_.job || made->generation != options_.generation) {
    may_leave = made->job == options_.job && made->generation < options_.generation;
    return Fail(ErrorCode::kStale,
                "file store {}: job '{}' generation {} uses the file (made by {}, last changed {}), but this process "
                "belongs to job '{}' generation {}; end the other job, or give this job another path",
                options_.path, made->job, made->generation, made->who, LastChanged(file), options_.job,
                options_.generation);
  } else {
    end_ = made->header_bytes;
  }
  RONDO_ASSIGN(const bool present, TryLock(fd_.get(), kPresenceLock, F_RDLCK, options_.path));
  if (!present) return Fail(ErrorCode::kStoreIo, "file store {}: another process holds its lock", options_.path);
  return {};
}

// ---- calls ----

Status FileStore::SetMany(std::span<const KeyValue> entries, TimePoint deadline) {
  RONDO_TRY(CheckEntries(entries));
  if (entries.empty()) return {};
  return WithState(Access::kWrite, deadline, [&]() -> Status { return Append(EncodeSet(entries)); });
}

Result<std::vector<std::optional<std::string>>> FileStore::GetMany(std::span<const std::string> keys,
                                                                   TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  return Read(keys, deadline);
}

Result<std::vector<std::optional<std::string>>> FileStore::Read(std::span<const std::string> keys, TimePoint deadline) {
  using Values = std::vector<std::optional<std::string>>;
  return WithState(Access::kRead, deadline, [&]() -> Result<Values> {
    Values values;
    values.reserve(keys.size());
    for (const StoreState::Value& value : state_.Get(keys)) {
      values.push_back(value == nullptr ? std::nullopt : std::optional(*value));
    }
    return values;
  });
}

Result<std::vector<std::string>> FileStore::Wait(std::span<const std::string> keys, const WaitOptions& options) {
  RONDO_TRY(CheckWait(keys, options.cancel_key));
  std::vector<std::string> asked(keys.begin(), keys.end());
  if (!options.cancel_key.empty()) asked.push_back(options.cancel_key);
  std::uint64_t seen = 0;  // the length of the log when it was last read
  bool looked = false;
  TimePoint look_anyway{};
  for (Duration pause = kFirstPause;;) {
    RONDO_ASSIGN(const bool changed, Changed(seen));
    const TimePoint now = options_.clock->Now();
    if (changed || now >= look_anyway || now >= options.deadline) {
      if (changed) pause = kFirstPause;
      look_anyway = Later(now, kLookAnyway);
      auto values = Read(asked, options.deadline);
      // At the deadline another process held the lock. An error that lists the keys missing at the last read is more
      // helpful than an error about the lock.
      if (!values && looked && values.error().code() == ErrorCode::kStoreTimeout)
        return tl::unexpected(InStore(Describe(), Missing(keys)));
      if (!values) return tl::unexpected(std::move(values).error());
      looked = true;
      const auto awaited = std::span(*values).first(keys.size());
      if (std::all_of(awaited.begin(), awaited.end(), [](const auto& value) { return value.has_value(); })) {
        std::vector<std::string> all;
        for (auto& value : awaited) all.push_back(std::move(*value));
        return all;
      }
      if (values->size() > keys.size() && values->back()) return Fail(Error(ErrorCode::kAborted, *values->back()));
    }
    if (now >= options.deadline) return tl::unexpected(InStore(Describe(), Missing(keys)));
    Pause(pause, options.deadline);
  }
}

Result<std::int64_t> FileStore::Add(std::string_view key, std::int64_t delta, TimePoint deadline) {
  RONDO_TRY(CheckKey(key));
  return WithState(Access::kWrite, deadline, [&]() -> Result<std::int64_t> {
    const std::string name(key);
    const StoreState::Value old = state_.Get(std::span(&name, 1)).front();
    RONDO_ASSIGN(const std::int64_t sum,
                 AddToCounter(key, old == nullptr ? std::nullopt : std::optional<std::string_view>(*old), delta));
    const KeyValue entry{name, std::to_string(sum)};
    RONDO_TRY(Append(EncodeSet(std::span(&entry, 1))));
    return sum;
  });
}

Result<CompareSetResult> FileStore::CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                               std::string_view desired, TimePoint deadline) {
  RONDO_TRY(CheckCompareSet(key, expected, desired));
  return WithState(Access::kWrite, deadline, [&]() -> Result<CompareSetResult> {
    const KeyValue entry{std::string(key), std::string(desired)};
    const StoreState::Value old = state_.Get(std::span(&entry.key, 1)).front();
    const bool matches = old == nullptr ? !expected.has_value() : expected == std::string_view(*old);
    if (!matches) return CompareSetResult{.swapped = false, .current = old == nullptr ? std::string() : *old};
    RONDO_TRY(Append(EncodeSet(std::span(&entry, 1))));
    return CompareSetResult{.swapped = true, .current = entry.value};
  });
}

Result<std::size_t> FileStore::DeleteMany(std::span<const std::string> keys, TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  return WithState(Access::kWrite, deadline, [&]() -> Result<std::size_t> {
    std::vector<std::string> existing(keys.begin(), keys.end());
    std::sort(existing.begin(), existing.end());
    existing.erase(std::unique(existing.begin(), existing.end()), existing.end());
    const auto values = state_.Get(existing);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < existing.size(); ++i) {
      if (values[i] != nullptr) std::swap(existing[kept++], existing[i]);
    }
    existing.resize(kept);
    if (!existing.empty()) RONDO_TRY(Append(EncodeDelete(existing)));
    return existing.size();
  });
}

// ---- the file ----

template <typename Work>
auto FileStore::Locked(Access access, TimePoint deadline, const Work& work) -> decltype(work()) {
  for (Duration pause = kFirstPause;;) {
    {
      const std::lock_guard guard(mutex_);
      RONDO_ASSIGN(const bool locked,
                   TryLock(fd_.get(), kChangeLock, access == Access::kWrite ? F_WRLCK : F_RDLCK, options_.path));
      if (locked) {
        std::optional<decltype(work())> result;
        try {
          result = work();
        } catch (const std::bad_alloc&) {  // the lock must be released before the exception leaves this function
          (void)TryLock(fd_.get(), kChangeLock, F_UNLCK, options_.path);
          throw;
        }
        RONDO_TRY(TryLock(fd_.get(), kChangeLock, F_UNLCK, options_.path));
        return *std::move(result);
      }
    }
    if (options_.clock->Now() >= deadline) {
      return Fail(ErrorCode::kStoreTimeout,
                  "file store {}: the deadline passed while another process had locked the file", options_.path);
    }
    Pause(pause, deadline);
  }
}

template <typename Work>
auto FileStore::WithState(Access access, TimePoint deadline, const Work& work) -> decltype(work()) {
  return Locked(access, deadline, [&]() -> decltype(work()) {
    RONDO_TRY(CheckIdentity());
    RONDO_TRY(CatchUp(access));
    return work();
  });
}

Result<bool> FileStore::Changed(std::uint64_t& seen) {
  const std::lock_guard guard(mutex_);
  RONDO_TRY(CheckIdentity());
  struct stat file {};
  if (fstat(fd_.get(), &file) != 0) return IoError("reading the files size", errno);
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (size < end_) return Cut(size);
  return std::exchange(seen, size) != size;
}

Status FileStore::CheckIdentity() const {
  struct stat ours {};
  struct stat named {};
  if (fstat(fd_.get(), &ours) != 0) return IoError("reading the files size", errno);
  if (stat(options_.path.c_str(), &named) != 0) {
    return Fail(ErrorCode::kStoreIo, "file store {}: the file was removed while in use: {}", options_.path,
                std::strerror(errno));
  }
  if (ours.st_ino != named.st_ino || ours.st_dev != named.st_dev) {
    return Fail(ErrorCode::kStoreIo, "file store {}: the file was replaced while in use", options_.path);
  }
  return {};
}

Status FileStore::CatchUp(Access access) {
  struct stat file {};
  if (fstat(fd_.get(), &file) != 0) return IoError("reading the files size", errno);
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (size < end_) return Cut(size);
  while (end_ < size) {
    const std::uint64_t left = size - end_;
    const auto head = ReadAt(fd_.get(), end_, kRecordHeadBytes);
    if (!head) return IoError("reading the file", errno);
    ByteReader in(*head);
    const std::uint64_t body_bytes = in.Number<std::uint32_t>();
    const auto crc = in.Number<std::uint32_t>();
    // Whether the record is incomplete, because its writer died or the disk was full.
    bool torn = !in.ok() || body_bytes > left - kRecordHeadBytes;
    if (!torn) {
      if (body_bytes > kMaxRecordBytes) return Damaged();
      const auto body = ReadAt(fd_.get(), end_ + kRecordHeadBytes, body_bytes);
      if (!body) return IoError("reading the file", errno);
      if (body->size() == body_bytes && Crc32c(*body) == crc) {
        if (!Replay(*body, state_)) return Damaged();
        end_ += kRecordHeadBytes + body_bytes;
        continue;
      }
      // The checksum is wrong. In the file's last record this means that the file has grown, but not all data of the
      // record was written.
      torn = kRecordHeadBytes + body_bytes == left;
      if (!torn) return Damaged();
    }
    if (access == Access::kWrite) {
      Log(options_.logger, LogLevel::kWarning,
          "file store {}: removed {} bytes at the end of the file: a process died before it had finished this change",
          options_.path, left);
      if (ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0)
        return IoError("removing an unfinished change from its end", errno);
    }
    return {};
  }
  return {};
}

Status FileStore::Append(const std::string& body) {
  if (end_ + kRecordHeadBytes + body.size() > options_.max_bytes) {
    return Fail(ErrorCode::kResource,
                "file store {}: the file has {} of at most {} bytes, so there is no room for {} more", options_.path,
                end_, options_.max_bytes, body.size());
  }
  ByteWriter record;
  record.Number(static_cast<std::uint32_t>(body.size())).Number(Crc32c(body)).Raw(body);
  RONDO_TRY(WriteAt(end_, record.bytes()));
  Replay(body, state_);
  end_ += record.size();
  return {};
}

Status FileStore::WriteAt(std::uint64_t offset, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(fd_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int number = put < 0 ? errno : ENOSPC;
      // An incomplete record must not stay. If this call fails too, the next writer cuts the record off.
      [[maybe_unused]] const int cut = ftruncate(fd_.get(), static_cast<off_t>(offset));
      return IoError("writing to the file", number);
    }
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Error FileStore::Missing(std::span<const std::string> keys) {
  const std::lock_guard guard(mutex_);
  std::vector<std::string> missing;
  const auto values = state_.Get(keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (values[i] == nullptr) missing.push_back(keys[i]);
  }
  return MissingKeys(missing, keys.size());
}

tl::unexpected<Error> FileStore::IoError(const char* doing, int number) const {
  return Fail(ErrorCode::kStoreIo, "file store {}: {} failed: {}", options_.path, doing, std::strerror(number));
}

tl::unexpected<Error> FileStore::Cut(std::uint64_t size) const {
  return Fail(ErrorCode::kStoreIo,
              "file store {}: the file was truncated to {} bytes while in use; this process had already read {} bytes",
              options_.path, size, end_);
}

tl::unexpected<Error> FileStore::Damaged() const {
  return Fail(ErrorCode::kStoreIo, "file store {}: the record at byte {} is damaged", options_.path, end_);
}

void FileStore::Pause(Duration& pause, TimePoint deadline) const {
  const Duration left = deadline - options_.clock->Now();
  options_.sleep(std::clamp(left, Duration::zero(), pause));
  pause = std::min(pause * 2, options_.longest_pause);
}

}  // namespace rondo
