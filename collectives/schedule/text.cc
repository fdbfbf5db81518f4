#include "collectives/schedule/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace rondo {
namespace {

constexpr std::array<std::pair<BufferId, std::string_view>, 3> kBuffers{{
    {BufferId::kInput, "input"},
    {BufferId::kOutput, "output"},
    {BufferId::kScratch, "scratch"},
}};

constexpr std::array<std::pair<DependencyKind, std::string_view>, 3> kKinds{{
    {DependencyKind::kReadAfterWrite, "raw"},
    {DependencyKind::kWriteAfterRead, "war"},
    {DependencyKind::kWriteAfterWrite, "waw"},
}};

template <typename Value>
std::string_view NameOf(const std::array<std::pair<Value, std::string_view>, 3>& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "?";
}

// ---- printing ----

std::string Chunks(ChunkRange chunks) {
  if (chunks.count == 1) return fmt::format("[{}]", chunks.first);
  return fmt::format("[{}:{}]", chunks.first, chunks.end());
}

std::string Range(BufferId buffer, ChunkRange chunks) { return std::string(NameOf(kBuffers, buffer)) + Chunks(chunks); }

std::string What(const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return fmt::format("send {} to {} transfer {}", Range(step.source, step.chunks), step.peer, step.transfer);
    case StepKind::kRecv:
      return fmt::format("recv {} from {} transfer {}", Range(step.destination, step.chunks), step.peer, step.transfer);
    case StepKind::kRecvReduce: {
      const std::string own = Range(step.source, step.chunks);
      const std::string incoming = fmt::format("rank {}", step.peer);
      return fmt::format("recv_reduce {} = {} op {} transfer {}", Range(step.destination, step.chunks),
                         step.incoming_left ? incoming : own, step.incoming_left ? own : incoming, step.transfer);
    }
    case StepKind::kCopy:
      return fmt::format("copy {} = {}", Range(step.destination, step.chunks), Range(step.source, step.chunks));
    case StepKind::kReduce: {
      const std::string destination = Range(step.destination, step.chunks), source = Range(step.source, step.chunks);
      return fmt::format("reduce {} = {} op {}", destination, step.incoming_left ? source : destination,
                         step.incoming_left ? destination : source);
    }
  }
  return "?";
}

// ---- parsing ----

// Reads one line word by word. The first fault is kept, and every later call does nothing, so that the code of the
// grammar needs no check per word.
class Line {
 public:
  Line(std::string_view text, int number) : rest_(text.substr(0, text.find('#'))), number_(number) { SkipBlanks(); }

  bool ok() const { return fault_.empty(); }
  bool empty() const { return rest_.empty(); }
  tl::unexpected<Error> Failure() const {
    return Fail(ErrorCode::kInvalidArgument, "schedule text, line {}: {}", number_, fault_);
  }

  // Consumes `word` if it is the next word.
  bool Accept(std::string_view word) {
    if (!ok() || Next() != word) return false;
    Take(word.size());
    return true;
  }

  void Expect(std::string_view word) {
    if (ok() && !Accept(word)) Expected(fmt::format("\"{}\"", word));
  }

  std::string_view Word(std::string_view what) {
    const std::string_view word = Next();
    if (ok() && (word.empty() || !IsLetter(word.front()))) Expected(what);
    if (!ok()) return {};
    Take(word.size());
    return word;
  }

  std::uint32_t Number(std::string_view what, std::uint32_t at_most = std::numeric_limits<std::uint32_t>::max()) {
    if (!ok()) return 0;
    const std::string_view word = Next();
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number > at_most) {
      Expected(what);
      return 0;
    }
    Take(word.size());
    return number;
  }

  template <typename Value>
  Value OneOf(const std::array<std::pair<Value, std::string_view>, 3>& table) {
    for (const auto& [value, name] : table) {
      if (Accept(name)) return value;
    }
    Expected(fmt::format("{}, {} or {}", table[0].second, table[1].second, table[2].second));
    return {};
  }

  void Expected(std::string_view what) {
    if (!ok()) return;
    const std::string_view found = Next();
    Fault(found.empty() ? fmt::format("expected {}, found the end of the line", what)
                        : fmt::format("expected {}, found \"{}\"", what, found));
  }

  void Fault(std::string text) {
    if (ok()) fault_ = std::move(text);
  }

 private:
  static bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool IsWordPart(char c) { return IsLetter(c) || (c >= '0' && c <= '9'); }

  // A series of letters and digits, or one other character.
  std::string_view Next() const {
    std::size_t length = 0;
    while (length < rest_.size() && IsWordPart(rest_[length])) ++length;
    return rest_.substr(0, length == 0 ? 1 : length);
  }
  void Take(std::size_t characters) {
    rest_.remove_prefix(characters);
    SkipBlanks();
  }
  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
  }

  std::string_view rest_;
  int number_;
  std::string fault_;
};

// People write these texts, so a larger number is a typing error, and no memory is allocated for it.
constexpr std::uint32_t kMaxRank = 1u << 24;
constexpr std::uint32_t kMaxChunks = 1u << 24;

Rank TakeRank(Line& line) { return static_cast<Rank>(line.Number("a rank", kMaxRank)); }

ChunkRange TakeChunks(Line& line) {
  line.Expect("[");
  const std::uint32_t first = line.Number("a chunk", kMaxChunks);
  std::uint32_t end = first + 1;
  if (line.Accept(":")) end = line.Number("the end of the chunks", kMaxChunks);
  line.Expect("]");
  if (end < first) line.Fault(fmt::format("the range [{}:{}] ends before it begins", first, end));
  return {first, end - first};
}

std::pair<BufferId, ChunkRange> TakeRange(Line& line) {
  const BufferId buffer = line.OneOf(kBuffers);
  return {buffer, TakeChunks(line)};
}

// Reads another range of a line. Its chunks must be those of the line's first range.
BufferId TakeSameRange(Line& line, ChunkRange chunks) {
  const auto [buffer, again] = TakeRange(line);
  if (again != chunks) {
    line.Fault(fmt::format("a step works on the same chunks in all buffers, not on [{}:{}] and [{}:{}]", chunks.first,
                           chunks.end(), again.first, again.end()));
  }
  return buffer;
}

void TakePeerAndTransfer(Line& line, std::string_view preposition, Step& step) {
  line.Expect(preposition);
  step.peer = TakeRank(line);
  line.Expect("transfer");
  step.transfer = line.Number("the transfer's number");
}

Step TakeStep(Line& line) {
  Step step;
  if (line.Accept("send")) {
    step.kind = StepKind::kSend;
    std::tie(step.source, step.chunks) = TakeRange(line);
    TakePeerAndTransfer(line, "to", step);
  } else if (line.Accept("recv")) {
    step.kind = StepKind::kRecv;
    std::tie(step.destination, step.chunks) = TakeRange(line);
    TakePeerAndTransfer(line, "from", step);
  } else if (line.Accept("recv_reduce")) {
    step.kind = StepKind::kRecvReduce;
    std::tie(step.destination, step.chunks) = TakeRange(line);
    line.Expect("=");
    step.incoming_left = line.Accept("rank");
    if (step.incoming_left) {
      step.peer = TakeRank(line);
      line.Expect("op");
      step.source = TakeSameRange(line, step.chunks);
    } else {
      step.source = TakeSameRange(line, step.chunks);
      line.Expect("op");
      line.Expect("rank");
      step.peer = TakeRank(line);
    }
    line.Expect("transfer");
    step.transfer = line.Number("the transfer's number");
  } else if (line.Accept("copy")) {
    step.kind = StepKind::kCopy;
    std::tie(step.destination, step.chunks) = TakeRange(line);
    line.Expect("=");
    step.source = TakeSameRange(line, step.chunks);
  } else if (line.Accept("reduce")) {
    step.kind = StepKind::kReduce;
    std::tie(step.destination, step.chunks) = TakeRange(line);
    line.Expect("=");
    const BufferId left = TakeSameRange(line, step.chunks);
    line.Expect("op");
    const BufferId right = TakeSameRange(line, step.chunks);
    step.incoming_left = left != step.destination;
    step.source = step.incoming_left ? left : right;
    if (step.incoming_left && right != step.destination) line.Fault("one operand of a reduce is its destination");
  } else {
    line.Expected("send, recv, recv_reduce, copy or reduce");
  }
  step.scale = line.Accept("scale");
  step.finish = line.Accept("finish");
  if (line.Accept("after")) {
    do {
      const std::uint32_t on = line.Number("a step's number");
      step.dependencies.push_back({on, line.OneOf(kKinds)});
    } while (line.Accept(","));
  }
  return step;
}

void TakeHeader(Line& line, Schedule& schedule) {
  ScheduleKey& key = schedule.key;
  line.Expect("schedule");
  if (const auto collective = ParseCollective(line.Word("a collective"))) {
    key.collective = *collective;
  } else {
    line.Fault("no such collective");
  }
  if (const auto algorithm = ParseAlgorithm(line.Word("an algorithm"))) {
    key.algorithm = *algorithm;
  } else {
    line.Fault("no such algorithm");
  }
  line.Expect("world");
  key.world_size = static_cast<int>(line.Number("the number of ranks", kMaxRank));
  line.Expect("root");
  key.root = TakeRank(line);
  key.in_place = line.Accept("in_place");
  if (!key.in_place && !line.Accept("out_of_place")) line.Expected("in_place or out_of_place");
  key.scaled = line.Accept("scaled");
  if (line.Accept("hosts")) {
    do {
      schedule.hosts.push_back(static_cast<int>(line.Number("a host's number", kMaxRank)));
    } while (line.Accept(","));
    if (schedule.hosts.size() != static_cast<std::size_t>(key.world_size)) {
      line.Fault(fmt::format("{} hosts for {} ranks", schedule.hosts.size(), key.world_size));
    }
  }
  line.Expect("chunks");
  schedule.chunks = line.Number("the number of chunks", kMaxChunks);
}

}  // namespace

std::string Print(const Step& step) {
  std::string text = What(step);
  if (step.scale) text += " scale";
  if (step.finish) text += " finish";
  std::string_view separator = " after";
  for (const Dependency& dependency : step.dependencies) {
    fmt::format_to(std::back_inserter(text), "{} {} {}", separator, dependency.step, NameOf(kKinds, dependency.kind));
    separator = ",";
  }
  return text;
}

std::string Print(const RankSchedule& rank) {
  std::string text = fmt::format("rank {}\n", rank.rank);
  if (!rank.scratch.empty()) {
    text += "  scratch";
    for (const ChunkRange& chunks : rank.scratch) text += " " + Chunks(chunks);
    text += "\n";
  }
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "  {}: {}\n", i, Print(rank.steps[i]));
  }
  return text;
}

std::string Print(const Schedule& schedule) {
  const ScheduleKey& key = schedule.key;
  std::string hosts = schedule.hosts.empty() ? "" : fmt::format(" hosts {}", fmt::join(schedule.hosts, ","));
  std::string text = fmt::format(
      "schedule {} {} world {} root {} {}{}{} chunks {}\n", Name(key.collective), Name(key.algorithm), key.world_size,
      key.root, key.in_place ? "in_place" : "out_of_place", key.scaled ? " scaled" : "", hosts, schedule.chunks);
  for (const RankSchedule& rank : schedule.ranks) text += Print(rank);
  return text;
}

Result<Schedule> Parse(std::string_view text) {
  Schedule schedule;
  bool header_seen = false;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Line line(text.substr(0, end), number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;

    if (!header_seen) {
      TakeHeader(line, schedule);
      header_seen = true;
    } else if (line.Accept("rank")) {
      const Rank rank = TakeRank(line);
      if (static_cast<std::size_t>(rank) != schedule.ranks.size()) {
        line.Fault(fmt::format("found rank {}, expected rank {}", rank, schedule.ranks.size()));
      }
      schedule.ranks.push_back({.rank = rank});
    } else if (schedule.ranks.empty()) {
      line.Expected("\"rank\"");
    } else if (schedule.ranks.back().steps.empty() && schedule.ranks.back().scratch.empty() && line.Accept("scratch")) {
      do {
        schedule.ranks.back().scratch.push_back(TakeChunks(line));
      } while (line.ok() && !line.empty());
    } else {
      std::vector<Step>& steps = schedule.ranks.back().steps;
      if (line.Number("\"rank\" or a step's number") != steps.size()) {
        line.Fault(fmt::format("the next step of rank {} is {}", schedule.ranks.back().rank, steps.size()));
      }
      line.Expect(":");
      steps.push_back(TakeStep(line));
    }
    if (line.ok() && !line.empty()) line.Expected("the end of the line");
    if (!line.ok()) return line.Failure();
  }
  if (!header_seen) return Fail(ErrorCode::kInvalidArgument, "schedule text: all lines are empty");
  if (schedule.ranks.size() != static_cast<std::size_t>(schedule.key.world_size)) {
    return Fail(ErrorCode::kInvalidArgument, "schedule text: found {} of {} ranks", schedule.ranks.size(),
                schedule.key.world_size);
  }
  return schedule;
}

}  // namespace rondo
