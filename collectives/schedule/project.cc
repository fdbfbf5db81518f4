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

// The rest of `range` after `part`, which is the beginning of `range`.
ChunkRange Behind(const ChunkRange& part, const ChunkRange& range) { return {part.end(), range.end() - part.end()}; }

enum Place : std::uint8_t { kInInput, kInOutput, kInScratch, kNowhere };  // a BufferId, or none
Place PlaceIn(BufferId buffer) { return static_cast<Place>(buffer); }

// The steps that last accessed a chunk of a buffer.
struct Cell {
  std::uint32_t last_writer = kNone;  // the step that wrote it last
  std::uint32_t readers = kNone;      // the head of the list of steps that have read it since
};

// The state of a chunk on this rank.
struct ChunkState {
  std::array<Cell, kBuffers> cells;
  Place place = kNowhere;  // the buffer that holds the rank's value
  Place held = kNowhere;   // the buffer that holds the rank's contribution, if the contribution is held back
  bool in_scratch = false;
};

// The states of a window of chunks. In an all_to_all among P ranks, a rank touches only about 2 P of the P * P blocks.
// So memory is allocated page by page on first use.
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

  // Visits all touched chunks in order, and the other chunks of their pages.
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

// Builds one rank's steps from its transfers. For each chunk of the window, this class tracks which buffer holds the
// rank's value. For each chunk and buffer, it also tracks the last step that wrote, and the steps that have read since.
// All dependencies follow from these steps.
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

  // The functions up to Contribute record transfers and effects of the current round. EndRound turns them into steps.
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
    // Sends come first, because they read what the rank held before the round.
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
      RONDO_CHECK(state.held == kNowhere, "rank {} holds its contribution to chunk {} back forever", schedule_.rank, c);
    });
    CopyStragglersToOutput();
    ListScratch();
    return std::move(schedule_);
  }

 private:
  // The events that change a rank's value of chunks in a round. The sends of the round still use the value from before
  // the round.
  enum class Effect : std::uint8_t { kArrival, kHold, kContribution };

  struct Reader {
    std::uint32_t step;
    std::uint32_t next;
  };

  Cell& CellOf(BufferId buffer, std::uint32_t chunk) { return states_[chunk].cells[static_cast<std::size_t>(buffer)]; }

  void SetPlace(ChunkRange chunks, BufferId buffer) {
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) states_[c].place = PlaceIn(buffer);
  }

  // The longest beginning of `chunks` in which `same(chunk)` gives the same value for every chunk.
  template <typename Same>
  static ChunkRange FirstRun(ChunkRange chunks, Same same) {
    std::uint32_t end = chunks.first + 1;
    while (end < chunks.end() && same(end) == same(chunks.first)) ++end;
    return {chunks.first, end - chunks.first};
  }

  Place PlaceAt(std::uint32_t chunk) const { return states_[chunk].place; }

  // The buffer that holds the rank's value of all these chunks. REQUIRES: it is one buffer.
  BufferId PlaceOf(ChunkRange chunks) const {
    const Place place = PlaceAt(chunks.first);
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) {
      RONDO_CHECK(PlaceAt(c) != kNowhere, "rank {} uses its value of chunk {} but has none", schedule_.rank, c);
      RONDO_CHECK(PlaceAt(c) == place, "rank {}: chunks [{}, {}) are in two buffers", schedule_.rank, chunks.first,
                  chunks.end());
    }
    return static_cast<BufferId>(place);
  }

  // The buffer for a new value of these chunks: the output if it has room for them and holds no data there that is
  // still needed; otherwise scratch. Two kinds of data are needed: data that this round sends, and a held contribution.
  // If both ranks of an exchange combined into the buffer from which they send, each would wait until the other has
  // consumed its data: a deadlock.
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

  // Scales the contribution before any other step. The scaled contribution is in one buffer: the output if that has
  // room for all of it, otherwise scratch.
  void ScaleContribution(ChunkRange own) {
    if (own.count == 0) return;
    AddLocal({.kind = StepKind::kCopy,
              .chunks = own,
              .source = PlaceOf(own),
              .destination = OutputHas(own) ? BufferId::kOutput : BufferId::kScratch,
              .scale = true});
  }

  // Returns the buffer that holds the rank's value of all these chunks. If the value is in several buffers (for
  // example, the rank's own block in the input, collected blocks in scratch), copies it into one buffer first, because
  // one transfer is cheaper than two.
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
      // While the rank holds its own contribution back, its value comes from ranks lower than the present sender.
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

  // Holds the contribution back: it stays in its buffer, and the rank has no value of the chunks until one arrives.
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

  // Whether the rank has no value of the chunks because it holds its contribution back.
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
    // The value comes from lower ranks, so it is the left operand. If the contribution is in the output, the result
    // should be there too.
    const BufferId value = BringTogether(step.chunks);
    step.incoming_left = own == kInOutput && !SendsFromOutput(step.chunks);
    step.source = step.incoming_left ? value : static_cast<BufferId>(own);
    step.destination = step.incoming_left ? BufferId::kOutput : value;
    AddLocal(std::move(step));
  }

  // ---- the end ----

  // Copies to the output every block that must be there but is in another buffer. This includes blocks that never moved
  // (the rank's own block, a world of one).
  void CopyStragglersToOutput() {
    for (std::uint32_t i = 0; i < owed_.count; ++i) {
      const std::uint32_t block = owed_.first + i * owed_.stride;
      // Adjacent blocks form one range.
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

  // One dependency per pair of steps is enough. On a send, only write-after-read is possible. Every other step releases
  // bytes as soon as it is done with them, so all kinds of dependencies on it have the same effect.
  static void Depend(Step& step, std::uint32_t on, DependencyKind kind) {
    const auto known = std::find_if(step.dependencies.begin(), step.dependencies.end(),
                                    [on](const Dependency& dependency) { return dependency.step == on; });
    if (known == step.dependencies.end()) step.dependencies.push_back({on, kind});
  }

  // Adds the dependencies of `step`, which is appended next and reads its chunks in `buffer`.
  void Read(Step& step, BufferId buffer) {
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) {
      Cell& cell = CellOf(buffer, c);
      if (cell.last_writer != kNone) Depend(step, cell.last_writer, DependencyKind::kReadAfterWrite);
      readers_.push_back({NextStep(), cell.readers});
      cell.readers = static_cast<std::uint32_t>(readers_.size() - 1);
    }
  }

  // Whether a dependency of `step` already implies one on `earlier` at this chunk. For example, a contribution was
  // combined into a value, and the value is now copied over the contribution.
  bool IsImplied(const Step& step, std::uint32_t earlier, std::uint32_t chunk) const {
    if (schedule_.steps[earlier].kind == StepKind::kSend) return false;  // a send may be done but not released
    return std::any_of(step.dependencies.begin(), step.dependencies.end(), [&](const Dependency& dependency) {
      if (dependency.step <= earlier) return false;
      const Step& later = schedule_.steps[dependency.step];
      if (chunk < later.chunks.first || chunk >= later.chunks.end()) return false;
      const bool direct = std::any_of(later.dependencies.begin(), later.dependencies.end(),
                                      [&](const Dependency& on) { return on.step == earlier; });
      return direct || IsImplied(later, earlier, chunk);
    });
  }

  // Adds the dependencies of `step`, which is appended next and writes its chunks in `buffer`. If a step has read a
  // chunk since the last write, it depended on the writer byte by byte. So a dependency on this reader implies one on
  // the writer.
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

  // Each signal depends on the one before it, so the last signal implies all earlier ones, from any rank.
  void AddSignal(Step step) {
    if (last_signal_ != kNone) Depend(step, last_signal_, DependencyKind::kReadAfterWrite);
    last_signal_ = NextStep();
    Append(std::move(step));
  }

  ChunkRange window_;
  std::uint32_t chunks_per_block_;
  BlockSet output_;  // the blocks for which the output has room
  BlockSet owed_;    // the blocks that must be in the output at the end
  RankSchedule schedule_;
  ChunkStates states_;
  std::vector<Reader> readers_;
  std::uint32_t last_signal_ = kNone;             // the step that received the latest signal
  std::vector<Step> sends_;                       // the sends of the current round
  std::vector<std::pair<Effect, Step>> effects_;  // effects of the current round, in the order of the calls
  std::size_t round_begin_ = 0;                   // the first step of the current round
};

// Passes each end of a transfer to the builder of its rank, if that rank is in [first, first + ranks).
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
    // for a rank below first_ the index wraps to a huge number
    const auto index = static_cast<std::size_t>(rank - first_);
    return index < builders_.size() ? &builders_[index] : nullptr;
  }

  // The builder of a rank that has an effect on chunks in the current round; null if the rank or the chunks are not
  // wanted.
  RankBuilder* TouchedAt(Rank rank, ChunkRange chunks) {
    RankBuilder* builder = Intersection(chunks, window_).count > 0 ? BuilderOf(rank) : nullptr;
    if (builder != nullptr) touched_.push_back(builder);
    return builder;
  }

  // Counts every transfer, whichever ranks are wanted, so that a transfer has the same number on every rank.
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
  std::vector<RankBuilder*> touched_;  // builders with steps in the current round; may contain duplicates
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
