// Verifies the result of a schedule: runs the steps on symbols instead of numbers, and checks the final contents of
// every rank's buffers.
#include <algorithm>
#include <unordered_map>

#include "collectives/schedule/layout.h"
#include "collectives/schedule/verify_parts.h"

namespace rondo::verify {
namespace {

using Value = std::uint32_t;  // the number of an expression; equal numbers mean equal expressions
constexpr Value kUndefined = 0;
// If a result holds more than this many contributions per rank, the error does not say which contribution is surplus.
constexpr std::uint64_t kMaxTimes = 16;

// Expressions over the ranks' contributions, each stored once. All chunks share them, because a step never mixes
// chunks.
class Expressions {
 public:
  enum class Kind : std::uint8_t { kUndefined, kContribution, kScaled, kCombined, kFinished };
  struct Node {
    Kind kind = Kind::kUndefined;
    std::uint32_t left = 0;           // for a contribution: its rank; for a combination: the left operand
    std::uint32_t right = 0;          // for a combination: the right operand
    std::uint32_t contributions = 0;  // number of contributions in the expression, at most kCountedTo
    Rank lowest = 0;                  // the lowest rank whose contribution is in the expression
    Rank highest = 0;
    bool finished = false;  // the expression or a part of it is finished
  };
  static constexpr std::uint64_t kCountedTo = 0xffffffff;

  Expressions() : nodes_(1) {}

  Value Contribution(Rank rank) {
    return Make({Kind::kContribution, static_cast<std::uint32_t>(rank), 0, 1, rank, rank, false});
  }
  Value Scaled(Value of) { return Around(Kind::kScaled, of, nodes_[of].finished); }
  Value Finished(Value of) { return Around(Kind::kFinished, of, true); }
  Value Combined(Value left, Value right) {
    const Node &l = nodes_[left], &r = nodes_[right];
    const std::uint64_t contributions = std::uint64_t{l.contributions} + r.contributions;
    return Make({Kind::kCombined, left, right, static_cast<std::uint32_t>(std::min(contributions, kCountedTo)),
                 std::min(l.lowest, r.lowest), std::max(l.highest, r.highest), l.finished || r.finished});
  }

  const Node& operator[](Value value) const { return nodes_[value]; }

  // "((0+1)+2)"; s(...) is scaled, f(...) is finished.
  std::string ToText(Value value) const {
    const Node& node = nodes_[value];
    switch (node.kind) {
      case Kind::kUndefined: return "?";
      case Kind::kContribution: return std::to_string(node.left);
      case Kind::kScaled: return "s(" + ToText(node.left) + ")";
      case Kind::kCombined: return "(" + ToText(node.left) + "+" + ToText(node.right) + ")";
      case Kind::kFinished: return "f(" + ToText(node.left) + ")";
    }
    return "?";
  }

  // For error messages: describes a large expression only by its size.
  std::string ToShortText(Value value) const {
    if (nodes_[value].contributions <= 16) return ToText(value);
    return fmt::format("an expression of {} contributions", nodes_[value].contributions);
  }

 private:
  Value Around(Kind kind, Value of, bool finished) {
    return Make({kind, of, 0, nodes_[of].contributions, nodes_[of].lowest, nodes_[of].highest, finished});
  }
  Value Make(Node node) {
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint8_t>(node.kind)} << 60 | std::uint64_t{node.left} << 30 | node.right;
    const auto [found, fresh] = known_.try_emplace(key, static_cast<Value>(nodes_.size()));
    if (fresh) nodes_.push_back(node);
    return found->second;
  }

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Value> known_;
};

// The value of every rank's buffers, by chunk of the window.
class Memory {
 public:
  Memory(const Schedule& schedule, ChunkRange window, Expressions& expressions)
      : window_(window), cells_(schedule.ranks.size() * 3 * window.count, kUndefined) {
    const ScheduleKey& key = schedule.key;
    const std::uint32_t per_block = schedule.chunks / BlocksOf(key.collective, key.world_size);
    for (Rank rank = 0; rank < key.world_size; ++rank) {
      const BlockSet input = InputBlocks(key, rank);
      for (std::uint32_t c = window.first; c < window.end(); ++c) {
        if (input.Contains(c / per_block)) At(rank, InputBuffer(key, rank), c) = expressions.Contribution(rank);
      }
    }
  }
  Value& At(Rank rank, BufferId buffer, std::uint32_t chunk) {
    return cells_[(static_cast<std::size_t>(rank) * 3 + static_cast<std::size_t>(buffer)) * window_.count +
                  (chunk - window_.first)];
  }

 private:
  ChunkRange window_;
  std::vector<Value> cells_;
};

class Machine {
 public:
  Machine(const Schedule& schedule, ChunkRange window)
      : schedule_(schedule), window_(window), memory_(schedule, window, expressions_) {}

  Status Run(const std::vector<Event>& ordered) {
    for (const Event& event : ordered) RONDO_TRY(Happen(event));
    return {};
  }

  // Checks that all ranks that must have a chunk have the same value of it. A reduction needs a complete value; other
  // collectives need the value of the one rank that contributed it.
  Status CheckOutput(Proof& proof) {
    const ScheduleKey& key = schedule_.key;
    const std::uint32_t per_block = schedule_.chunks / BlocksOf(key.collective, key.world_size);
    for (std::uint32_t c = window_.first; c < window_.end(); ++c) {
      Value expected = kUndefined;
      Rank holder = kNoRank;  // the first rank that must have the chunk
      for (Rank rank = 0; rank < key.world_size && !Reduces(key.collective); ++rank) {
        if (InputBlocks(key, rank).Contains(c / per_block)) expected = expressions_.Contribution(rank);
      }
      for (Rank rank = 0; rank < key.world_size; ++rank) {
        if (!OutputBlocks(key, rank).Contains(c / per_block)) continue;
        const Value value = memory_.At(rank, BufferId::kOutput, c);
        if (value == kUndefined) return CounterExample("chunk {} of rank {}'s output is never written", c, rank);
        if (holder == kNoRank) holder = rank;
        if (expected == kUndefined) expected = value;
        if (value != expected) {
          return CounterExample("chunk {} of rank {}'s output is {} and not {}", c, rank,
                                expressions_.ToShortText(value), expressions_.ToShortText(expected));
        }
      }
      if (Reduces(key.collective)) RONDO_TRY(CheckReduction(c, holder, expected, proof));
    }
    return {};
  }

 private:
  const Step& StepAt(Place place) const {
    return schedule_.ranks[static_cast<std::size_t>(place.rank)].steps[place.step];
  }

  Status Happen(const Event& event) {
    const Step& giving = StepAt(event.first);
    const Step& taking = StepAt(event.second);
    for (std::uint32_t c = giving.chunks.first; c < giving.chunks.end(); ++c) {
      RONDO_ASSIGN(Value value, Read(event.first, giving.source, c));
      if (taking.kind == StepKind::kRecvReduce || taking.kind == StepKind::kReduce) {
        const BufferId own_buffer = taking.kind == StepKind::kReduce ? taking.destination : taking.source;
        RONDO_ASSIGN(const Value own, Read(event.second, own_buffer, c));
        if (expressions_[value].finished || expressions_[own].finished) {
          return CounterExample("{} combines chunk {} after it was finished", Describe(schedule_, event.second), c);
        }
        if (taking.kind == StepKind::kRecvReduce && taking.incoming_left != MustBeLeft(event, value, own)) {
          return CounterExample("{} combines with the operands on the wrong sides: the lower rank's is the left one",
                                Describe(schedule_, event.second));
        }
        const Value left = taking.incoming_left ? value : own;
        const Value right = taking.incoming_left ? own : value;
        if (taking.kind == StepKind::kReduce && expressions_[left].highest >= expressions_[right].lowest) {
          return CounterExample("{} combines {} with {}: not all of the left operand is from lower ranks",
                                Describe(schedule_, event.second), expressions_.ToShortText(left),
                                expressions_.ToShortText(right));
        }
        value = expressions_.Combined(left, right);
      }
      if (taking.scale) {
        if (value != expressions_.Contribution(event.second.rank)) {
          return CounterExample("{} scales {}, not the rank's own contribution", Describe(schedule_, event.second),
                                expressions_.ToShortText(value));
        }
        value = expressions_.Scaled(value);
      }
      if (taking.finish) {
        const auto world = static_cast<std::uint32_t>(schedule_.key.world_size);
        if (expressions_[value].finished || expressions_[value].contributions != world) {
          return CounterExample("{} finishes chunk {}, which is {}, not complete or already finished",
                                Describe(schedule_, event.second), c, expressions_.ToShortText(value));
        }
        value = expressions_.Finished(value);
      }
      memory_.At(event.second.rank, taking.destination, c) = value;
    }
    return {};
  }

  // Whether the incoming operand must be on the left. Normally it must if the sender's rank is lower than the
  // receiver's. While the receiver holds its own contribution back, its value comes only from lower ranks. Then the
  // operand with the contributions of lower ranks must be on the left.
  bool MustBeLeft(const Event& event, Value incoming, Value own) const {
    const bool held_back = static_cast<Rank>(expressions_[own].highest) < event.second.rank;
    return held_back ? expressions_[incoming].highest < expressions_[own].lowest : event.first.rank < event.second.rank;
  }

  Result<Value> Read(Place place, BufferId buffer, std::uint32_t chunk) {
    const Value value = memory_.At(place.rank, buffer, chunk);
    if (value == kUndefined) {
      return CounterExample("{} reads chunk {}, which no step has written there", Describe(schedule_, place), chunk);
    }
    return value;
  }

  // Checks that each contribution occurs once, scaled or not as the key says, and that the whole value is finished.
  Status CheckReduction(std::uint32_t chunk, Rank holder, Value value, Proof& proof) {
    const ScheduleKey& key = schedule_.key;
    // Ranks that repeatedly combine each other's sums double them, so an expression can be exponentially larger than
    // the schedule. An expression that is too large to be right is not traversed.
    if (expressions_[value].contributions > kMaxTimes * static_cast<std::uint64_t>(key.world_size)) {
      return CounterExample("chunk {} of rank {}'s output is {}, of {} ranks", chunk, holder,
                            expressions_.ToShortText(value), key.world_size);
    }
    if (static_cast<int>(proof.order.size()) < static_cast<int>(window_.count) && key.world_size <= kMaxPrintedWorld) {
      Value printed = value;
      if (expressions_[printed].kind == Expressions::Kind::kFinished) printed = expressions_[printed].left;
      proof.order.push_back(expressions_.ToText(printed));
    }
    const bool finished = expressions_[value].kind == Expressions::Kind::kFinished;
    if (key.world_size > 1 && !finished) {
      return CounterExample("chunk {} of rank {}'s output is {}, which was never finished", chunk, holder,
                            expressions_.ToShortText(value));
    }
    if (seen_.size() <= value) seen_.resize(value + 1, false);
    if (seen_[value]) return {};  // already checked for an earlier chunk
    seen_[value] = true;

    std::vector<std::uint32_t> times(static_cast<std::size_t>(key.world_size), 0);
    // The expressions that are still to be visited, and whether each is inside a scaled expression.
    std::vector<std::pair<Value, bool>> open{{value, false}};
    Rank previous = kNoRank;
    while (!open.empty()) {
      const auto [at, scaled] = open.back();
      open.pop_back();
      const Expressions::Node& node = expressions_[at];
      switch (node.kind) {
        case Expressions::Kind::kUndefined: break;  // never part of an expression
        case Expressions::Kind::kContribution:
          if (scaled != key.scaled) {
            return CounterExample("chunk {} of rank {}'s output holds rank {}'s contribution {}", chunk, holder,
                                  node.left, scaled ? "scaled" : "unscaled");
          }
          ++times[node.left];
          proof.in_rank_order &= static_cast<Rank>(node.left) > previous;
          previous = static_cast<Rank>(node.left);
          break;
        case Expressions::Kind::kScaled: open.emplace_back(node.left, true); break;
        case Expressions::Kind::kFinished: open.emplace_back(node.left, scaled); break;
        case Expressions::Kind::kCombined:
          proof.left_fold &= expressions_[node.right].contributions == 1;
          open.emplace_back(node.right, scaled);
          open.emplace_back(node.left, scaled);
          break;
      }
    }
    proof.left_fold &= proof.in_rank_order;
    for (Rank rank = 0; rank < key.world_size; ++rank) {
      if (times[static_cast<std::size_t>(rank)] == 1) continue;
      return CounterExample("chunk {} of rank {}'s output holds rank {}'s contribution {} times: {}", chunk, holder,
                            rank, times[static_cast<std::size_t>(rank)], expressions_.ToShortText(value));
    }
    return {};
  }

  const Schedule& schedule_;
  ChunkRange window_;
  Expressions expressions_;
  Memory memory_;
  std::vector<bool> seen_;  // indexed by Value: whether it was checked
};

// For each step, the set of ranks whose signals reached it, directly or through other ranks.
class RankSets {
 public:
  RankSets(std::size_t sets, int world)
      : words_((static_cast<std::size_t>(world) + 63) / 64), bits_(sets * words_, 0) {}
  void Add(std::size_t set, Rank rank) {
    bits_[set * words_ + static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  }
  void AddAll(std::size_t set, std::size_t other) {
    for (std::size_t w = 0; w < words_; ++w) bits_[set * words_ + w] |= bits_[other * words_ + w];
  }
  bool Has(std::size_t set, Rank rank) const {
    return (bits_[set * words_ + static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

Status CheckValues(const Schedule& schedule, const std::vector<Event>& ordered, ChunkRange window, Proof& proof) {
  Machine machine(schedule, window);
  RONDO_TRY(machine.Run(ordered));
  return machine.CheckOutput(proof);
}

Status CheckBarrier(const Schedule& schedule, const std::vector<Event>& ordered) {
  const int world = schedule.key.world_size;
  std::vector<std::size_t> first_step;
  std::size_t steps = 0;
  for (const RankSchedule& rank : schedule.ranks) {
    first_step.push_back(steps);
    steps += rank.steps.size();
  }
  RankSets arrived(steps, world);
  const auto number = [&](Place place) { return first_step[static_cast<std::size_t>(place.rank)] + place.step; };
  // A step waits for its dependencies and for the earlier steps in its lane's direction.
  const auto add_earlier_steps = [&](Place place) {
    const RankSchedule& rank = schedule.ranks[static_cast<std::size_t>(place.rank)];
    const Step& step = rank.steps[place.step];
    arrived.Add(number(place), place.rank);
    for (const Dependency& dependency : step.dependencies) {
      arrived.AddAll(number(place), number({place.rank, dependency.step}));
    }
    for (std::uint32_t s = 0; s < place.step; ++s) {
      const Step& other = rank.steps[s];
      if (!IsLocal(other.kind) && Sends(other) == Sends(step) && other.peer == step.peer) {
        arrived.AddAll(number(place), number({place.rank, s}));
      }
    }
  };
  for (const Event& event : ordered) {
    add_earlier_steps(event.first);
    add_earlier_steps(event.second);
    arrived.AddAll(number(event.second), number(event.first));
  }
  for (const RankSchedule& rank : schedule.ranks) {
    for (Rank other = 0; other < world; ++other) {
      bool has_arrived = other == rank.rank;
      for (std::uint32_t s = 0; s < rank.steps.size(); ++s) has_arrived |= arrived.Has(number({rank.rank, s}), other);
      if (!has_arrived)
        return CounterExample("rank {} may leave the barrier before rank {} has arrived", rank.rank, other);
    }
  }
  return {};
}

}  // namespace rondo::verify
