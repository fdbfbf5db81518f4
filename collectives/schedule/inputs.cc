#include "collectives/schedule/inputs.h"

#include <utility>

#include "base/check.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// Follows every rank's value of every chunk through the transfers of all ranks. RankBuilder (project.cc) does the same
// for one rank's steps. The transfers of a round carry what their senders held before the round.
class InputFinder final : public Transfers {
 public:
  InputFinder(int world_size, std::uint32_t chunks, Rank rank)
      : chunks_(chunks), rank_(rank), values_(static_cast<std::size_t>(world_size)) {}

  void Reduce(Rank from, Rank to, ChunkRange chunks) override { Arrive(Kind::kReduce, from, to, chunks); }
  void Copy(Rank from, Rank to, ChunkRange chunks) override { Arrive(Kind::kCopy, from, to, chunks); }
  void Signal(Rank, Rank) override { ++transfers_; }
  void Hold(Rank rank, ChunkRange chunks) override { effects_.push_back({Kind::kHold, rank, chunks}); }
  void Contribute(Rank rank, ChunkRange chunks) override { effects_.push_back({Kind::kContribution, rank, chunks}); }
  void Finish(Rank, ChunkRange) override {}

  void EndRound() override {
    for (const Effect& effect : effects_) Apply(effect);
    effects_.clear();
  }

  ReductionInputs Take() { return std::move(found_); }

 private:
  enum class Value : std::uint8_t { kInput, kCombined, kNone };
  enum class Kind : std::uint8_t { kReduce, kCopy, kHold, kContribution };
  struct Effect {
    Kind kind;
    Rank at;
    ChunkRange chunks;
    Value incoming = Value::kNone;
    std::uint32_t transfer = 0;
  };

  // The chunks of one transfer must have equal Values, because one kernel call processes all of them.
  Value ValueOf(Rank rank, ChunkRange chunks) const {
    const std::vector<Value>& values = values_[static_cast<std::size_t>(rank)];
    if (values.empty()) return Value::kInput;
    const Value value = values[chunks.first];
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c)
      RONDO_CHECK(values[c] == value, "rank {}: chunks [{}, {}) are used together, and not all are inputs", rank,
                  chunks.first, chunks.end());
    return value;
  }
  void Set(Rank rank, ChunkRange chunks, Value value) {
    std::vector<Value>& values = values_[static_cast<std::size_t>(rank)];
    if (values.empty()) values.resize(chunks_, Value::kInput);
    for (std::uint32_t c = chunks.first; c < chunks.end(); ++c) values[c] = value;
  }

  void Arrive(Kind kind, Rank from, Rank to, ChunkRange chunks) {
    effects_.push_back({kind, to, chunks, ValueOf(from, chunks), transfers_++});
  }

  void Apply(const Effect& effect) {
    switch (effect.kind) {
      case Kind::kHold: return Set(effect.at, effect.chunks, Value::kNone);
      case Kind::kCopy: return Set(effect.at, effect.chunks, effect.incoming);
      case Kind::kContribution: {
        const Value value = ValueOf(effect.at, effect.chunks);
        if (effect.at == rank_) found_.local.push_back(value == Value::kInput);
        return Set(effect.at, effect.chunks, Value::kCombined);
      }
      case Kind::kReduce: break;
    }
    const Value own = ValueOf(effect.at, effect.chunks);
    // The rank has no value for these chunks yet, because it holds its contribution back. So the incoming value is
    // copied.
    if (own == Value::kNone) return Set(effect.at, effect.chunks, effect.incoming);
    if (effect.at == rank_)
      found_.arriving[effect.transfer] = {.incoming = effect.incoming == Value::kInput, .own = own == Value::kInput};
    Set(effect.at, effect.chunks, Value::kCombined);
  }

  const std::uint32_t chunks_;
  const Rank rank_;
  std::uint32_t transfers_ = 0;
  std::vector<std::vector<Value>> values_;  // by rank; an empty entry: all chunks are inputs
  std::vector<Effect> effects_;             // effects of the current round, in the order of the calls
  ReductionInputs found_;
};

}  // namespace

ReductionInputs FindInputs(const AlgorithmEntry& entry, const ScheduleKey& key, Rank rank) {
  RONDO_CHECK(Reduces(key.collective), "{} combines nothing", Name(key.collective));
  const World world = WorldOf(key);
  InputFinder finder(key.world_size, ChunksOf(entry, world), rank);
  entry.generate(world, finder);
  return finder.Take();
}

}  // namespace rondo
