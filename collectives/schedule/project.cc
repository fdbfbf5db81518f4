#include "collectives/schedule/project.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
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

// What of `range` lies behind its first part.
ChunkRange Behind(const ChunkRange& part, const ChunkRange& range) { return {part.end(), range.end() - part.end()}; }

enum Place : std::uint8_t { kInInput, kInOutput, kInScratch, kNowhere };  // a BufferId, or none
Place PlaceIn(BufferId buffer) { return static_cast<Place>(buffer); }

// Who touches a chunk of a buffer.
struct Cell {
  std::uint32_t last_writer = kNone;  // a step
  std::uint32_t readers = kNone;      // since: a list of them
};

// What a rank knows of a chunk.
struct ChunkState {
  std::array<Cell, kBuffers> cells;
  Place place = kNowhere;  // of the rank's value
  Place held = kNowhere;   // of its contribution, where that steps aside
  bool in_scratch = false;
};

// The states of a window of chunks. Of the P * P blocks of an all_to_all a rank touches some 2 P, so there is room for
// those only, a page at a time.
class ChunkStates {
 public:
  explicit ChunkStates(ChunkRange window) : window_(window), pages_(window.count / kPage + 1) {}

  ChunkState& operator[](std::uint32_t chunk) {
    std::unique_ptr<Page>& page = pages_[(chunk - window_.first) / kPage];
    if (page == nullptr) page = std::make_unique<Page>();
    return (*page)[(chunk - window_.first) % kPage];
  }
  const ChunkState& operator[](std::uint32_t chunk) const {
    static constexpr ChunkState kUntouched;
    const Page* page = pages_[(chunk - window_.first) / kPage].get();
    return page == nullptr ? kUntouched : (*page)[(chunk - window_.first) % kPage];
  }

  // In the order of chunks, all that were touched and some more.
  template <typename Function>
  void ForEach(Function function) const {
    for (std::uint32_t p = 0; p < pages_.size(); ++p) {
      for (std::uint32_t i = 0; pages_[p] != nullptr && i < kPage; ++i) {
        function(window_.first + p * kPage + i, (*pages_[p])[i]);
      }
    }
  }

 private:
  static constexpr std::uint32_t kPage = 32;
  using Page = std::array<ChunkState, kPage>;
  ChunkRange window_;
  std::vector<std::unique_ptr<Page>> pages_;
};

// Builds one rank's steps from the transfers that concern it. Knows, per chunk of its window, which buffer holds the
// rank's value, and per (buffer, chunk) who wrote it last and who read it since: all dependencies come from those two.
class RankBuilder {
 public:
  RankBuilder(const ScheduleKey& key, std::uint32_t chunks_per_block, Rank rank, ChunkRange window)
      : window_(window),
        chunks_per_block_(chunks_per_block),
        output_(Holds(key, rank, BufferId::kOutput)),
        owed_(OutputBlocks(key, rank)),
        states_(window) {
    schedule_.rank = rank;
    const BlockSet input = InputBlocks(key, rank);  // its stride is always 1
    const ChunkRange own = Intersection({input.first * chunks_per_block, input.count * chunks_per_block}, window);
    SetPlace(own, InputBuffer(key, rank));
    if (key.scaled) ScaleContribution(own);
  }

  // What happens in the round in hand; it becomes steps at its end.
  void Send(Rank to, std::uint32_t transfer, ChunkRange chunks) {
    sends_.push_back({.kind = StepKind::kSend, .peer = to, .transfer = transfer, .chunks = chunks});
  }
  void Receive(StepKind kind, Rank from, std::uint32_t transfer, ChunkRange chunks) {
    effects_.push_back({Effect::kArrival, {.kind = kind, .peer = from, .transfer = transfer, .chunks = chunks}});
  }
  void Hold(ChunkRange chunks) { effects_.push_back({Effect::kHold, {.chunks = chunks}}); }
  void Contribute(ChunkRange chunks) {
    effects_.push_back({Effect::kContribution, {.kind = StepKind::kReduce, .chunks = chunks}});
  }
  bool round_is_empty() const { return sends_.empty() && effects_.empty(); }

  void EndRound() {
    // Sends come first: they read what the rank held before the round.
    round_begin_ = schedule_.steps.size();
    for (Step& send : sends_) AddSend(std::move(send));
    for (auto& [effect, step] : effects_) {
      switch (effect) {
        case Effect::kArrival: AddReceive(std::move(step)); break;
        case Effect::kHold: StepAside(step.chunks); break;
        case Effect::kContribution: AddContribution(std::move(step)); break;
      }
    }
    sends_.clear();
    effects_.clear();
  }

  void Finish(ChunkRange chunks) {
    RONDO_CHECK(round_is_empty(), "rank {}: Finish comes after EndRound", schedule_.rank);
    const std::uint32_t writer = CellOf(PlaceOf(chunks), chunks.first).last_writer;
    RONDO_CHECK(writer != kNone, "rank {} finishes chunk {}, which nothing was combined into", schedule_.rank,
                chunks.first);
    Step& step = schedule_.steps[writer];
    RONDO_CHECK(step.chunks == chunks, "rank {} finishes chunks [{}, {}), but step {} wrote [{}, {})", schedule_.rank,
                chunks.first, chunks.end(), writer, step.chunks.first, step.chunks.end());
    RONDO_CHECK((step.kind == StepKind::kRecvReduce || step.kind == StepKind::kReduce) && !step.finish,
                "rank {} step {} cannot be finished", schedule_.rank, writer);
    step.finish = true;
  }

  RankSchedule Take() {
    RONDO_CHECK(round_is_empty(), "the algorithm ends without EndRound");
    states_.ForEach([this](std::uint32_t c, const ChunkState& state) {
      RONDO_CHECK(state.held == kNowhere, "rank {} holds its contribution to chunk {} back for ever", schedule_.rank,
                  c);
    });
    CopyStragglersToOutput();
    ListScratch();
    return std::move(schedule_);
  }

 private:
  // What the sends of a round do not see.
  enum class Effect : std::uint8_t { kArrival, kHold, kContribution };

  struct Reader {
    std::uint32_t step;
    std::uint32_t next;
  };

  Cell& CellOf(BufferId buffer, std::uint32_t chunk) { return states_[chunk].cells[static_cast<std::size_t>(buffer)]; }

  void SetPlace(ChunkRange chunks, BufferId buffer) {
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) states_[c].place = PlaceIn(buffer);
  }

  // The first part of `chunks` that `same(chunk)` answers alike for.
  template <typename Same>
  static ChunkRange FirstRun(ChunkRange chunks, Same same) {
    std::uint32_t end = chunks.first + 1;
    while (end < chunks.end() && same(end) == same(chunks.first)) ++end;
    return {chunks.first, end - chunks.first};
  }

  Place PlaceAt(std::uint32_t chunk) const { return states_[chunk].place; }

  // The buffer that holds the rank's value of all these chunks.
  BufferId PlaceOf(ChunkRange chunks) const {
    const Place place = PlaceAt(chunks.first);
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      RONDO_CHECK(PlaceAt(c) != kNowhere, "rank {} uses its value of chunk {} but has none", schedule_.rank, c);
      RONDO_CHECK(PlaceAt(c) == place, "rank {}: chunks [{}, {}) lie in two buffers", schedule_.rank, chunks.first,
                  chunks.end());
    }
    return static_cast<BufferId>(place);
  }

  // Where a new value of these chunks goes: to the output if they have a place there and nothing that is still needed
  // lies in it. Needed is what the round sends: an exchange that combined into what it sends would wait until the other
  // side has consumed it, and the other side likewise, for ever. Needed is also a contribution that was held.
  BufferId DestinationOf(ChunkRange chunks) const {
    const bool usable = OutputHas(chunks) && !SendsFromOutput(chunks) && !HoldsIn(kInOutput, chunks);
    return usable ? BufferId::kOutput : BufferId::kScratch;
  }

  bool OutputHas(ChunkRange chunks) const {
    if (output_.count == 0) return false;
    const std::uint32_t last = (chunks.end() - 1) / chunks_per_block_;
    for (std::uint32_t block = chunks.first / chunks_per_block_; block <= last; ++block) {
      if (!output_.Contains(block)) return false;
    }
    return true;
  }

  bool SendsFromOutput(ChunkRange chunks) const {
    const auto begin = schedule_.steps.begin() + static_cast<std::ptrdiff_t>(round_begin_);
    return std::any_of(begin, schedule_.steps.end(), [&](const Step& step) {
      return step.kind == StepKind::kSend && step.source == BufferId::kOutput && step.chunks.Overlaps(chunks);
    });
  }

  bool HoldsIn(Place place, ChunkRange chunks) const {
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      if (states_[c].held == place) return true;
    }
    return false;
  }

  // Pre-multiplication comes first. The contribution stays in one piece: in the output if that has room for all of it.
  void ScaleContribution(ChunkRange own) {
    if (own.count == 0) return;
    AddLocal({.kind = StepKind::kCopy,
              .chunks = own,
              .source = PlaceOf(own),
              .destination = OutputHas(own) ? BufferId::kOutput : BufferId::kScratch,
              .scale = true});
  }

  // The buffer that holds the rank's value of all these chunks. Where they lie in several (its own part in the input,
  // what it gathered in scratch) they are brought together first: one transfer is better than two.
  BufferId BringTogether(ChunkRange chunks) {
    const auto place = [this](std::uint32_t c) { return PlaceAt(c); };
    if (FirstRun(chunks, place) == chunks) return PlaceOf(chunks);
    const BufferId together = DestinationOf(chunks);
    for (ChunkRange rest = chunks; rest.count > 0;) {
      const ChunkRange part = FirstRun(rest, place);
      if (const BufferId source = PlaceOf(part); source != together) {
        AddLocal({.kind = StepKind::kCopy, .chunks = part, .source = source, .destination = together});
      }
      rest = Behind(part, rest);
    }
    return together;
  }

  void AddSend(Step step) {
    if (step.chunks.count > 0) step.source = BringTogether(step.chunks);
    if (last_signal_ != kNone) Depend(step, last_signal_, DependencyKind::kReadAfterWrite);
    if (step.chunks.count > 0) Read(step, step.source);
    Append(std::move(step));
  }

  void AddReceive(Step step) {
    if (step.chunks.count == 0) return AddSignal(std::move(step));
    if (step.kind == StepKind::kRecvReduce && IsHeldBack(step.chunks)) step.kind = StepKind::kRecv;
    if (step.kind == StepKind::kRecvReduce) {
      step.source = BringTogether(step.chunks);
      // While the own contribution is held back, the value comes from ranks lower than the one that sends now.
      const bool held_back = states_[step.chunks.first].held != kNowhere;
      step.incoming_left = step.peer < schedule_.rank && !held_back;
      Read(step, step.source);
    }
    step.destination = DestinationOf(step.chunks);
    Write(step, step.destination);
    SetPlace(step.chunks, step.destination);
    Append(std::move(step));
  }

  void AddLocal(Step step) {
    Read(step, step.source);
    if (step.kind == StepKind::kReduce) Read(step, step.destination);
    Write(step, step.destination);
    SetPlace(step.chunks, step.destination);
    Append(std::move(step));
  }

  // ---- holding a contribution back ----

  // The contribution steps aside: it stays where it is, and the rank has no value of the chunks for now.
  void StepAside(ChunkRange chunks) {
    RONDO_CHECK(OutputHas(chunks), "rank {} holds chunks [{}, {}) back, which its output does not have", schedule_.rank,
                chunks.first, chunks.end());
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      ChunkState& state = states_[c];
      RONDO_CHECK(state.place != kNowhere && state.held == kNowhere,
                  "rank {} has no contribution to chunk {} to hold back", schedule_.rank, c);
      state.held = std::exchange(state.place, kNowhere);
    }
  }

  // Whether the rank has no value of the chunks because it holds its own back.
  bool IsHeldBack(ChunkRange chunks) const {
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      if (states_[c].held == kNowhere || PlaceAt(c) != kNowhere) return false;
    }
    return true;
  }

  void AddContribution(Step step) {
    const Place own = states_[step.chunks.first].held;
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
      RONDO_CHECK(own != kNowhere && states_[c].held == own, "rank {} does not hold chunk {} back", schedule_.rank, c);
      states_[c].held = kNowhere;
    }
    // The value comes from lower ranks, so it is the left operand. Where the contribution lies in the output the result
    // is best there too.
    const BufferId value = BringTogether(step.chunks);
    step.incoming_left = own == kInOutput && !SendsFromOutput(step.chunks);
    step.source = step.incoming_left ? value : static_cast<BufferId>(own);
    step.destination = step.incoming_left ? BufferId::kOutput : value;
    AddLocal(std::move(step));
  }

  // ---- the end ----

  // What the rank owes and what lies elsewhere, or never moved (its own block, a world of one), goes to the output.
  void CopyStragglersToOutput() {
    for (std::uint32_t i = 0; i < owed_.count; ++i) {
      const std::uint32_t block = owed_.first + i * owed_.stride;
      // Blocks that follow each other are one run.
      const std::uint32_t blocks = owed_.stride == 1 ? owed_.count : 1;
      ChunkRange rest = Intersection({block * chunks_per_block_, blocks * chunks_per_block_}, window_);
      while (rest.count > 0) {
        const ChunkRange chunks = FirstRun(rest, [this](std::uint32_t c) { return PlaceAt(c); });
        if (const BufferId place = PlaceOf(chunks); place != BufferId::kOutput) {
          AddLocal({.kind = StepKind::kCopy, .chunks = chunks, .source = place});
        }
        rest = Behind(chunks, rest);
      }
      if (blocks > 1) break;
    }
  }

  void ListScratch() {
    states_.ForEach([&ranges = schedule_.scratch](std::uint32_t c, const ChunkState& state) {
      if (!state.in_scratch) return;
      if (!ranges.empty() && ranges.back().end() == c) {
        ++ranges.back().count;
      } else {
        ranges.push_back({c, 1});
      }
    });
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

  // Whether what `step` depends on already has followed `earlier` at this chunk, as when a contribution was combined
  // into the value that is now copied over it.
  bool IsImplied(const Step& step, std::uint32_t earlier, std::uint32_t chunk) const {
    if (schedule_.steps[earlier].kind == StepKind::kSend) return false;  // done is not released
    return std::any_of(step.dependencies.begin(), step.dependencies.end(), [&](const Dependency& dependency) {
      if (dependency.step <= earlier) return false;
      const Step& later = schedule_.steps[dependency.step];
      if (chunk < later.chunks.first || chunk >= later.chunks.end()) return false;
      const bool direct = std::any_of(later.dependencies.begin(), later.dependencies.end(),
                                      [&](const Dependency& on) { return on.step == earlier; });
      return direct || IsImplied(later, earlier, chunk);
    });
  }

  // `step` is about to be appended and writes its chunks in `buffer`. Where somebody has read since the last write,
  // that reader followed the writer byte for byte, so following the reader implies following the writer.
  void Write(Step& step, BufferId buffer) {
    const std::uint32_t self = NextStep();
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
      Cell& cell = CellOf(buffer, c);
      if (buffer == BufferId::kScratch) states_[c].in_scratch = true;
      for (std::uint32_t reader = cell.readers; reader != kNone; reader = readers_[reader].next) {
        const std::uint32_t read_by = readers_[reader].step;
        if (read_by != self && !IsImplied(step, read_by, c)) Depend(step, read_by, DependencyKind::kWriteAfterRead);
      }
      if (cell.readers == kNone && cell.last_writer != kNone) {
        Depend(step, cell.last_writer, DependencyKind::kWriteAfterWrite);
      }
      cell = {.last_writer = self};
    }
  }

  // Each signal waits for the one before it, so the last implies them all, whoever they came from.
  void AddSignal(Step step) {
    if (last_signal_ != kNone) Depend(step, last_signal_, DependencyKind::kReadAfterWrite);
    last_signal_ = NextStep();
    Append(std::move(step));
  }

  ChunkRange window_;
  std::uint32_t chunks_per_block_;
  BlockSet output_;  // what the output has room for
  BlockSet owed_;    // what must lie there in the end
  RankSchedule schedule_;
  ChunkStates states_;
  std::vector<Reader> readers_;
  std::uint32_t last_signal_ = kNone;             // the step that received it
  std::vector<Step> sends_;                       // of the round in hand
  std::vector<std::pair<Effect, Step>> effects_;  // of the round in hand, in the order they were written
  std::size_t round_begin_ = 0;                   // the first step of that round
};

// Hands each transfer to the builders of its two ends, as far as those are among the ranks wanted: [first, first + n).
class Projector final : public Transfers {
 public:
  Projector(const ScheduleKey& key, std::uint32_t chunks_per_block, Rank first, int ranks, ChunkRange window)
      : first_(first), window_(window) {
    builders_.reserve(static_cast<std::size_t>(ranks));
    for (Rank rank = first; rank < first + ranks; ++rank) builders_.emplace_back(key, chunks_per_block, rank, window);
  }

  void Reduce(Rank from, Rank to, ChunkRange chunks) override { Add(StepKind::kRecvReduce, from, to, chunks); }
  void Copy(Rank from, Rank to, ChunkRange chunks) override { Add(StepKind::kRecv, from, to, chunks); }
  void Signal(Rank from, Rank to) override { Put(StepKind::kRecv, from, to, transfers_++, {}); }

  void Hold(Rank rank, ChunkRange chunks) override {
    if (RankBuilder* builder = TouchedAt(rank, chunks)) builder->Hold(Intersection(chunks, window_));
  }
  void Contribute(Rank rank, ChunkRange chunks) override {
    if (RankBuilder* builder = TouchedAt(rank, chunks)) builder->Contribute(Intersection(chunks, window_));
  }

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

  // The builder of a rank at which something happens to chunks in the round in hand; null if it is not wanted here.
  RankBuilder* TouchedAt(Rank rank, ChunkRange chunks) {
    RankBuilder* builder = Intersection(chunks, window_).count > 0 ? BuilderOf(rank) : nullptr;
    if (builder != nullptr) touched_.push_back(builder);
    return builder;
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
  RONDO_CHECK(!key.in_place || key.collective != Collective::kAllToAll, "all_to_all has no in-place form");
  const World world = WorldOf(key);
  Projector projector(key, entry.chunks_per_block(world), first, ranks, window);
  entry.generate(world, projector);
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
