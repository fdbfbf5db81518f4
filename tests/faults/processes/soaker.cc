// A rank that takes part in random collectives and messages, all of which are checked. When one fails, the rank
// continues with the remaining ranks. tests/faults/processes/soak starts such ranks under `rondo run --restarts` and
// kills some of them. The seed, the generation and the world size determine the calls, so all ranks of a generation,
// including joiners, make the same calls. The rank reports
//
//   connected  when it belongs to a generation: its rank, the world size, and whether it joined
//   census     its system resources, after a fixed sequence of operations at the beginning of a generation
//   failed     an error of an operation or of a rebuild
//   wrong      a wrong value; the process ends
//   over       when all ranks have left together
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/half.h"
#include "base/random.h"
#include "collectives/communicator.h"
#include "collectives/connect.h"
#include "tests/communicator/plain.h"
#include "tests/faults/processes/footprint.h"
#include "tests/faults/processes/saying.h"

namespace rondo::processes {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDeadline = 20s;  // the timeout of an operation, long enough for a busy machine
constexpr Duration kSettle = 5s;     // the settle time of a rebuild; no rank spends that long outside of Rondo
constexpr std::uint64_t kMaxElements = 1 << 17;
constexpr std::uint64_t kLookForEndEvery = 32;  // number of operations between two checks of whether the run must end
// After this many operations all ranks rebuild, even if none has died.
constexpr std::uint64_t kOperationsAGeneration = 1'500;
constexpr int kRebuildTries = 5;

struct Flags {
  ConnectOptions connect;
  int ranks = 4;
  std::uint64_t seed = 1;
  std::string until;
  std::string plant;
};

[[noreturn]] void EndAsWrong(const std::string& what) {
  Say("wrong", {{"pid", getpid()}, {"text", what}});
  _exit(6);
}

// A random length from 1 to `most`. Small lengths are as frequent as large ones.
std::uint64_t Length(Random& random, std::uint64_t most) {
  std::uint64_t bits = 0;
  while (most >> bits > 1) ++bits;
  return std::min(most, random.Below(std::uint64_t{1} << random.Below(bits + 1)) + 1);
}

// ---- values of every type ----

// Small integers, because every type represents their sums over all ranks exactly.
int Small(Rank rank, std::uint64_t i, std::uint64_t salt) {
  return static_cast<int>((static_cast<std::uint64_t>(rank) * 7 + i * 3 + salt) % 13);
}

template <typename T>
void Put(std::vector<std::byte>& memory, std::uint64_t i, T value) {
  std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof value, memory.data() + i * sizeof value);
}

void Store(std::vector<std::byte>& memory, DataType type, std::uint64_t i, int value) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool: return Put(memory, i, static_cast<std::uint8_t>(value));
    case DataType::kInt32:
    case DataType::kUint32: return Put(memory, i, static_cast<std::uint32_t>(value));
    case DataType::kInt64:
    case DataType::kUint64: return Put(memory, i, static_cast<std::uint64_t>(value));
    case DataType::kFloat16: return Put(memory, i, ToFloat16(static_cast<float>(value)));
    case DataType::kBfloat16: return Put(memory, i, ToBfloat16(static_cast<float>(value)));
    case DataType::kFloat32: return Put(memory, i, static_cast<float>(value));
    case DataType::kFloat64: return Put(memory, i, static_cast<double>(value));
  }
}

constexpr std::array kTypes{DataType::kInt8,    DataType::kUint8,  DataType::kInt32,   DataType::kUint32,
                            DataType::kInt64,   DataType::kUint64, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kFloat32, DataType::kFloat64};
constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
constexpr std::array kCollectives{Collective::kAllReduce, Collective::kBroadcast, Collective::kBarrier,
                                  Collective::kReduce,    Collective::kAllGather, Collective::kReduceScatter,
                                  Collective::kGather,    Collective::kScatter,   Collective::kAllToAll};

class Soaker {
 public:
  explicit Soaker(const Flags& flags) : flags_(flags) {}

  int Run() {
    Say("pid", {{"pid", getpid()}});
    auto connected = Connect(flags_.connect);
    if (!connected) {
      nlohmann::json fields = FieldsOf(connected.error());
      fields["pid"] = getpid();
      Say("failed", std::move(fields));
      return 1;
    }
    communicator_ = *std::move(connected);
    const bool joiner = communicator_->report().generation > 0;
    for (;;) {
      Say("connected", {{"pid", getpid()},
                        {"rank", communicator_->rank()},
                        {"world_size", communicator_->world_size()},
                        {"generation", communicator_->report().generation},
                        {"joiner", joiner}});
      const Status status = Generation();
      if (status && over_) return End();
      if (!status) {
        nlohmann::json fields = FieldsOf(status.error());
        fields["pid"] = getpid();
        fields["generation"] = communicator_->report().generation;
        Say("failed", std::move(fields));
      }
      if (!GoOn()) return 1;
    }
  }

 private:
  // Runs until an operation fails, the end is requested, or kOperationsAGeneration operations are done.
  Status Generation() {
    const std::uint64_t generation = communicator_->report().generation;
    Random random(flags_.seed * 1'000'003 + generation);
    RONDO_TRY(Census());
    for (std::uint64_t done = 1; done <= kOperationsAGeneration; ++done) {
      RONDO_TRY(OneOf(random));
      if (done % kLookForEndEvery != 0) continue;
      std::int64_t over = communicator_->rank() == 0 && std::filesystem::exists(flags_.until) ? 1 : 0;
      RONDO_TRY(communicator_->AllReduce(&over, &over, 1, DataType::kInt64, ReduceOp::kMax, {.timeout = kDeadline}));
      if (over != 0) {
        over_ = true;
        return communicator_->Close();
      }
    }
    return {};
  }

  // Runs the same operations in every generation. So the resources afterwards can be compared with those of the
  // previous generation.
  Status Census() {
    plain::Case c{.collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .counts = {10'000}};
    RONDO_TRY(Checked(c));
    c.algorithm.reset();
    RONDO_TRY(Checked(c));
    RONDO_TRY(communicator_->Barrier({.timeout = kDeadline}));
    Plant();
    malloc_trim(0);
    const Footprint now = Footprint::Take();
    nlohmann::json fields{{"pid", getpid()},
                          {"rank", communicator_->rank()},
                          {"world_size", communicator_->world_size()},
                          {"generation", communicator_->report().generation},
                          {"descriptors", now.descriptors.size()},
                          {"threads", now.threads.size()},
                          {"mappings", now.shared_mappings},
                          {"resident_kib", now.resident_bytes >> 10},
                          {"checked", checked_}};
    if (communicator_->rank() == 0) fields["what"] = now.descriptors;
    Say("census", std::move(fields));
    return communicator_->Barrier({.timeout = kDeadline});
  }

  // Makes a leak on purpose, which tests/faults/processes/soak must find.
  void Plant() {
    constexpr std::size_t kLeaked = 128 << 10;
    if (flags_.plant == "descriptor" && dup(STDERR_FILENO) < 0) Say("wrong", {{"text", "dup failed"}});
    if (flags_.plant == "thread") std::thread([] { pause(); }).detach();
    if (flags_.plant == "memory") planted_.push_back(std::vector<char>(kLeaked, 'x'));
  }

  Status OneOf(Random& random) {
    const std::uint64_t what = random.Below(40);
    if (what < 20) return AnyCollective(random);
    if (what < 30) return AnyType(random);
    if (what < 34) return Several(random);
    if (what < 38) return Messages(random);
    if (what < 39) return Allocated(random);
    return InGroups(random);
  }

  Status AnyCollective(Random& random) {
    plain::Case c;
    c.collective = kCollectives[random.Below(kCollectives.size())];
    c.root = static_cast<Rank>(random.Below(static_cast<std::uint64_t>(communicator_->world_size())));
    c.in_place = random.Chance(0.5);
    c.counts.assign(static_cast<std::size_t>(communicator_->world_size()), Length(random, kMaxElements / 4));
    c.salt = static_cast<std::int64_t>(random.Below(1'000'000));
    return Checked(c);
  }

  Status Checked(const plain::Case& c) {
    plain::Case sized = c;
    sized.counts.resize(static_cast<std::size_t>(communicator_->world_size()), c.counts[0]);
    plain::Buffers buffers(sized, communicator_->rank(), communicator_->world_size());
    RONDO_TRY(plain::Issue(*communicator_, sized, buffers.in(), buffers.out(), DataType::kInt64, ReduceOp::kSum,
                           {.timeout = kDeadline})
                  .Wait());
    if (const std::string wrong = buffers.Wrong(sized, communicator_->rank(), communicator_->world_size());
        !wrong.empty())
      EndAsWrong(plain::Describe(sized) + ": " + wrong);
    ++checked_;
    return {};
  }

  // Runs one all_reduce of a random type. Some calls are reproducible, that is, they combine in rank order.
  Status AnyType(Random& random) {
    const DataType type = kTypes[random.Below(kTypes.size())];
    const ReduceOp op = kOps[random.Below(kOps.size())];
    const bool reproducible = random.Chance(0.3);
    const std::uint64_t count = Length(random, kMaxElements);
    const std::uint64_t salt = random.Below(13);
    std::vector<std::byte> memory(count * SizeOf(type));
    std::vector<std::byte> due(memory.size());
    for (std::uint64_t i = 0; i < count; ++i) {
      Store(memory, type, i, Small(communicator_->rank(), i, salt));
      int value = Small(0, i, salt);
      for (Rank rank = 1; rank < communicator_->world_size(); ++rank) {
        const int more = Small(rank, i, salt);
        value = op == ReduceOp::kSum   ? value + more
                : op == ReduceOp::kMin ? std::min(value, more)
                                       : std::max(value, more);
      }
      Store(due, type, i, value);
    }
    RONDO_TRY(communicator_->AllReduce(memory.data(), memory.data(), count, type, op,
                                       {.timeout = kDeadline, .reproducible = reproducible}));
    if (memory != due)
      EndAsWrong(std::string("all_reduce of ") + std::to_string(count) + " " + std::string(Name(type)) + " is wrong");
    ++checked_;
    return {};
  }

  // Issues several operations one after the other, and waits for all of them at the end.
  Status Several(Random& random) {
    const std::size_t works = 1 + random.Below(8);
    const int world = communicator_->world_size();
    std::vector<std::vector<std::int64_t>> values;
    std::vector<Work> issued;
    for (std::size_t i = 0; i < works; ++i)
      values.emplace_back(Length(random, kMaxElements / 8), communicator_->rank() + static_cast<std::int64_t>(i));
    for (auto& one : values)
      issued.push_back(communicator_->AllReduceAsync(one.data(), one.data(), one.size(), DataType::kInt64,
                                                     ReduceOp::kSum, {.timeout = kDeadline}));
    Status first;
    for (Work& work : issued)
      if (const Status status = work.Wait(); !status && first) first = status;
    RONDO_TRY(first);
    for (std::size_t i = 0; i < works; ++i)
      for (const std::int64_t value : values[i])
        if (value != world * (world - 1) / 2 + world * static_cast<std::int64_t>(i)) EndAsWrong("one of several sums");
    checked_ += works;
    return {};
  }

  // Allocates memory that ranks of a host map, uses it, and frees it.
  Status Allocated(Random& random) {
    const std::size_t elements = (64 << 10) / sizeof(std::int64_t) + Length(random, kMaxElements);
    RONDO_ASSIGN(const std::unique_ptr<Memory> memory, communicator_->Allocate(elements * sizeof(std::int64_t)));
    auto* const values = reinterpret_cast<std::int64_t*>(memory->bytes().data());
    std::fill_n(values, elements, communicator_->rank());
    RONDO_TRY(
        communicator_->AllReduce(values, values, elements, DataType::kInt64, ReduceOp::kSum, {.timeout = kDeadline}));
    const int world = communicator_->world_size();
    if (std::any_of(values, values + elements, [world](std::int64_t v) { return v != world * (world - 1) / 2; }))
      EndAsWrong("a sum in allocated memory");
    ++checked_;
    return {};
  }

  // Makes a group of the even ranks and a group of the odd ranks, for one sum. All ranks close the group, or all
  // destroy it.
  Status InGroups(Random& random) {
    const bool closes = random.Chance(0.5);
    const std::uint64_t count = Length(random, kMaxElements);
    RONDO_ASSIGN(const std::unique_ptr<Communicator> group,
                 communicator_->Split(communicator_->rank() % 2, communicator_->rank()));
    // If Split fails on a rank, that rank has no group by which it could notify the other ranks. They would wait for it
    // until their timeout. So all ranks first enter a barrier of the parent communicator, which reports the failure.
    RONDO_TRY(communicator_->Barrier({.timeout = kDeadline}));
    std::vector<std::int64_t> values(count, group->rank() + 1);
    RONDO_TRY(group->AllReduce(values.data(), values.data(), count, DataType::kInt64, ReduceOp::kSum,
                               {.timeout = kDeadline}));
    const std::int64_t due = std::int64_t{group->world_size()} * (group->world_size() + 1) / 2;
    if (std::any_of(values.begin(), values.end(), [due](std::int64_t v) { return v != due; }))
      EndAsWrong("a sum in a group");
    ++checked_;
    // If a rank destroys a group without Close, the group fails for ranks that still need it. After this barrier no
    // rank needs the group.
    RONDO_TRY(communicator_->Barrier({.timeout = kDeadline}));
    return closes ? group->Close() : Status();
  }

  // Sends messages around a ring of the ranks.
  Status Messages(Random& random) {
    const int world = communicator_->world_size();
    const Rank rank = communicator_->rank();
    const std::uint64_t count = Length(random, kMaxElements);
    const auto tag = static_cast<Tag>(random.Below(100));
    std::vector<std::int64_t> out(count, rank);
    std::vector<std::int64_t> in(count, -1);
    const Rank from = (rank + world - 1) % world;
    const auto got =
        communicator_->SendRecv({.buffer = out.data(), .count = count, .to = (rank + 1) % world, .tag = tag},
                                {.buffer = in.data(), .count = count, .from_or_any = from, .tag_or_any = tag},
                                DataType::kInt64, {.timeout = kDeadline});
    if (!got) return Fail(got.error());
    if (std::any_of(in.begin(), in.end(), [from](std::int64_t value) { return value != from; }))
      EndAsWrong("a message from rank " + std::to_string(from));
    ++checked_;
    return {};
  }

  bool GoOn() {
    for (int tries = 0; tries < kRebuildTries; ++tries) {
      auto next = communicator_->Rebuild({.max_ranks = flags_.ranks, .settle = kSettle, .timeout = kDeadline});
      if (next) {
        communicator_ = *std::move(next);
        return true;
      }
      nlohmann::json fields = FieldsOf(next.error());
      fields["pid"] = getpid();
      fields["rebuild"] = true;
      Say("failed", std::move(fields));
      if (next.error().code() == ErrorCode::kStale) return false;
    }
    return false;
  }

  int End() {
    communicator_.reset();
    const Footprint now = Footprint::Take();
    Say("over", {{"pid", getpid()},
                 {"checked", checked_},
                 {"descriptors", now.descriptors.size()},
                 {"threads", now.threads.size()},
                 {"mappings", now.shared_mappings}});
    return 0;
  }

  const Flags& flags_;
  std::unique_ptr<Communicator> communicator_;
  std::vector<std::vector<char>> planted_;
  std::uint64_t checked_ = 0;
  bool over_ = false;
};

}  // namespace
}  // namespace rondo::processes

int main(int argc, char** argv) {
  rondo::processes::Flags flags;
  std::string path = "auto";
  CLI::App app("A rank that soaks in random collectives; for tests/faults/processes/soak, under rondo run --restarts.");
  app.add_option("--path", path)->check(CLI::IsMember({"auto", "tcp", "shm"}));
  app.add_option("--ranks", flags.ranks, "The number of ranks of the complete job");
  app.add_option("--seed", flags.seed);
  app.add_flag("--checksums", flags.connect.communicator.checksums);
  app.add_option("--until", flags.until, "All leave when this file is there")->required();
  app.add_option("--plant", flags.plant, "Leaks on purpose, once a generation: descriptor, thread or memory")
      ->check(CLI::IsMember({"descriptor", "thread", "memory"}));
  CLI11_PARSE(app, argc, argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  flags.connect.rendezvous = "env://";
  flags.connect.environment = rondo::ProcessEnvironment;
  flags.connect.path = path == "tcp" ? rondo::Path::kTcp : path == "shm" ? rondo::Path::kShm : rondo::Path::kAuto;
  flags.connect.addresses = {"127.0.0.1"};
  flags.connect.timeout = std::chrono::seconds(60);
  flags.connect.rebuildable = true;
  return rondo::processes::Soaker(flags).Run();
}
