#include "simulation/rank_life.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "rendezvous/membership.h"

namespace rondo::simulation {
namespace {

constexpr Duration kSlack = std::chrono::seconds(1);
// Longer than any operation's timeout (at most 6 s). A rank that gets no notice of a failure fails at that timeout.
constexpr Duration kSettle = std::chrono::seconds(10);
constexpr Duration kRebuildTimeout = std::chrono::seconds(40);
constexpr int kMaxRebuilds = 4;
// The generation of the rendezvous after healing. No rebuild reaches this number.
constexpr std::uint64_t kHealedGeneration = 1000;
constexpr Duration kHealedTimeout = std::chrono::seconds(30);
constexpr std::uint64_t kCounts[] = {1, 1000, 37};

constexpr std::size_t kGuards = 8;
constexpr std::int64_t kGuard = 0x5AFE'5AFE'5AFE'5AFE;
constexpr std::int64_t kFiller = 0x0BAD'0BAD'0BAD'0BAD;

std::int64_t Element(Rank rank, std::uint64_t i) {
  return (rank + 1) * std::int64_t{1'000'003} + static_cast<std::int64_t>(i * 11);
}

std::byte MessageByte(Rank from, Tag tag, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(tag) * 7 + i * 13);
}

bool All(const std::vector<std::int64_t>& words, std::size_t from, std::size_t until, std::int64_t value) {
  return std::all_of(words.begin() + static_cast<std::ptrdiff_t>(from),
                     words.begin() + static_cast<std::ptrdiff_t>(until),
                     [&](std::int64_t word) { return word == value; });
}

Rank NamedAsCulprit(std::string_view text) {
  constexpr std::string_view kWords = "caused by rank ";
  Rank rank = kNoRank;
  if (const auto at = text.find(kWords); at != std::string_view::npos)
    std::from_chars(text.data() + at + kWords.size(), text.data() + text.size(), rank);
  return rank;
}

}  // namespace

std::string RankLife::Name() const { return fmt::format("rank {}, {}", rank_, doing_); }

// ---- bodies ----

void RankLife::First(const StorePlace& place) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < world_.plan.world_size; ++rank) all.push_back(rank);
  doing_ = "the rendezvous";
  auto communicator = Connect(place, 0, all, world_.plan.join_timeout);
  if (!communicator) return Fail(communicator.error());
  communicator_ = std::move(*communicator);
  connected_at_ = Now();
  const Status worked = Work();
  if (world_.cluster.dying()) return;
  if (worked) {
    through_ = true;
    world_.trace(fmt::format("rank {} has finished", rank_));
    return;
  }
  Fail(worked.error());
  if (world_.plan.rebuild) GoOn();
}

Status RankLife::Work() {
  for (const Step& step : world_.plan.steps) {
    doing_ = Describe(step);
    RONDO_TRY(Do(step));
    if (world_.cluster.dying()) return {};
  }
  doing_ = "Close";
  return Timed(kTimeout, [&] { return communicator_->Close(); });
}

void RankLife::GoOn() {
  for (int rebuilds = 0; rebuilds < kMaxRebuilds && !world_.cluster.dying(); ++rebuilds) {
    doing_ = fmt::format("rebuild {}", rebuilds + 1);
    part_.reset();
    failing_in_.clear();
    // The negative control's ranks wait for no others, so their rosters differ; a correct store accepts only one.
    const Duration settle = world_.negative == Negative::kTwoRosters ? std::chrono::microseconds(1) : kSettle;
    const Status rebuilt = Timed(kRebuildTimeout, [&]() -> Status {
      RONDO_ASSIGN(
          communicator_,
          communicator_->Rebuild({.min_ranks = world_.plan.min_ranks, .settle = settle, .timeout = kRebuildTimeout}));
      return {};
    });
    if (world_.cluster.dying()) return;
    if (!rebuilt) {
      stopped_by_ = rebuilt.error();
      world_.trace(fmt::format("rank {} does not continue: {}", rank_, stopped_by_->ToString()));
      return;
    }
    const Generation& now = generations_.back();
    world_.trace(
        fmt::format("rank {} continues in generation {} of ranks {}", rank_, now.number, fmt::join(now.members, ", ")));
    Status status;
    for (const std::uint64_t count : kCounts) {
      doing_ = fmt::format("the sum of {} elements in generation {}", count, now.number);
      if (status) status = SumOf(*communicator_, now.members, count, kTimeout);
    }
    if (status) {
      doing_ = fmt::format("Close of generation {}", now.number);
      status = Timed(kTimeout, [&] { return communicator_->Close(); });
    }
    if (world_.cluster.dying()) return;
    if (status) {
      went_on_ = true;
      return;
    }
    world_.trace(fmt::format("rank {} fails in {}: {}", rank_, doing_, status.error().ToString()));
    GiveUp();
  }
}

void RankLife::Again(const StorePlace& place, const std::vector<Rank>& survivors) {
  through_ = false;
  failure_.reset();
  doing_ = "leaving the old group";
  failing_in_.clear();
  part_.reset();
  communicator_.reset();
  store_.reset();
  doing_ = "the rendezvous of the next generation";
  auto communicator = Connect(place, kHealedGeneration, survivors, kHealedTimeout);
  if (!communicator) return Fail(communicator.error());
  communicator_ = std::move(*communicator);
  for (const std::uint64_t count : kCounts) {
    doing_ = fmt::format("the sum of {} elements in the next generation", count);
    if (const Status summed = SumOf(*communicator_, survivors, count, kHealedTimeout); !summed)
      return Fail(summed.error());
  }
  doing_ = "Close of the next generation";
  if (const Status closed = communicator_->Close(); !closed) return Fail(closed.error());
  through_ = true;
}

void RankLife::Die() {
  for (const auto* communicator : {&communicator_, &part_})
    if (*communicator != nullptr) (*communicator)->Abort("the process was killed");
}

// ---- parts of the bodies ----

Result<std::unique_ptr<Communicator>> RankLife::Connect(const StorePlace& place, std::uint64_t generation,
                                                        const std::vector<Rank>& members, Duration timeout) {
  const TimePoint deadline = Now() + timeout;
  const Presence presence = MakePresence(world_, rank_, generation);
  const auto rank = static_cast<Rank>(std::find(members.begin(), members.end(), rank_) - members.begin());

  std::optional<Membership> membership;
  RONDO_TRY(Timed(timeout, [&]() -> Status {
    RONDO_ASSIGN(
        store_,
        StoreClient::Connect(
            world_.network, world_.cluster,
            {.place = place, .self = rank_, .clients = world_.plan.world_size, .job = kJob, .deadline = deadline}));
    RONDO_ASSIGN(membership, Join(*store_, *world_.network.clock(),
                                  {.rank = rank,
                                   .world_size = static_cast<int>(members.size()),
                                   .job = kJob,
                                   .generation = generation,
                                   .self = presence.self,
                                   .deadline = deadline}));
    return {};
  }));
  if (world_.cluster.dying()) return rondo::Fail(ErrorCode::kAborted, "killed");

  std::shared_ptr<Rebuilder> rebuilder;
  if (world_.plan.rebuild && generation != kHealedGeneration) {
    rebuilder = MakeRebuilder(world_, rank_, *store_, *membership, [this](const Membership& rebuilt) {
      generations_.push_back({.number = rebuilt.generation, .members = RanksOf(rebuilt)});
    });
  } else {
    store_.reset();
  }
  return MakeCommunicator(world_, *membership, presence.transport, std::move(rebuilder));
}

Status RankLife::Do(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kCollective: return Collective(step);
    case Step::Kind::kShift: return Shift(step, static_cast<Tag>(&step - world_.plan.steps.data()));
    case Step::Kind::kSplit: return Split(step);
  }
  return {};
}

Status RankLife::Timed(Duration most, const std::function<Status()>& call) {
  const TimePoint begin = Now();
  Status status = call();
  if (world_.cluster.dying()) return rondo::Fail(ErrorCode::kAborted, "killed");
  const Duration took = Now() - begin;
  // The time for which this rank was stopped is added, because a stopped rank cannot keep a deadline.
  Duration stopped{};
  for (const Fault& fault : world_.plan.faults)
    if (fault.kind == Fault::Kind::kPause && fault.ranks.front() == rank_) stopped += fault.lasts;
  if (took > most + kSlack + stopped)
    world_.violate(fmt::format("{}: took {:.3f} s, its deadline was {:.3f} s", Name(),
                               std::chrono::duration<double>(took).count(),
                               std::chrono::duration<double>(most).count()));
  return status;
}

Status RankLife::Collective(const Step& step) {
  const plain::Case& c = step.collective;
  const int ranks = world_.plan.world_size;
  Kept& kept = memory_.emplace_back();
  kept.of = Name();
  kept.buffers = std::make_unique<plain::Buffers>(c, rank_, ranks);
  plain::Buffers& buffers = *kept.buffers;
  buffers.output.insert(buffers.output.begin(), kGuards, kGuard);
  buffers.output.insert(buffers.output.end(), kGuards, kGuard);
  buffers.output_at += kGuards;
  buffers.input_at += kGuards;  // used only by operations in place
  OperationOptions options;
  if (world_.negative != Negative::kNoDeadline) options.timeout = step.timeout;
  Status done = Timed(step.timeout, [&] {
    return plain::Issue(*communicator_, c, buffers.in(), buffers.out(), DataType::kInt64, ReduceOp::kSum, options)
        .Wait();
  });
  if (done && !world_.cluster.dying())
    if (const std::string wrong = buffers.Wrong(c, rank_, ranks); !wrong.empty())
      world_.violate(fmt::format("{}: {}", Name(), wrong));
  GiveBack(kept);
  return done;
}

Status RankLife::Shift(const Step& step, Tag tag) {
  const int ranks = world_.plan.world_size;
  const Rank to = (rank_ + step.shift) % ranks;
  const Rank from = (rank_ - step.shift + ranks) % ranks;
  const std::size_t words = step.bytes / sizeof(std::int64_t) + 1;
  auto* const out = reinterpret_cast<std::byte*>(Lend(words, 0));
  auto* const in = reinterpret_cast<std::byte*>(Lend(words, 0));
  for (std::size_t i = 0; i < step.bytes; ++i) out[i] = MessageByte(rank_, tag, i);
  MessageOptions options;
  if (world_.negative != Negative::kNoDeadline) options.timeout = step.timeout;
  Status done = Timed(step.timeout, [&]() -> Status {
    RONDO_ASSIGN(
        const Message message,
        communicator_->SendRecv({out, step.bytes, to, tag}, {in, step.bytes, step.from_any_rank ? kAnyRank : from, tag},
                                DataType::kUint8, options));
    if (message.source != from || message.count != step.bytes)
      world_.violate(fmt::format("{}: {} bytes from rank {} instead of {} from rank {}", Name(), message.count,
                                 message.source, step.bytes, from));
    return {};
  });
  if (done)
    for (std::size_t i = 0; i < step.bytes; ++i)
      if (in[i] != MessageByte(from, tag, i)) {
        world_.violate(fmt::format("{}: byte {} of the message from rank {} is wrong", Name(), i, from));
        break;
      }
  GiveBack(memory_[memory_.size() - 2]);
  GiveBack(memory_.back());
  return done;
}

Status RankLife::Split(const Step& step) {
  const int color = rank_ % step.colors;
  RONDO_TRY(Timed(kTimeout, [&]() -> Status {
    RONDO_ASSIGN(part_, communicator_->Split(color, -rank_));
    return {};
  }));
  // Higher ranks have lower keys, so the group's order is reversed.
  for (Rank rank = world_.plan.world_size - 1; rank >= 0; --rank)
    if (rank % step.colors == color) failing_in_.push_back(rank);
  RONDO_TRY(SumOf(*part_, failing_in_, step.count, step.timeout));
  RONDO_TRY(Timed(kTimeout, [&] { return part_->Close(); }));
  part_.reset();
  failing_in_.clear();
  return {};
}

Status RankLife::SumOf(Communicator& communicator, const std::vector<Rank>& members, std::uint64_t count,
                       Duration timeout) {
  std::int64_t* const words = Lend(count, 0);
  Kept& kept = memory_.back();
  for (std::uint64_t i = 0; i < count; ++i) words[i] = Element(rank_, i);
  OperationOptions options;
  if (world_.negative != Negative::kNoDeadline) options.timeout = timeout;
  Status done = Timed(
      timeout, [&] { return communicator.AllReduce(words, words, count, DataType::kInt64, ReduceOp::kSum, options); });
  for (std::uint64_t i = 0; i < count && done; ++i) {
    std::int64_t due = 0;
    for (const Rank rank : members) due += Element(rank, i);
    if (words[i] == due) continue;
    world_.violate(fmt::format("{}: element {} is {} instead of {}", Name(), i, words[i], due));
    break;
  }
  GiveBack(kept);
  return done;
}

// ---- failing ----

void RankLife::Fail(const Error& error) {
  if (world_.cluster.dying()) return;
  failed_at_ = Now();
  // A group numbers its ranks differently, so the culprit is converted to a rank of the network.
  failure_ = error.With([&](ErrorDetails& details) {
    if (failing_in_.empty()) return;
    // If the culprit is outside the group, the parent communicator has failed, and only the text of the first cause
    // names the culprit.
    if (details.culprit < 0) return void(details.culprit = NamedAsCulprit(details.first_cause));
    const auto at = static_cast<std::size_t>(details.culprit);
    details.culprit = at < failing_in_.size() ? failing_in_[at] : kNoRank;
  });
  world_.trace(fmt::format("rank {} fails in {}: {}", rank_, doing_, failure_->ToString()));
  if (communicator_ != nullptr) GiveUp();
}

void RankLife::GiveUp() {
  // Even if only a message or a group has failed, this rank stops taking part. It aborts the communicator, so that
  // other ranks do not wait for this rank.
  if (!communicator_->failure()) communicator_->Abort(fmt::format("{} failed", doing_));
  const auto cause = communicator_->failure();
  const Status later = communicator_->Barrier();
  if (later || later.error().message() != cause->message())
    world_.violate(fmt::format("{}: failed with '{}', but a later call {}", Name(), cause->message(),
                               later ? "succeeds" : fmt::format("says '{}'", later.error().message())));
}

// ---- memory ----

std::int64_t* RankLife::Lend(std::size_t words, std::int64_t fill) {
  Kept& kept = memory_.emplace_back();
  kept.of = Name();
  kept.words.assign(words + 2 * kGuards, kGuard);
  std::fill_n(kept.words.begin() + kGuards, words, fill);
  return kept.words.data() + kGuards;
}

void RankLife::GiveBack(Kept& kept) {
  const auto guarded = [&](std::vector<std::int64_t>& words) {
    if (!All(words, 0, kGuards, kGuard) || !All(words, words.size() - kGuards, words.size(), kGuard))
      world_.violate(fmt::format("{}: memory beside the buffer was written", kept.of));
    std::fill(words.begin(), words.end(), kFiller);
  };
  if (kept.buffers == nullptr) return guarded(kept.words);
  guarded(kept.buffers->output);
  std::fill(kept.buffers->input.begin(), kept.buffers->input.end(), kFiller);
}

void RankLife::LookAtMemory() {
  for (const Kept& kept : memory_) {
    const bool intact = kept.buffers == nullptr ? All(kept.words, 0, kept.words.size(), kFiller)
                                                : All(kept.buffers->output, 0, kept.buffers->output.size(), kFiller) &&
                                                      All(kept.buffers->input, 0, kept.buffers->input.size(), kFiller);
    if (!intact) world_.violate(fmt::format("{}: the buffer was written after the call had returned", kept.of));
  }
}

}  // namespace rondo::simulation
