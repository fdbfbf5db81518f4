// Tests the guarantees that only the file store has, for files that are stale, damaged, truncated, removed, full, or
// not a store's.
#include "rendezvous/file_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/rendezvous/stores.h"
#include "tests/support/fault_row.h"
#include "tests/support/threads.h"

namespace rondo {
namespace file_store_test {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Result<std::unique_ptr<FileStore>> TryOpen(const std::string& path, const std::string& job = "job",
                                           std::uint64_t generation = 0, Logger* logger = nullptr,
                                           TimePoint deadline = Soon()) {
  FileStore::Options options;
  options.path = path;
  options.job = job;
  options.generation = generation;
  options.who = "host a, pid 17";
  options.deadline = deadline;
  options.logger = logger;
  return FileStore::Open(std::move(options));
}

std::unique_ptr<FileStore> Open(const std::string& path) {
  auto store = TryOpen(path);
  REQUIRE_MESSAGE(store.has_value(), store.error().ToString());
  return std::move(*store);
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void Append(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::app) << content;
}

// Holds the lock as a process that is writing would.
void HoldChangeLock(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t{1} << 62;
  lock.l_len = 1;
  REQUIRE(fcntl(fd, F_OFD_SETLK, &lock) == 0);
}

TEST_CASE("A file left by an earlier run whose processes are gone is started again, and the log says so") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  { REQUIRE(Open(path)->Set("key", "old", Soon())); }
  RecordingLogger logger;
  const auto next = TryOpen(path, "another job", 7, &logger);
  REQUIRE(next);
  CHECK(*(*next)->Get("key", Soon()) == std::nullopt);
  REQUIRE(logger.lines().size() == 1);
  CHECK(Has(logger.lines()[0], "job 'job' generation 0"));
  CHECK(Has(logger.lines()[0], "host a, pid 17"));
}

TEST_CASE("A file that a process of another run still has open is stale: path, maker, time and remedy") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto living = Open(path);
  REQUIRE(living->Set("key", "value", Soon()));
  for (const auto& other : {TryOpen(path, "other", 0), TryOpen(path, "job", 1, nullptr, InMs(50))}) {
    REQUIRE(!other);
    CHECK(other.error().code() == ErrorCode::kStale);
    CHECK(Has(other.error().message(), path));
    CHECK(Has(other.error().message(), "job 'job' generation 0"));
    CHECK(Has(other.error().message(), "host a, pid 17"));
    CHECK(Has(other.error().message(), " UTC"));
    CHECK(Has(other.error().message(), "another path"));
    StateFault(22, 1, other.error(), {.path = "file"});
  }
  CHECK(*living->Get("key", Soon()) == "value");  // untouched
}

TEST_CASE("The next generation of a job waits until the last of the one before have left; an earlier one does not") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  auto last = TryOpen(path, "job", 1);
  REQUIRE(last);
  REQUIRE((*last)->Set("key", "of generation 1", Soon()));
  const auto earlier = TryOpen(path, "job", 0);  // returns at once, although the deadline is far away
  REQUIRE(!earlier);
  CHECK(earlier.error().code() == ErrorCode::kStale);
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    last->reset();
  });
  const auto next = TryOpen(path, "job", 2);
  leaving.join();
  REQUIRE_MESSAGE(next.has_value(), next.error().ToString());
  CHECK(*(*next)->Get("key", Soon()) == std::nullopt);
}

TEST_CASE("A wait finds what took the place of a torn record, though the file is as long as before") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto waiting = Open(path);
  const auto writing = Open(path);
  REQUIRE(waiting->Set("first", "", Soon()));
  const std::string before = Content(path);
  // The file ends with the beginning of a long record, as a writer that died leaves it. These bytes have the same
  // length as the complete record for "late".
  const TemporaryDirectory other;
  const auto measured = Open(other.File("store"));
  const std::string header = Content(other.File("store"));
  REQUIRE(measured->Set("late", "value", Soon()));
  const std::size_t bytes = Content(other.File("store")).size() - header.size();
  REQUIRE(measured->Set("late", std::string(1000, 'x'), Soon()));
  Append(path, Content(other.File("store")).substr(header.size() + bytes, bytes));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(writing->Set("late", "value", Soon()));
    CHECK(Content(path).size() == before.size() + bytes);
  });
  const auto value = waiting->WaitFor("late", InMs(5000));
  later.join();
  REQUIRE_MESSAGE(value.has_value(), value.error().ToString());
  CHECK(*value == "value");
}

TEST_CASE("The presence of a killed process ends with it") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto store = TryOpen(path, "killed");
    if (store && (*store)->Set("key", "value", Soon())) (void)!write(ready[1], "x", 1);
    pause();
    _exit(1);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(TryOpen(path, "next").error().code() == ErrorCode::kStale);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(TryOpen(path, "next"));
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("Of many that open an old file at once, one starts over and no process loses what was written after") {
  for (int round = 0; round < 20; ++round) {
    const TemporaryDirectory directory;
    const std::string path = directory.File("store");
    { REQUIRE(Open(path)->Set("old", "", Soon())); }
    std::atomic<int> opened{0};
    OnThreads(6, [&](int) {
      const auto store = TryOpen(path, "new");
      REQUIRE_MESSAGE(store.has_value(), store.error().ToString());
      CHECK((*store)->Add("arrived", 1, Soon()));
      ++opened;
      while (opened < 6) std::this_thread::yield();  // no process closes the store before all have opened it
      CHECK(*(*store)->Get("arrived", Soon()) == "6");
      CHECK(*(*store)->Get("old", Soon()) == std::nullopt);
      ++opened;
      while (opened < 12) std::this_thread::yield();
    });
  }
}

TEST_CASE("A file that is not a store's is refused and left as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("letter");
  for (const std::string& content : {std::string("Dear reader,"), std::string("R0"), std::string(5000, '\0')}) {
    Write(path, content);
    const auto store = TryOpen(path);
    REQUIRE(!store);
    CHECK(store.error().code() == ErrorCode::kStoreIo);
    CHECK(Has(store.error().message(), path));
    CHECK(Content(path) == content);
  }
}

TEST_CASE("Paths that can hold no file are errors with the path and the system's words") {
  const TemporaryDirectory directory;
  const auto error_of = [](const std::string& path) { return TryOpen(path).error(); };
  CHECK(error_of("").code() == ErrorCode::kInvalidArgument);
  const Error folder = error_of(directory.File(""));
  CHECK(folder.code() == ErrorCode::kStoreIo);
  CHECK(Has(folder.message(), "directory"));
  const Error nowhere = error_of(directory.File("no/such/store"));
  CHECK(nowhere.code() == ErrorCode::kStoreIo);
  CHECK(Has(nowhere.message(), "No such file or directory"));
  CHECK(Has(nowhere.message(), "no/such/store"));
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(error_of(fifo).code() == ErrorCode::kStoreIo);
  const Error device = error_of("/dev/null");
  CHECK(device.code() == ErrorCode::kStoreIo);
  CHECK(Has(device.message(), "not a regular file"));
  StateFault(22, 1, nowhere, {.path = "file"});
}

TEST_CASE("A change left half written is ignored by readers and cut off by the next writer, wherever it was cut") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  auto store = Open(path);
  REQUIRE(store->Set("a", "1", Soon()));
  const std::string before = Content(path);
  REQUIRE(store->Set("b", "22", Soon()));
  const std::string after = Content(path);
  for (std::size_t cut = before.size() + 1; cut < after.size(); ++cut) {
    const TemporaryDirectory other;
    const std::string torn = other.File("store");
    const auto reader = Open(torn);
    const std::string header = Content(torn);
    Append(torn, after.substr(header.size(), cut - header.size()));
    CHECK(*reader->Get("a", Soon()) == "1");
    CHECK(*reader->Get("b", Soon()) == std::nullopt);
    REQUIRE(reader->Set("c", "3", Soon()));
    const auto second = Open(torn);
    StateFault(22, 1, "correct", {.path = "file"});
    CHECK(*second->Get("a", Soon()) == "1");
    CHECK(*second->Get("b", Soon()) == std::nullopt);
    CHECK(*second->Get("c", Soon()) == "3");
  }
}

TEST_CASE("A change whose bytes are wrong is an error where others follow it, and torn where none do") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto keep = Open(path);
  REQUIRE(keep->Set("a", "1", Soon()));
  const std::size_t first_end = Content(path).size();
  REQUIRE(keep->Set("b", "2", Soon()));
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(pwrite(fd, "x", 1, static_cast<off_t>(first_end) - 1) == 1);
  close(fd);
  const auto fresh = Open(path);
  const auto value = fresh->Get("b", Soon());
  REQUIRE(!value);
  CHECK(value.error().code() == ErrorCode::kStoreIo);
  CHECK(Has(value.error().message(), "damaged"));
  CHECK(Has(value.error().message(), path));
}

TEST_CASE("Random damage anywhere is an error or a shorter log, never a wrong value") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const TemporaryDirectory directory;
    const std::string path = directory.File("store");
    const auto keep = Open(path);
    const std::size_t header = Content(path).size();
    for (int i = 0; i < 5; ++i) REQUIRE(keep->Set("key" + std::to_string(i), "value" + std::to_string(i), Soon()));
    const std::size_t size = Content(path).size();
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const auto at = static_cast<off_t>(random.Between(header, size - 1));
    char byte = 0;
    REQUIRE(pread(fd, &byte, 1, at) == 1);
    byte = static_cast<char>(byte ^ (1 << random.Below(8)));
    REQUIRE(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
    const auto reader = Open(path);
    for (int i = 0; i < 5; ++i) {
      const auto value = reader->Get("key" + std::to_string(i), Soon());
      if (value && *value) CHECK(**value == "value" + std::to_string(i));
      if (!value) CHECK(value.error().code() == ErrorCode::kStoreIo);
    }
  }
}

TEST_CASE("A file removed, replaced or cut while in use is an error that says which, also to a waiter") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto waits_and_fails = [&](const std::string& words, const std::function<void()>& harm) {
    const auto store = Open(path);
    REQUIRE(store->Set("key", "value", Soon()));
    std::thread waiter([&] {
      const auto value = store->WaitFor("never", Soon());
      REQUIRE(!value);
      CHECK(value.error().code() == ErrorCode::kStoreIo);
      StateFault(22, 1, value.error(), {.path = "file"});
      CHECK_MESSAGE(Has(value.error().message(), words), value.error().ToString());
      CHECK(Has(value.error().message(), path));
    });
    harm();
    waiter.join();
    CHECK(store->Set("key", "again", Soon()).error().code() == ErrorCode::kStoreIo);
    CHECK(store->Get("key", Soon()).error().code() == ErrorCode::kStoreIo);
    unlink(path.c_str());
  };
  waits_and_fails("removed", [&] { unlink(path.c_str()); });
  waits_and_fails("replaced", [&] {
    Write(directory.File("other"), "something");
    REQUIRE(rename(directory.File("other").c_str(), path.c_str()) == 0);
  });
  waits_and_fails("truncated to 30 bytes", [&] { REQUIRE(truncate(path.c_str(), 30) == 0); });
}

TEST_CASE("A full disk is an error with the system's words, and what was there stays") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto store = Open(path);
  REQUIRE(store->Set("key", "value", Soon()));
  const std::string before = Content(path);

  // A limit on the file's size makes the write fail in the middle, as a full disk does.
  rlimit unlimited{};
  getrlimit(RLIMIT_FSIZE, &unlimited);
  rlimit limit = unlimited;
  limit.rlim_cur = before.size() + 100;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const Status set = store->Set("large", std::string(10'000, 'v'), Soon());
  setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, old_handler);

  REQUIRE(!set);
  CHECK(set.error().code() == ErrorCode::kStoreIo);
  StateFault(22, 1, set.error(), {.path = "file"});
  CHECK(Has(set.error().message(), path));
  CHECK(Has(set.error().message(), "File too large"));
  CHECK(Content(path) == before);
  REQUIRE(store->Set("small", "1", Soon()));
  CHECK(*Open(path)->Get("key", Soon()) == "value");
}

TEST_CASE("The log has a limit of its own") {
  const TemporaryDirectory directory;
  FileStore::Options options;
  options.path = directory.File("store");
  options.deadline = Soon();
  options.max_bytes = 1000;
  const auto store = FileStore::Open(std::move(options));
  REQUIRE(store);
  REQUIRE((*store)->Set("key", std::string(500, 'v'), Soon()));
  CHECK((*store)->Set("key", std::string(500, 'v'), Soon()).error().code() == ErrorCode::kResource);
  CHECK((*store)->Get("key", Soon())->value().size() == 500);
}

TEST_CASE("A lock that another process never releases costs a call its deadline, and the error says so") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto store = Open(path);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  HoldChangeLock(fd);
  const Status set = store->Set("key", "value", InMs(50));
  REQUIRE(!set);
  CHECK(set.error().code() == ErrorCode::kStoreTimeout);
  CHECK(Has(set.error().message(), "lock"));
  StateFault(22, 1, set.error(), {.path = "file"});
  close(fd);
  CHECK(store->Set("key", "value", Soon()));
}

TEST_CASE("A key that did not come is named, also if another process writes at the deadline") {
  const TemporaryDirectory directory;
  const std::string path = directory.File("store");
  const auto other = Open(path);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto clock = std::make_shared<ManualClock>();
  FileStore::Options options;
  options.path = path;
  options.job = "job";
  options.clock = clock;
  options.deadline = clock->Now() + std::chrono::seconds(1);
  bool written = false;
  options.sleep = [&](Duration pause) {
    if (!std::exchange(written, true)) {
      REQUIRE(other->Set("another", "value", Soon()));
      HoldChangeLock(fd);
    }
    clock->Advance(pause);
  };
  const auto store = FileStore::Open(std::move(options));
  REQUIRE(store);
  const auto waited = (*store)->WaitFor("never", clock->Now() + std::chrono::milliseconds(100));
  REQUIRE(!waited);
  CHECK(waited.error().code() == ErrorCode::kStoreTimeout);
  CHECK(Has(waited.error().message(), "never"));
  close(fd);
}

TEST_CASE("Waiting goes by the clock and the sleep that were handed in, with growing pauses") {
  const TemporaryDirectory directory;
  const auto clock = std::make_shared<ManualClock>();
  std::vector<Duration> pauses;
  FileStore::Options options;
  options.path = directory.File("store");
  options.clock = clock;
  options.deadline = clock->Now() + std::chrono::seconds(1);
  options.sleep = [&](Duration pause) {
    pauses.push_back(pause);
    clock->Advance(pause);
  };
  const auto store = FileStore::Open(std::move(options));
  REQUIRE(store);
  CHECK(pauses.empty());
  const TimePoint deadline = clock->Now() + std::chrono::milliseconds(100);
  CHECK((*store)->WaitFor("never", deadline).error().code() == ErrorCode::kStoreTimeout);
  CHECK(clock->Now() == deadline);
  REQUIRE(pauses.size() >= 6);
  CHECK(pauses[0] == std::chrono::milliseconds(1));
  CHECK(pauses[1] == std::chrono::milliseconds(2));
  CHECK(pauses[5] == std::chrono::milliseconds(20));
}

}  // namespace file_store_test
}  // namespace rondo
