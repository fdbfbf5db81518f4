// Tests a job in which one allocation fails: the k-th allocation of the whole process, on any thread, for every k. The
// process has two ranks, each on its own thread. They connect, reduce, exchange, split and close.
//
//   out_of_memory [--path tcp|tls|shm] [--every N] [--from K] [--to K]
//
// Each k must end within bounded time, with correct results or with typed errors. At least one of the errors must name
// memory as its cause. No memory, descriptor or thread may remain. Reading a profile is tested alone in the same way.
// The program prints a line for each path, and exits with 1 at the first k that fails the test. It writes a row for
// each path to the file in RONDO_FAULT_ROWS (tests/faults/table).
#include <dirent.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/connect.h"
#include "collectives/model/profile.h"

namespace {

// ---- the allocator ----

std::atomic<std::int64_t> countdown{0};  // number of allocations until one fails; 0: none fails
std::atomic<std::int64_t> taken{0};      // number of allocations made while `counting` is set
// The number of allocations of the whole process that are not freed. Only differences are meaningful.
std::atomic<std::int64_t> held{0};
std::atomic<bool> counting{false};
std::atomic<bool> fired{false};
std::atomic<std::int64_t> trying{0};  // the current k
const char* trying_path = "";

[[noreturn]] void TellAndDie() {
  std::fprintf(stderr, "--path %s --from %lld: it crashes\n", trying_path, static_cast<long long>(trying.load()));
  std::abort();
}

void* Take(std::size_t bytes, std::size_t alignment) noexcept {
  if (counting.load(std::memory_order_relaxed)) {
    taken.fetch_add(1, std::memory_order_relaxed);
    if (countdown.load() > 0 && countdown.fetch_sub(1) == 1) {
      fired.store(true);
      return nullptr;
    }
  }
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(std::max<std::size_t>(bytes, 1))
          : std::aligned_alloc(alignment, (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (memory != nullptr) held.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void* TakeOrThrow(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  void* const memory = Take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void Give(void* memory) noexcept {
  if (memory == nullptr) return;
  held.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return TakeOrThrow(bytes); }
void* operator new[](std::size_t bytes) { return TakeOrThrow(bytes); }
void* operator new(std::size_t bytes, std::align_val_t to) { return TakeOrThrow(bytes, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t bytes, std::align_val_t to) {
  return TakeOrThrow(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Take(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept { Give(memory); }
void operator delete[](void* memory) noexcept { Give(memory); }
void operator delete(void* memory, std::size_t) noexcept { Give(memory); }
void operator delete[](void* memory, std::size_t) noexcept { Give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Give(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { Give(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { Give(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { Give(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { Give(memory); }

namespace {

using rondo::DataType;
using rondo::ErrorCode;
using rondo::Path;
using rondo::Rank;
using rondo::ReduceOp;
using rondo::Status;

constexpr int kRanks = 2;
constexpr std::size_t kLarge = 70'000;
// for jobs in which an allocation may fail: a rank may then wait for a rank that never arrives
constexpr auto kTimeout = std::chrono::milliseconds(1000);
constexpr auto kTimeoutOfSound = std::chrono::seconds(30);
constexpr int kLooksForThreads = 5000;
constexpr auto kMaxPerTry = std::chrono::seconds(60);

// A rank's memory. It is allocated before allocations are counted.
struct RankMemory {
  std::vector<float> small = std::vector<float>(4), large = std::vector<float>(kLarge),
                     got = std::vector<float>(kLarge);
  rondo::ConnectOptions options;
};

struct Outcome {
  Status status;
  bool wrong = false;
  // Set if there was an error, which is printed after all memory has been counted.
  std::optional<ErrorCode> code;
  std::string words;
};

bool AllAre(const std::vector<float>& values, float value) {
  return std::all_of(values.begin(), values.end(), [&](float one) { return one == value; });
}

// Makes all calls of a rank, up to the first one that fails.
Status Live(Rank rank, RankMemory& memory, bool& wrong) {
  RONDO_ASSIGN(const auto communicator, rondo::Connect(memory.options));
  const auto sum = [&](std::vector<float>& values) -> Status {
    std::fill(values.begin(), values.end(), static_cast<float>(rank + 1));
    RONDO_TRY(communicator->AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum));
    wrong = wrong || !AllAre(values, 3);
    return {};
  };
  RONDO_TRY(sum(memory.small));
  RONDO_TRY(sum(memory.large));

  std::fill(memory.large.begin(), memory.large.end(), static_cast<float>(rank));
  rondo::Work work =
      communicator->BroadcastAsync(memory.large.data(), memory.large.data(), kLarge, DataType::kFloat32, 1);
  RONDO_TRY(work.Wait());
  wrong = wrong || !AllAre(memory.large, 1);

  for (const std::size_t count : {std::size_t{3}, kLarge}) {
    std::fill_n(memory.large.begin(), count, static_cast<float>(rank));
    std::fill_n(memory.got.begin(), count, -1.0F);
    const Rank other = 1 - rank;
    RONDO_TRY(communicator->SendRecv({memory.large.data(), count, other, 5},
                                     {memory.got.data(), count, rondo::kAnyRank, 5}, DataType::kFloat32));
    wrong = wrong || memory.got[0] != static_cast<float>(other) || memory.got[count - 1] != static_cast<float>(other);
  }
  {
    RONDO_ASSIGN(const auto group, communicator->Split(0, rank));
    RONDO_TRY(group->Barrier());
    RONDO_TRY(group->Close());
  }
  return communicator->Close();
}

// Tests reading a profile, which Connect does once for each process. Every k must give a profile or kOutOfMemory.
bool SweepProfile(std::int64_t every, std::int64_t from) {
  const std::string text = Print(*rondo::DefaultProfile());
  std::int64_t tries = 0, failures = 0;
  bool sound = true;
  for (std::int64_t k = std::max<std::int64_t>(from, 1); sound; k += every, ++tries) {
    fired.store(false);
    countdown.store(k);
    counting.store(true);
    const auto profile = rondo::ParseProfile(text);
    counting.store(false);
    if (!fired.load()) break;
    failures += !profile;
    sound = profile || profile.error().code() == ErrorCode::kOutOfMemory;
    if (!sound) std::printf("profile, k = %lld: %s\n", static_cast<long long>(k), profile.error().ToString().c_str());
  }
  countdown.store(0);
  std::printf("reading a profile: %lld tries, %lld failed\n", static_cast<long long>(tries),
              static_cast<long long>(failures));
  return sound;
}

int CountEntries(const char* folder) {
  int entries = 0;
  DIR* const open = opendir(folder);
  while (open != nullptr && readdir(open) != nullptr) ++entries;
  if (open != nullptr) closedir(open);
  return entries;
}

// Ends the process with an error message if a try hangs.
class Watchdog {
 public:
  Watchdog() : thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void Begin(std::int64_t k) {
    const std::lock_guard lock(mutex_);
    trying.store(k);
    until_ = std::chrono::steady_clock::now() + kMaxPerTry;
  }

 private:
  void Watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (std::chrono::steady_clock::now() < until_) continue;
      std::fprintf(stderr, "--path %s --from %lld: it hangs\n", trying_path, static_cast<long long>(trying.load()));
      std::abort();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::time_point::max();
  std::thread thread_;
};

struct Try {
  std::vector<Outcome> outcomes = std::vector<Outcome>(kRanks);
  std::int64_t allocations = 0;
  std::string left;  // the resources that remained, as a text
};

struct Way {
  const char* name;
  Path path;
  bool tls = false;
};
constexpr Way kWays[] = {{"tcp", Path::kTcp}, {"tls", Path::kTcp, true}, {"shm", Path::kAuto}};

// Runs one complete job in which the k-th allocation fails; 0: none fails.
Try Run(std::vector<RankMemory>& memory, const std::string& rendezvous, const Way& way, std::int64_t k) {
  Try result;
  const int descriptors = CountEntries("/proc/self/fd"), threads = CountEntries("/proc/self/task");
  for (Rank rank = 0; rank < kRanks; ++rank) {
    rondo::ConnectOptions& options = memory[static_cast<std::size_t>(rank)].options;
    options = {.rendezvous = rendezvous,
               .rank = rank,
               .world_size = kRanks,
               .path = way.path,
               .timeout = k > 0 ? kTimeout : kTimeoutOfSound};
    if (!way.tls) continue;
    options.token = "secret";  // the TLS key is derived from the token
    options.tls = rondo::TlsOptions{.mode = rondo::TlsMode::kPsk};
  }
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  const std::int64_t before = held.load();
  std::int64_t words = 0;
  std::vector<std::thread> ranks;
  ranks.reserve(kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      ++ready;
      while (!go.load()) std::this_thread::yield();
      Outcome& outcome = result.outcomes[static_cast<std::size_t>(rank)];
      outcome.status = Live(rank, memory[static_cast<std::size_t>(rank)], outcome.wrong);
      ++done;
    });
  }
  while (ready.load() < kRanks) std::this_thread::yield();
  taken.store(0);
  fired.store(false);
  countdown.store(k);
  counting.store(true);
  go.store(true);
  while (done.load() < kRanks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  counting.store(false);
  countdown.store(0);
  for (std::thread& rank : ranks) rank.join();
  ranks.clear();
  ranks.shrink_to_fit();
  result.allocations = taken.load();
  // Errors also use memory, so they are destroyed before memory is compared. Their texts are kept; the memory of the
  // texts is subtracted below.
  for (Outcome& outcome : result.outcomes) {
    const std::int64_t without_words = held.load();
    if (!outcome.status) outcome.code = outcome.status.error().code();
    if (!outcome.status) outcome.words = outcome.status.error().ToString();
    words += held.load() - without_words;
    outcome.status = Status();
  }
  if (const std::int64_t now = held.load() - words; now != before)
    result.left += fmt::format(" {} pieces of memory", now - before);
  if (const int now = CountEntries("/proc/self/fd"); now != descriptors)
    result.left += fmt::format(" {} descriptors", now - descriptors);
  // A joined thread may still be listed for a moment.
  int now = CountEntries("/proc/self/task");
  for (int i = 0; i < kLooksForThreads && now != threads; ++i, now = CountEntries("/proc/self/task"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (now != threads) result.left += fmt::format(" {} threads", now - threads);
  return result;
}

// Whether the error names memory as its cause.
bool NamesMemory(const Outcome& outcome) {
  return outcome.code == ErrorCode::kOutOfMemory || outcome.words.find("memory") != std::string::npos ||
         outcome.words.find("bad_alloc") != std::string::npos;
}

bool Sweep(const Way& way, std::int64_t every, std::int64_t from, std::int64_t to) {
  const char* const name = way.name;
  trying_path = name;
  std::vector<RankMemory> memory(kRanks);
  std::string folder = "/tmp/rondo-out-of-memory-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return false;
  std::int64_t stores = 0;
  const auto run = [&](std::int64_t k) {
    const std::string file = fmt::format("{}/{}", folder, ++stores);
    Try result = Run(memory, "file://" + file, way, k);
    unlink(file.c_str());
    return result;
  };
  bool sound = true;
  std::int64_t tries = 0, failures = 0, unharmed = 0, unfired = 0;
  std::map<std::string, int> kinds;
  {
    Watchdog watchdog;
    const auto complain = [&](std::int64_t k, const std::string& what) {
      std::printf("--path %s --from %lld: %s\n", name, static_cast<long long>(k), what.c_str());
      sound = false;
    };
    watchdog.Begin(0);
    run(0);  // makes the objects that exist only once in a process
    const Try whole = run(0);
    for (const Outcome& outcome : whole.outcomes)
      if (outcome.code || outcome.wrong || !whole.left.empty())
        complain(0, "without any fault: " + (outcome.code ? outcome.words : "wrong, or left behind" + whole.left));
    const std::int64_t last = to > 0 ? to : whole.allocations;
    for (std::int64_t k = from; k <= last && sound; k += every) {
      watchdog.Begin(k);
      const Try one = run(k);
      ++tries;
      if (!fired.load()) ++unfired;  // not every run makes exactly the same number of allocations
      bool names_memory = false, failed = false;
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const Outcome& outcome = one.outcomes[rank];
        if (outcome.wrong) complain(k, fmt::format("rank {} has a wrong result", rank));
        if (!outcome.code) continue;
        failed = true;
        names_memory = names_memory || NamesMemory(outcome);
        ++kinds[std::string(Name(*outcome.code))];
      }
      failures += failed;
      unharmed += fired.load() && !failed;
      if (failed && fired.load() && !names_memory) {
        std::string all;
        for (const Outcome& outcome : one.outcomes) all += "\n  " + (outcome.code ? outcome.words : "ok");
        complain(k, "no error names memory as its cause:" + all);
      }
      if (!one.left.empty()) complain(k, "left behind:" + one.left);
    }
    std::string words;
    for (const auto& [kind, count] : kinds) words += fmt::format(", {} {}", count, kind);
    std::printf("%s: %lld allocations, %lld tries: %lld failed, %lld did without, %lld had none to fail%s\n", name,
                static_cast<long long>(whole.allocations), static_cast<long long>(tries),
                static_cast<long long>(failures), static_cast<long long>(unharmed), static_cast<long long>(unfired),
                words.c_str());
  }
  rmdir(folder.c_str());
  if (const char* const rows = std::getenv("RONDO_FAULT_ROWS"); rows != nullptr) {
    std::string outcome = unharmed > 0 ? "correct; typed_error" : "typed_error";
    for (const auto& [kind, count] : kinds) outcome += " " + kind;
    std::ofstream(rows, std::ios::app) << fmt::format(
        R"({{"fault": 27, "case": "one allocation in {} fails", "layer": "sockets", "path": "{}", "fired": {}, )"
        R"("outcome": "{}", "detected_ms": null}})"
        "\n",
        every, name, tries - unfired, outcome);
  }
  return sound;
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(TellAndDie);
  std::signal(SIGSEGV, [](int) { TellAndDie(); });
  std::map<std::string, std::int64_t> numbers{{"--every", 1}, {"--from", 1}, {"--to", 0}};
  std::vector<Way> ways(std::begin(kWays), std::end(kWays));
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const auto way =
        std::find_if(std::begin(kWays), std::end(kWays), [&](const Way& one) { return value == one.name; });
    if (flag == "--path" && way != std::end(kWays)) {
      ways = {*way};
      continue;
    }
    const auto number = numbers.find(flag);
    const auto end = value.data() + value.size();
    if (number == numbers.end() || value.empty() || std::from_chars(value.data(), end, number->second).ptr != end ||
        number->second < 0) {
      std::fprintf(stderr,
                   "out_of_memory: %s %s is not understood; --every N, --from N and --to N say which allocations fail, "
                   "--path tcp|tls|shm where\n",
                   flag.c_str(), value.c_str());
      return 2;
    }
  }
  const std::int64_t every = std::max<std::int64_t>(numbers["--every"], 1);
  bool sound = SweepProfile(every, numbers["--from"]);
  for (const Way& way : ways) sound = Sweep(way, every, numbers["--from"], numbers["--to"]) && sound;
  return sound ? 0 : 1;
}
