// Executes schedules to test what the proof promises: a schedule gives the documented result, whatever the timing. A
// small machine runs all ranks element by element in random order. Each step advances as far as its dependencies and
// its lane allow. Some lanes hold only one element at a time, or read sent memory only when the receiver takes it. The
// machine uses only step.h and layout.h and shares no code with the verifier, so the two check each other's
// interpretation of a step. Every buffer has room for all blocks, because only the engine packs blocks in memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "collectives/algorithms/formulas.h"
#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/grid.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/text.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace any_timing_test {

// Values for which no two expressions are equal: the operation is neither commutative nor associative.
using Value = std::uint64_t;
Value Mix(Value a, Value b) { return Random(a * 3 + Random(b).Next()).Next(); }
Value Contribution(Rank rank, std::uint64_t element) { return Mix(static_cast<Value>(rank) + 1, element); }
Value Scaled(Value value, Rank rank) { return Mix(value, 1000 + static_cast<Value>(rank)); }
Value Finished(Value value) { return Mix(value, 77); }

struct LaneModel {
  std::size_t capacity = 1;  // maximum number of elements and headers in flight
  bool reads_late = true;    // true: memory is read when the receiver takes it; false: when the sender sends it
};

// The grid of a schedule whose blocks have `count` elements each.
BlockGrid GridOf(const ScheduleKey& key, std::uint32_t chunks, std::uint64_t count) {
  const std::uint32_t blocks = BlocksOf(key.collective, key.world_size);
  return {blocks, count, sizeof(Value), chunks / blocks};
}

class Machine {
 public:
  // `count`: elements of each block.
  Machine(const Schedule& schedule, std::uint64_t count, LaneModel model, std::uint64_t seed)
      : schedule_(schedule), grid_(GridOf(schedule.key, schedule.chunks, count)), model_(model), random_(seed) {
    const ScheduleKey& key = schedule.key;
    for (const RankSchedule& rank : schedule.ranks) {
      Node& node = nodes_.emplace_back();
      node.progress.resize(rank.steps.size());
      for (auto& buffer : node.memory) buffer.assign(grid_.BlockBegin(grid_.blocks()), 0);
      const BlockSet input = InputBlocks(key, rank.rank);
      for (std::uint32_t i = 0; i < input.count; ++i) {
        const std::uint32_t block = input.first + i * input.stride;
        for (std::uint64_t e = grid_.BlockBegin(block); e < grid_.BlockBegin(block + 1); ++e) {
          Memory(rank.rank, InputBuffer(key, rank.rank), e) = Contribution(rank.rank, e);
        }
      }
    }
  }

  // Runs until everything is done; false: nothing can advance any more.
  bool Run() {
    std::vector<std::pair<Rank, std::uint32_t>> open;
    for (const RankSchedule& rank : schedule_.ranks) {
      for (std::uint32_t s = 0; s < rank.steps.size(); ++s) open.emplace_back(rank.rank, s);
    }
    while (!open.empty()) {
      // Every step gets a chance, in random order; some advance several times before the others.
      for (std::size_t i = open.size(); i > 1; --i) std::swap(open[i - 1], open[random_.Below(i)]);
      bool moved = false;
      for (const auto& [rank, step] : open) {
        for (std::uint64_t tries = 1 + random_.Below(4); tries > 0 && Advance(rank, step); --tries) moved = true;
      }
      std::erase_if(open, [&](const auto& at) { return IsDone(at.first, at.second); });
      if (!moved) return false;
    }
    return true;
  }

  Value Output(Rank rank, std::uint64_t element) const {
    return nodes_[static_cast<std::size_t>(rank)].memory[static_cast<std::size_t>(BufferId::kOutput)][element];
  }

 private:
  struct Progress {
    bool begun = false;
    std::uint64_t done = 0;      // elements that are done
    std::uint64_t released = 0;  // elements of a send whose memory is released
  };
  struct Node {
    std::array<std::vector<Value>, 3> memory;
    std::vector<Progress> progress;
  };
  struct Item {
    bool is_header = false;
    std::uint32_t step = 0;     // the sender's step
    std::uint64_t element = 0;  // index in the sender's memory
    Value value = 0;            // set if memory is read early
  };

  const Step& StepOf(Rank rank, std::uint32_t step) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)].steps[step];
  }
  Progress& ProgressOf(Rank rank, std::uint32_t step) { return nodes_[static_cast<std::size_t>(rank)].progress[step]; }
  Value& Memory(Rank rank, BufferId buffer, std::uint64_t element) {
    return nodes_[static_cast<std::size_t>(rank)].memory[static_cast<std::size_t>(buffer)][element];
  }
  std::uint64_t Begin(const Step& step) const { return grid_.BeginElement(step.chunks.first); }
  std::uint64_t Length(const Step& step) const {
    return step.chunks.count == 0 ? 0 : grid_.BeginElement(step.chunks.end()) - Begin(step);
  }
  bool IsDone(Rank rank, std::uint32_t s) {
    const Progress& progress = ProgressOf(rank, s);
    return progress.begun && progress.done == Length(StepOf(rank, s));
  }

  bool LaneIsFree(Rank rank, std::uint32_t s) {
    const Step& step = StepOf(rank, s);
    if (IsLocal(step.kind)) return true;
    for (std::uint32_t before = 0; before < s; ++before) {
      const Step& other = StepOf(rank, before);
      const bool same_direction = !IsLocal(other.kind) && other.peer == step.peer &&
                                  (other.kind == StepKind::kSend) == (step.kind == StepKind::kSend);
      if (same_direction && !IsDone(rank, before)) return false;
    }
    return true;
  }

  bool MayBegin(Rank rank, const Step& step) {
    return std::all_of(step.dependencies.begin(), step.dependencies.end(), [&](const Dependency& dependency) {
      return StepOf(rank, dependency.step).chunks.count > 0 || IsDone(rank, dependency.step);
    });
  }

  bool MayTouch(Rank rank, const Step& step, std::uint64_t element) {
    return std::all_of(step.dependencies.begin(), step.dependencies.end(), [&](const Dependency& dependency) {
      const Step& earlier = StepOf(rank, dependency.step);
      const std::uint64_t begin = Begin(earlier);
      if (element < begin || element >= begin + Length(earlier)) return true;
      const Progress& progress = ProgressOf(rank, dependency.step);
      const bool wants_release = dependency.kind == DependencyKind::kWriteAfterRead && earlier.kind == StepKind::kSend;
      return element < begin + (wants_release ? progress.released : progress.done);
    });
  }

  // Moves one header or one element, if the step may advance.
  bool Advance(Rank rank, std::uint32_t s) {
    const Step& step = StepOf(rank, s);
    Progress& progress = ProgressOf(rank, s);
    if (IsDone(rank, s) || !LaneIsFree(rank, s)) return false;
    const bool sends = step.kind == StepKind::kSend;
    std::deque<Item>& lane = sends ? lanes_[{rank, step.peer}] : lanes_[{step.peer, rank}];
    if (!IsLocal(step.kind) && (sends ? lane.size() >= model_.capacity : lane.empty())) return false;
    if (!progress.begun) {
      if (!MayBegin(rank, step)) return false;
      if (sends) lane.push_back({.is_header = true, .step = s});
      if (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) {
        REQUIRE(lane.front().is_header);
        REQUIRE(StepOf(step.peer, lane.front().step).transfer == step.transfer);
        lane.pop_front();
      }
      progress.begun = true;
      return true;
    }
    const std::uint64_t element = Begin(step) + progress.done;
    if (!MayTouch(rank, step, element)) return false;
    if (sends) {
      lane.push_back({.step = s, .element = element, .value = Memory(rank, step.source, element)});
      if (!model_.reads_late) ++progress.released;
    } else {
      Value value = IsLocal(step.kind) ? Memory(rank, step.source, element) : Take(step.peer, lane);
      if (step.kind == StepKind::kRecvReduce || step.kind == StepKind::kReduce) {
        const Value own = Memory(rank, step.kind == StepKind::kReduce ? step.destination : step.source, element);
        value = step.incoming_left ? Mix(value, own) : Mix(own, value);
      }
      if (step.scale) value = Scaled(value, rank);
      if (step.finish) value = Finished(value);
      Memory(rank, step.destination, element) = value;
    }
    ++progress.done;
    return true;
  }

  Value Take(Rank sender, std::deque<Item>& lane) {
    const Item item = lane.front();
    lane.pop_front();
    REQUIRE_FALSE(item.is_header);
    if (!model_.reads_late) return item.value;
    ++ProgressOf(sender, item.step).released;
    return Memory(sender, StepOf(sender, item.step).source, item.element);
  }

  const Schedule& schedule_;
  BlockGrid grid_;
  LaneModel model_;
  Random random_;
  std::vector<Node> nodes_;
  std::map<std::pair<Rank, Rank>, std::deque<Item>> lanes_;
};

// Computes an expression such as "((0+1)+2)" for one element, from the front of `order`.
Value Evaluate(std::string_view& order, std::uint64_t element, bool scaled) {
  if (order.front() != '(') {
    Rank rank = 0;
    while (!order.empty() && order.front() >= '0' && order.front() <= '9') {
      rank = 10 * rank + (order.front() - '0');
      order.remove_prefix(1);
    }
    const Value own = Contribution(rank, element);
    return scaled ? Scaled(own, rank) : own;
  }
  order.remove_prefix(1);  // (
  const Value left = Evaluate(order, element, scaled);
  order.remove_prefix(1);  // +
  const Value right = Evaluate(order, element, scaled);
  order.remove_prefix(1);  // )
  return Mix(left, right);
}

// The right values of all elements of all blocks, in order, for every rank that must have them.
std::vector<Value> Expected(const ScheduleKey& key, std::uint64_t count, std::uint32_t chunks) {
  std::vector<Value> expected;
  const BlockGrid grid = GridOf(key, chunks, count);
  for (std::uint32_t c = 0; c < chunks; ++c) {
    Rank origin = 0;
    while (!InputBlocks(key, origin).Contains(c / grid.chunks_per_block())) ++origin;
    for (std::uint64_t e = grid.BeginElement(c); e < grid.BeginElement(c + 1); ++e) {
      if (!Reduces(key.collective)) {
        expected.push_back(Contribution(origin, e));
        continue;
      }
      const std::string order = DocumentedOrder(key.collective, key.algorithm, WorldOf(key), c);
      std::string_view rest = order;
      const Value value = Evaluate(rest, e, key.scaled);
      expected.push_back(key.world_size > 1 ? Finished(value) : value);
    }
  }
  return expected;
}

bool AllRanksHold(const Machine& machine, const ScheduleKey& key, std::uint64_t count,
                  const std::vector<Value>& expected) {
  for (Rank rank = 0; rank < key.world_size; ++rank) {
    const BlockSet owed = OutputBlocks(key, rank);
    for (std::uint64_t e = 0; e < expected.size(); ++e) {
      const auto block = static_cast<std::uint32_t>(e / count);
      if (owed.Contains(block) && machine.Output(rank, e) != expected[e]) return false;
    }
  }
  return true;
}

constexpr LaneModel kModels[] = {{1, true}, {1, false}, {3, true}, {1000, true}, {1000, false}};

TEST_CASE("whatever the timing, every rank holds the documented result") {
  Sample sample(5);
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    if (entry.collective == Collective::kBarrier) continue;
    for (int world = 1; world <= 6; ++world) {
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        if (!sample.Takes()) continue;
        const Schedule schedule = Build(entry, key);
        // The counts are zero, fewer elements than chunks, and numbers that cannot be divided evenly. With many blocks,
        // fewer counts are tried.
        const bool many_blocks = BlocksOf(key.collective, world) > 1;
        for (const std::uint64_t count :
             many_blocks ? std::vector<std::uint64_t>{0, 3} : std::vector<std::uint64_t>{0, 3, 11}) {
          const std::vector<Value> expected = Expected(key, count, schedule.chunks);
          for (const LaneModel model : kModels) {
            Machine machine(schedule, count, model, /*seed=*/count * 31 + static_cast<std::uint64_t>(world));
            REQUIRE_MESSAGE(machine.Run(), Describe(key), ", ", count, " elements: stands still");
            REQUIRE_MESSAGE(AllRanksHold(machine, key, count, expected), Describe(key), ", ", count, " elements");
          }
        }
      }
    }
  }
}

TEST_CASE("a barrier ends, whatever the timing") {
  for (const Algorithm algorithm : {Algorithm::kDissemination, Algorithm::kTree}) {
    const AlgorithmEntry& entry = *FindAlgorithm(Collective::kBarrier, algorithm);
    for (int world = 1; world <= 9; ++world) {
      const Schedule schedule = Build(entry, EveryKey(entry, world).front());
      for (const LaneModel model : kModels) CHECK(Machine(schedule, 0, model, 5).Run());
    }
  }
}

// How many of 100 runs give a wrong result if a schedule of four ranks has lost its dependencies of one kind.
int WrongWithout(DependencyKind kind, Algorithm algorithm) {
  const ScheduleKey key{.collective = Collective::kAllReduce, .algorithm = algorithm, .world_size = 4};
  Schedule schedule = Build(*FindAlgorithm(key.collective, algorithm), key);
  for (RankSchedule& rank : schedule.ranks) {
    for (Step& step : rank.steps) {
      std::erase_if(step.dependencies, [&](const Dependency& dependency) { return dependency.kind == kind; });
    }
  }
  const std::vector<Value> expected = Expected(key, 8, schedule.chunks);
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Machine machine(schedule, 8, {.capacity = 1000, .reads_late = true}, seed);
    REQUIRE(machine.Run());
    wrong += AllRanksHold(machine, key, 8, expected) ? 0 : 1;
  }
  return wrong;
}

TEST_CASE("the machine is unkind enough: without its dependencies, a schedule goes wrong") {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveHalving, Algorithm::kRecursiveDoubling}) {
    CHECK_MESSAGE(WrongWithout(DependencyKind::kReadAfterWrite, algorithm) > 0, Name(algorithm));
  }
  // In other algorithms a rank gets the complete value of a chunk only after its own contribution was read. Only a lane
  // that needs the memory even longer (for example to send it again) could cause a wrong result.
  CHECK(WrongWithout(DependencyKind::kWriteAfterRead, Algorithm::kRecursiveDoubling) > 0);
}

TEST_CASE("an exchange in one buffer stands still where lanes release late, though it would pass where they copy") {
  const auto schedule = Parse(R"(schedule all_reduce recursive_doubling world 2 root 0 in_place chunks 1
rank 0
  0: send output[0] to 1 transfer 0
  1: recv_reduce output[0] = output[0] op rank 1 transfer 1 finish after 0 war
rank 1
  0: send output[0] to 0 transfer 1
  1: recv_reduce output[0] = rank 0 op output[0] transfer 0 finish after 0 war
)");
  REQUIRE(schedule.has_value());
  CHECK_FALSE(Machine(*schedule, 4, {.capacity = 1000, .reads_late = true}, 1).Run());
  CHECK(Machine(*schedule, 4, {.capacity = 1000, .reads_late = false}, 1).Run());
}

}  // namespace any_timing_test
}  // namespace rondo
