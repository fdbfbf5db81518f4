#include "collectives/schedule/project.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

constexpr std::uint32_t kBuffers = 3;
constexpr std::uint32_t kNone = UINT32_MAX;

ChunkRange Intersection(const ChunkRange& a, const ChunkRange& b) {
  const std::uint32_t first = std::max(a.first, b.first);
  const std::uint32_t end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : 0};
}

// Builds one rank's steps from the transfers that concern it. Knows, per chunk of its window, which buffer holds the
// rank's value, and per (buffer, chunk) who wrote it last and who read it since: all dependencies come from those two.
class RankBuilder {
 public:
  RankBuilder(const ScheduleKey& key, Rank rank, ChunkRange window)
      : key_(key), window_(window), cells_(std::size_t{kBuffers} * window.count), place_(window.count, kNowhere) {
    schedule_.rank = rank;
    const bool holds_value =
        key.collective == Collective::kAllReduce || (key.collective == Collective::kBroadcast && rank == key.root);
    if (!holds_value) return;
    const BufferId start = key.in_place ? BufferId::kOutput : BufferId::kInput;
    SetPlace(window, start);
    if (key.scaled && window.count > 0) {
      AddLocal({.kind = StepKind::kCopy, .chunks = window, .source = start, .scale = true});
      SetPlace(window, BufferId::kOutput);
    }
  }

  // Transfers of the round in hand; they become steps at its end.
  void Send(Rank to, std::uint32_t transfer, ChunkRange chunks) {
    sends_.push_back({.kind = StepKind::kSend, .peer = to, .transfer = transfer, .chunks = chunks});
  }
  void Receive(StepKind kind, Rank from, std::uint32_t transfer, ChunkRange chunks) {
    receives_.push_back({.kind = kind, .peer = from, .transfer = transfer, .chunks = chunks});
  }
  bool round_is_empty() const { return sends_.empty() && receives_.empty(); }

  void EndRound() {
    // Sends come first: they read what the rank held before the round.
    const std::size_t round_begin = schedule_.steps.size();
    for (Step& send : sends_) AddSend(std::move(send));
    const std::size_t round_sends_end = schedule_.steps.size();
    for (Step& receive : receives_) AddReceive(std::move(receive), round_begin, round_sends_end);
    sends_.clear();
    receives_.clear();
  }

  void Finish(ChunkRange chunks) {
    RONDO_CHECK(round_is_empty(), "rank {}: Finish comes after EndRound", schedule_.rank);
    const std::uint32_t writer = CellOf(PlaceOf(chunks), chunks.first).last_writer;
    RONDO_CHECK(writer != kNone, "rank {} finishes chunk {}, which nothing was combined into", schedule_.rank,
                chunks.first);
    Step& step = schedule_.steps[writer];
    RONDO_CHECK(step.chunks == chunks, "rank {} finishes chunks [{}, {}), but step {} wrote [{}, {})", schedule_.rank,
                chunks.first, chunks.end(), writer, step.chunks.first, step.chunks.end());
    RONDO_CHECK(step.kind == StepKind::kRecvReduce && !step.finish, "rank {} step {} cannot be finished",
                schedule_.rank, writer);
    step.finish = true;
  }

  RankSchedule Take() {
    RONDO_CHECK(round_is_empty(), "the algorithm ends without EndRound");
    if (key_.collective != Collective::kBarrier) CopyStragglersToOutput();
    return std::move(schedule_);
  }

 private:
  enum Place : std::uint8_t { kInInput, kInOutput, kInScratch, kNowhere };  // a BufferId, or none

  struct Cell {
    std::uint32_t last_writer = kNone;  // a step
    std::uint32_t readers = kNone;      // since: a list in readers_
  };
  struct Reader {
    std::uint32_t step;
    std::uint32_t next;
  };

  Cell& CellOf(BufferId buffer, std::uint32_t chunk) {
    return cells_[static_cast<std::size_t>(buffer) * window_.count + (chunk - window_.first)];
  }

  void SetPlace(ChunkRange chunks, BufferId buffer) {
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      place_[c - window_.first] = static_cast<Place>(buffer);
    }
  }

  // The buffer that holds the rank's value of all these chunks.
  BufferId PlaceOf(ChunkRange chunks) const {
    const Place place = place_[chunks.first - window_.first];
    RONDO_CHECK(place != kNowhere, "rank {} uses its value of chunk {} but has none yet", schedule_.rank, chunks.first);
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      RONDO_CHECK(place_[c - window_.first] == place,
                  "rank {}: chunks [{}, {}) of one transfer lie in two buffers; the algorithm must split it",
                  schedule_.rank, chunks.first, chunks.end());
    }
    return static_cast<BufferId>(place);
  }

  void AddSend(Step step) {
    if (step.chunks.count > 0) step.source = PlaceOf(step.chunks);
    for (const Signal& signal : signals_) Depend(step, signal.step, DependencyKind::kReadAfterWrite);
    if (step.chunks.count > 0) Read(step, step.source);
    Append(std::move(step));
  }

  void AddReceive(Step step, std::size_t round_begin, std::size_t round_sends_end) {
    if (step.chunks.count == 0) {
      RememberSignal(step.peer, NextStep());
      Append(std::move(step));
      return;
    }
    // An exchange sends from the output what it is about to replace. It goes to scratch then, so that neither side's
    // combining waits until the other side has consumed what it was sent: two ranks doing that would wait for ever.
    const auto sends_from_output = [&](const Step& send) {
      return send.source == BufferId::kOutput && send.chunks.Overlaps(step.chunks);
    };
    const auto begin = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(round_begin);
    const auto end = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(round_sends_end);
    step.destination = std::any_of(begin, end, sends_from_output) ? BufferId::kScratch : BufferId::kOutput;
    if (step.kind == StepKind::kRecvReduce) {
      step.source = PlaceOf(step.chunks);
      step.incoming_left = step.peer < schedule_.rank;
      Read(step, step.source);
    }
    Write(step, step.destination);
    SetPlace(step.chunks, step.destination);
    Append(std::move(step));
  }

  void AddLocal(Step step) {
    Read(step, step.source);
    Write(step, step.destination);
    Append(std::move(step));
  }

  // A value that ended elsewhere, or never moved (world of one, the root of a broadcast), goes to the output.
  void CopyStragglersToOutput() {
    std::uint32_t begin = 0;
    while (begin < window_.count) {
      std::uint32_t end = begin + 1;
      while (end < window_.count && place_[end] == place_[begin]) ++end;
      const ChunkRange chunks{window_.first + begin, end - begin};
      if (const BufferId place = PlaceOf(chunks); place != BufferId::kOutput) {
        AddLocal({.kind = StepKind::kCopy, .chunks = chunks, .source = place});
      }
      begin = end;
    }
  }

  // ---- dependencies ----

  std::uint32_t NextStep() const { return static_cast<std::uint32_t>(schedule_.steps.size()); }

  void Append(Step step) {
    std::sort(step.dependencies.begin(), step.dependencies.end(),
              [](const Dependency& a, const Dependency& b) { return a.step < b.step; });
    schedule_.steps.push_back(std::move(step));
  }

  // One dependency per pair of steps is enough: on a send only write-after-read is possible, and of every other step
  // the bytes done and the bytes released are the same.
  static void Depend(Step& step, std::uint32_t on, DependencyKind kind) {
    const auto known = std::find_if(step.dependencies.begin(), step.dependencies.end(),
                                    [on](const Dependency& dependency) { return dependency.step == on; });
    if (known == step.dependencies.end()) step.dependencies.push_back({on, kind});
  }

  // `step` is about to be appended and reads its chunks in `buffer`.
  void Read(Step& step, BufferId buffer) {
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
      Cell& cell = CellOf(buffer, c);
      if (cell.last_writer != kNone) Depend(step, cell.last_writer, DependencyKind::kReadAfterWrite);
      readers_.push_back({NextStep(), cell.readers});
      cell.readers = static_cast<std::uint32_t>(readers_.size() - 1);
    }
  }

  // `step` is about to be appended and writes its chunks in `buffer`. Where somebody has read since the last write,
  // that reader followed the writer byte for byte, so following the reader implies following the writer.
  void Write(Step& step, BufferId buffer) {
    const std::uint32_t self = NextStep();
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
      Cell& cell = CellOf(buffer, c);
      for (std::uint32_t reader = cell.readers; reader != kNone; reader = readers_[reader].next) {
        if (readers_[reader].step != self) Depend(step, readers_[reader].step, DependencyKind::kWriteAfterRead);
      }
      if (cell.readers == kNone && cell.last_writer != kNone) {
        Depend(step, cell.last_writer, DependencyKind::kWriteAfterWrite);
      }
      cell = {.last_writer = self};
    }
  }

  // Receives from one peer complete in order, so of each peer's signals the last implies the others.
  void RememberSignal(Rank peer, std::uint32_t step) {
    for (Signal& signal : signals_) {
      if (signal.peer == peer) {
        signal.step = step;
        return;
      }
    }
    signals_.push_back({peer, step});
  }

  struct Signal {
    Rank peer;
    std::uint32_t step;
  };

  ScheduleKey key_;
  ChunkRange window_;
  RankSchedule schedule_;
  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  std::vector<Place> place_;  // by chunk of the window
  std::vector<Signal> signals_;
  std::vector<Step> sends_;     // of the round in hand
  std::vector<Step> receives_;  // of the round in hand
};

// Hands each transfer to the builders of its two ends, as far as those are among the ranks wanted: [first, first + n).
class Projector final : public Transfers {
 public:
  Projector(const ScheduleKey& key, Rank first, int ranks, ChunkRange window) : first_(first), window_(window) {
    builders_.reserve(static_cast<std::size_t>(ranks));
    for (Rank rank = first; rank < first + ranks; ++rank) builders_.emplace_back(key, rank, window);
  }

  void Reduce(Rank from, Rank to, ChunkRange chunks) override { Add(StepKind::kRecvReduce, from, to, chunks); }
  void Copy(Rank from, Rank to, ChunkRange chunks) override { Add(StepKind::kRecv, from, to, chunks); }
  void Signal(Rank from, Rank to) override { Put(StepKind::kRecv, from, to, transfers_++, {}); }

  void Hold(Rank rank, ChunkRange) override { RONDO_CHECK(false, "rank {}: not built yet", rank); }
  void Contribute(Rank rank, ChunkRange) override { RONDO_CHECK(false, "rank {}: not built yet", rank); }

  void Finish(Rank rank, ChunkRange chunks) override {
    const ChunkRange part = Intersection(chunks, window_);
    if (RankBuilder* builder = BuilderOf(rank); builder != nullptr && part.count > 0) builder->Finish(part);
  }

  void EndRound() override {
    for (RankBuilder* builder : touched_) {
      if (!builder->round_is_empty()) builder->EndRound();
    }
    touched_.clear();
  }

  std::vector<RankSchedule> Take() {
    std::vector<RankSchedule> ranks;
    ranks.reserve(builders_.size());
    for (RankBuilder& builder : builders_) ranks.push_back(builder.Take());
    return ranks;
  }

 private:
  RankBuilder* BuilderOf(Rank rank) {
    const auto index = static_cast<std::size_t>(rank - first_);  // wraps to huge below first_
    return index < builders_.size() ? &builders_[index] : nullptr;
  }

  // Every rank counts every transfer, so that a number means the same one everywhere.
  void Add(StepKind receive, Rank from, Rank to, ChunkRange chunks) {
    const std::uint32_t transfer = transfers_++;
    const ChunkRange part = Intersection(chunks, window_);
    if (part.count > 0) Put(receive, from, to, transfer, part);
  }

  void Put(StepKind receive, Rank from, Rank to, std::uint32_t transfer, ChunkRange chunks) {
    if (RankBuilder* sender = BuilderOf(from); sender != nullptr) {
      RONDO_CHECK(from != to, "transfer {}: rank {} sends to itself", transfer, from);
      sender->Send(to, transfer, chunks);
      touched_.push_back(sender);
    }
    if (RankBuilder* receiver = BuilderOf(to); receiver != nullptr) {
      receiver->Receive(receive, from, transfer, chunks);
      touched_.push_back(receiver);
    }
  }

  Rank first_;
  ChunkRange window_;
  std::uint32_t transfers_ = 0;
  std::vector<RankBuilder> builders_;
  std::vector<RankBuilder*> touched_;  // in the round in hand; may repeat
};

std::vector<RankSchedule> ProjectRanks(const AlgorithmEntry& entry, const ScheduleKey& key, Rank first, int ranks,
                                       ChunkRange window) {
  RONDO_CHECK(entry.collective == key.collective && entry.algorithm == key.algorithm, "{} does not serve {}",
              Name(entry.algorithm), Name(key.collective));
  RONDO_CHECK(key.world_size >= 1 && key.root >= 0 && key.root < key.world_size, "root {} of {} ranks", key.root,
              key.world_size);
  RONDO_CHECK(first >= 0 && first + ranks <= key.world_size, "rank {} of {}", first, key.world_size);
  RONDO_CHECK(!key.scaled || Reduces(key.collective), "only reductions are scaled");
  Projector projector(key, first, ranks, window);
  entry.generate(WorldOf(key), projector);
  return projector.Take();
}

}  // namespace

RankSchedule Project(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank) {
  const ChunkRange everything{0, ChunksOf(entry, WorldOf(key))};
  return std::move(ProjectRanks(entry, key, rank, 1, everything).front());
}

Schedule Build(const AlgorithmEntry& entry, const ScheduleKey& key) {
  return BuildWindow(entry, key, {0, ChunksOf(entry, WorldOf(key))});
}

Schedule BuildWindow(const AlgorithmEntry& entry, const ScheduleKey& key, ChunkRange window) {
  Schedule schedule{.key = key, .chunks = ChunksOf(entry, WorldOf(key))};
  schedule.key.hosts = nullptr;
  if (key.hosts != nullptr) schedule.hosts = *key.hosts;
  RONDO_CHECK(window.end() <= schedule.chunks, "chunks [{}, {}) of {}", window.first, window.end(), schedule.chunks);
  schedule.ranks = ProjectRanks(entry, key, 0, key.world_size, window);
  return schedule;
}

}  // namespace rondo
