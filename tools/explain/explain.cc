// rondo explain: shows how a collective would run, without running it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "collectives/algorithms/table.h"
#include "collectives/connect.h"
#include "collectives/cpu_list.h"
#include "collectives/engine/slices.h"
#include "collectives/model/selector.h"
#include "collectives/schedule/grid.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/text.h"
#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"
#include "tools/common/comma_list.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"
#include "tools/common/profile_flag.h"
#include "tools/common/sizes.h"
#include "transport/shared_segment.h"
#include "transport/shm/shared_memory.h"
#include "transport/shm/shared_segment.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

// The text of a schedule grows with the square of the world size. Up to kSmallWorld ranks it is printed by default; for
// more than kMaxTextRanks ranks it is never printed.
constexpr int kSmallWorld = 8, kMaxTextRanks = 256;

struct ExplainFlags {
  Collective collective = Collective::kAllReduce;
  int ranks = 0;
  std::uint64_t bytes = 0;
  DataType type = DataType::kFloat32;
  std::optional<Algorithm> algorithm;
  Rank root = 0;
  bool reproducible = false;
  bool text = false;
  std::shared_ptr<const Profile> profile;
  std::vector<std::string> addresses;
  std::string interface;
  std::optional<PortRange> ports;
  std::string transport = "shm";
};

// Counts the transfers of a schedule while its generator runs, without building the schedule.
class Counter final : public Transfers {
 public:
  Counter(const BlockGrid& grid, int world_size) : grid_(grid), sent_(static_cast<std::size_t>(world_size)) {}

  void Reduce(Rank from, Rank, ChunkRange chunks) override { Send(from, chunks); }
  void Copy(Rank from, Rank, ChunkRange chunks) override { Send(from, chunks); }
  void Signal(Rank from, Rank) override { Send(from, {}); }
  void Hold(Rank, ChunkRange) override {}
  void Contribute(Rank, ChunkRange) override {}
  void Finish(Rank, ChunkRange) override {}
  void EndRound() override {
    rounds_ += in_round_ > 0;
    in_round_ = 0;
  }

  int rounds() const { return rounds_; }
  std::uint64_t transfers() const { return transfers_; }
  const std::vector<std::uint64_t>& sent_bytes() const { return sent_; }  // indexed by rank

 private:
  void Send(Rank from, ChunkRange chunks) {
    sent_[static_cast<std::size_t>(from)] += grid_.BeginByte(chunks.end()) - grid_.BeginByte(chunks.first);
    ++in_round_;
    ++transfers_;
  }

  const BlockGrid grid_;
  std::vector<std::uint64_t> sent_;
  int rounds_ = 0;
  std::uint64_t in_round_ = 0;
  std::uint64_t transfers_ = 0;
};

// The number of blocks in the largest buffer of a rank.
std::uint64_t BlocksPerRank(Collective collective, int ranks) {
  return BlocksOf(collective, 2) > 1 ? static_cast<std::uint64_t>(ranks) : 1;
}

void ExplainSchedule(const ExplainFlags& flags, const AlgorithmEntry& entry, std::uint64_t count) {
  const World world{.size = flags.ranks, .root = flags.root};
  const std::uint32_t chunks = ChunksOf(entry, world);
  const std::uint32_t blocks = BlocksOf(entry.collective, flags.ranks);
  Counter counter(BlockGrid(blocks, count, SizeOf(flags.type), chunks / blocks), flags.ranks);
  entry.generate(world, counter);
  const auto& sent = counter.sent_bytes();
  const auto [least, most] = std::minmax_element(sent.begin(), sent.end());
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : sent) total += bytes;
  const std::size_t element_bytes = SizeOf(flags.type);
  const std::uint64_t slice =
      entry.traits.in_slices ? SliceElements(count, element_bytes, chunks, CommunicatorOptions{}.frame_bytes) : count;
  if (slice < count)
    fmt::print("slices      {} of {}; for each slice:\n", (count + slice - 1) / slice,
               FormatSize(slice * element_bytes));
  fmt::print("rounds      {}\n", counter.rounds());
  fmt::print("chunks      {} of about {}\n", chunks, FormatSize(slice * element_bytes * blocks / chunks));
  fmt::print("transfers   {}\n", counter.transfers());
  fmt::print("sent        {} in all; by one rank {} to {}\n", FormatSize(total), FormatSize(*least), FormatSize(*most));
  fmt::print("transport   {}\n", flags.transport);
  if (!flags.text && flags.ranks > kSmallWorld) {
    fmt::print("schedule    {}\n", flags.ranks <= kMaxTextRanks
                                       ? std::string("--text prints it whole")
                                       : fmt::format("--text prints it whole, of at most {} ranks", kMaxTextRanks));
    return;
  }
  ScheduleKey key;
  key.collective = entry.collective;
  key.algorithm = entry.algorithm;
  key.world_size = flags.ranks;
  key.root = flags.root;
  key.in_place = HasInPlace(entry.collective);
  fmt::print("\n{}", Print(Build(entry, key)));
}

// Prints the expected times of the chosen algorithm and of all other usable algorithms.
void ExplainTimes(const Selector& selector, const Call& call, Algorithm chosen) {
  const auto text = [](const Candidate& candidate) {
    return fmt::format("{:.3g} us {}", candidate.us, candidate.measured ? "measured" : "predicted");
  };
  fmt::print("expected    {} over tcp among ranks of one host, by profile '{}'\n", text(selector.Expect(chosen, call)),
             selector.profile().name);
  std::string others;
  for (const Candidate& candidate : selector.Candidates(call))
    if (candidate.algorithm != chosen)
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ", Name(candidate.algorithm), text(candidate));
  if (!others.empty()) fmt::print("others      {}\n", others);
}

// Whether the intranode path would be used. It has no algorithm and no schedule, so if the user asks for an algorithm,
// the result is false.
bool TakesIntranode(const ExplainFlags& flags) {
  return flags.transport == "shm" && flags.ranks > 1 && flags.ranks <= kMaxSharedSegmentRanks &&
         flags.algorithm.value_or(Algorithm::kIntranode) == Algorithm::kIntranode;
}

// Why ranks of this host could not share memory now; "": they could share it.
std::string WhyNotShared(int ranks) {
  if (const auto host = FindHostId(); !host) return host.error().message();
  const shm::Room room = shm::MemoryLeft();
  const std::size_t bytes = shm::SharedSegmentBytes(std::min(ranks, kMaxSharedSegmentRanks));
  return room.bytes < bytes ? fmt::format("{} ranks need {} bytes, but {}", ranks, bytes, room.why) : "";
}

void ExplainAddresses(const Transport& transport) {
  const auto method = ParseInitMethod("env://", ProcessEnvironment);
  fmt::print("\nranks       {}\n", method ? method->Describe() : method.error().message());
  fmt::print("\naddresses of {}\n{}\n", LocalHostName(), transport.DescribeAddress());
}

int Explain(ExplainFlags& flags) {
  if (const Status profile = TakeProfileOfEnvironment(flags.profile); !profile)
    return Complain("explain", profile.error().message(), kExitWrongUsage);
  if (flags.root >= flags.ranks) {
    return Complain("explain", fmt::format("--root: {} is outside 0..{}", flags.root, flags.ranks - 1),
                    kExitWrongUsage);
  }
  if (flags.text && flags.ranks > kMaxTextRanks) {
    return Complain("explain", fmt::format("--text: expected at most {} ranks", kMaxTextRanks), kExitWrongUsage);
  }
  const bool has_data = flags.collective != Collective::kBarrier;
  const std::uint64_t blocks = BlocksPerRank(flags.collective, flags.ranks);
  const std::uint64_t count = has_data ? flags.bytes / SizeOf(flags.type) / blocks : 0;
  const std::uint64_t bytes = count * blocks * SizeOf(flags.type);
  const Selector selector(flags.profile != nullptr ? flags.profile : DefaultProfile(),
                          Topology::OneHost(flags.ranks, CountCpus({UsableCpus()})));
  const Call call{.collective = flags.collective, .bytes = bytes, .reproducible = flags.reproducible};
  if (flags.transport == "shm" && flags.ranks > 1)
    if (const std::string why = WhyNotShared(flags.ranks); !why.empty())
      flags.transport = fmt::format("tcp; no shared memory: {}", why);
  const bool intranode = TakesIntranode(flags);
  const Result<Selection> selection =
      intranode ? Selection{Algorithm::kIntranode, "all ranks share memory"} : selector.Choose(flags.algorithm, call);
  if (!selection) return Complain("explain", "--algorithm: " + selection.error().message(), kExitWrongUsage);
  fmt::print("collective  {} among {} ranks", Name(flags.collective), flags.ranks);
  if (has_data && blocks == 1) fmt::print(", {} x {} = {} bytes", Name(flags.type), count, bytes);
  if (has_data && blocks > 1) fmt::print(", {} x {} x {} ranks = {} bytes", Name(flags.type), count, blocks, bytes);
  if (HasRoot(flags.collective)) fmt::print(", root {}", flags.root);
  if (flags.reproducible && Reduces(flags.collective)) fmt::print(", reproducible");
  fmt::print("\nalgorithm   {} ({})\n", Name(selection->algorithm),
             flags.algorithm ? "asked for by --algorithm" : selection->reason);
  if (intranode) {
    fmt::print("transport   shm: each rank writes its data for others once, into its slot of shared memory\n");
  } else {
    const AlgorithmEntry* const entry = FindAlgorithm(flags.collective, selection->algorithm);
    ExplainTimes(selector, call, selection->algorithm);
    ExplainSchedule(flags, *entry, count);
  }

  TcpOptions options;
  options.clock = std::make_shared<SteadyClock>();
  options.job = "explain";
  options.host_id = LocalHostId();
  options.addresses = flags.addresses;
  options.interface = flags.interface;
  auto ports = flags.ports ? Result<std::optional<PortRange>>(flags.ports) : PortsIn(ProcessEnvironment);
  if (!ports) return Complain("explain", ports.error().message(), kExitWrongUsage);
  options.ports = ports->value_or(PortRange{});
  const auto transport = MakeTcpTransport(options);
  if (!transport) {
    const bool usage = transport.error().code() == ErrorCode::kInvalidArgument;
    return Complain("explain", transport.error().ToString(), usage ? kExitWrongUsage : kExitFailed);
  }
  ExplainAddresses(**transport);
  return kExitDone;
}

template <typename T, typename Parse>
std::function<std::string(const std::string&)> Named(T& value, Parse parse, const std::string& noun) {
  return [&value, parse, noun](const std::string& text) -> std::string {
    const auto parsed = parse(text);
    if (!parsed) return fmt::format("expected {}, got '{}'", noun, text);
    value = *parsed;
    return "";
  };
}

}  // namespace

void AddExplainCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* explain = app.add_subcommand(
      "explain", "Show which algorithm a call would use and why, what it moves, and which addresses are used");
  explain->footer("Example: rondo explain all_reduce -N 4 --bytes 1M");
  const std::string collectives = NamesOf(DistinctCollectives());
  AddText(*explain, "collective", Named(flags->collective, ParseCollective, "one of " + collectives), "COLLECTIVE",
          collectives)
      ->required();
  AddNumber(
      *explain, "-N,--ranks", [flags](std::int64_t n) { flags->ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "Number of ranks")
      ->required();
  AddSize(
      *explain, "--bytes", [flags](std::uint64_t bytes) { flags->bytes = bytes; },
      "Size of the largest buffer of a rank, with K, M or G (default 0)");
  AddText(*explain, "-d,--dtype", Named(flags->type, ParseDataType, "a type of elements"), "TYPE",
          "Type of the elements (default float32)");
  AddText(
      *explain, "--algorithm",
      [flags](const std::string& text) -> std::string {
        flags->algorithm = text == "auto" ? std::nullopt : ParseAlgorithm(text);
        return flags->algorithm || text == "auto" ? "" : fmt::format("expected auto or an algorithm, got '{}'", text);
      },
      "NAME", "Algorithm to explain (default: the one that Rondo would choose)");
  AddNumber(
      *explain, "-r,--root", [flags](std::int64_t root) { flags->root = static_cast<Rank>(root); }, 0,
      kMaxWorldSize - 1, "Root of collectives that have one (default 0)");
  AddProfile(*explain, flags->profile);
  AddChoice(
      *explain, "--transport", [flags](const std::string& name) { flags->transport = name == "auto" ? "shm" : name; },
      {"auto", "tcp", "shm", "ib"},
      "How ranks of one host exchange bytes. auto and shm: through memory; tcp: by sockets; ib: by RDMA, but predicted "
      "with the costs of sockets");
  explain->add_flag("--reproducible", flags->reproducible, "Reduce in reproducible mode");
  explain->add_flag("--text", flags->text,
                    fmt::format("Print the schedule of every rank even for more than {} ranks", kSmallWorld));
  AddText(
      *explain, "--address",
      [flags](const std::string& list) { return flags->addresses = SplitAtCommas(list), std::string(); }, "ADDR[,ADDR]",
      "Local addresses to use");
  AddText(
      *explain, "--interface", [flags](const std::string& expr) { return flags->interface = expr, std::string(); },
      "EXPR", "Local interfaces to use: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8");
  AddPorts(*explain, flags->ports);
  explain->callback([flags, &exit_code] { exit_code = Explain(*flags); });
}

}  // namespace rondo
