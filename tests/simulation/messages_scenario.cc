#include "tests/simulation/messages_scenario.h"

#include <fmt/core.h>

#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "collectives/communicator.h"
#include "collectives/communicator/waiter.h"

namespace rondo {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(20);  // virtual time
constexpr Tag kExactTags = 4;                            // tags 0 to 3: receives name the sender and the tag
constexpr Tag kTags = 6;                                 // tags 4 and 5: receives name the tag only
constexpr std::size_t kMinBytes = 16;                    // room for the text that identifies a message
constexpr std::size_t kMaxBytes = 2000;

// A simulated job has only one thread, which must not block.
class NoWaiter final : public Waiter {
 public:
  void Sleep(Endpoint&, int, TimePoint) override { ++sleeps; }
  void Yield() override {}
  int sleeps = 0;
};

std::string Payload(Rank from, Tag tag, int number, std::size_t bytes) {
  const std::string word = fmt::format("{}/{}/{} ", from, tag, number);
  std::string text;
  while (text.size() < bytes) text += word;
  text.resize(bytes);
  return text;
}

struct Operation {
  bool sends = false;
  Rank peer = kAnyRank;
  Tag tag = 0;
  std::string memory;
  Work work;
  bool issued = false;
  std::optional<Status> status;
};

class MessagesScenario {
 public:
  explicit MessagesScenario(std::uint64_t seed) : random_(seed) {}

  MessagesOutcome Run() {
    Draw();
    Play();
    outcome_.counters = network_->counters();
    outcome_.trace_hash = network_->trace_hash();
    return outcome_;
  }

 private:
  struct RankState {
    std::vector<Operation> operations;  // in the order in which they were issued
    std::size_t next = 0;
    Work barrier;
    std::optional<Status> met;
    std::unique_ptr<Communicator> communicator;  // destroyed before the memory above
  };

  void Draw() {
    world_ = static_cast<int>(random_.Between(2, 5));
    SimOptions sim;
    sim.world_size = world_;
    sim.seed = random_.Next();
    sim.link.max_delay = std::chrono::microseconds(random_.Between(1, 500));
    if (random_.Chance(0.5)) sim.link.max_slice_bytes = random_.Between(1, 700);
    if (random_.Chance(0.3)) sim.link.clog_probability = random_.Unit() * 0.05;
    sim.buffer_bytes = kLineBytes * random_.Between(1, 64);
    sim.late_release = random_.Chance(0.5);
    network_ = std::make_unique<SimNetwork>(sim);
    if (random_.Chance(0.5)) {
      victim_ = static_cast<Rank>(random_.Below(static_cast<std::uint64_t>(world_)));
      network_->Kill(victim_, network_->clock()->Now() + std::chrono::microseconds(random_.Below(5000)));
    }

    std::vector<PeerIdentity> peers;
    for (Rank r = 0; r < world_; ++r)
      peers.push_back({.host = fmt::format("host{}", r), .address = network_->transport(r)->Address()});
    waiter_ = std::make_shared<NoWaiter>();
    CommunicatorOptions common;
    common.eager_message_bytes = random_.Below(600);
    common.eager_credit_bytes = kLineBytes * random_.Between(1, 40);
    common.max_announced_messages = static_cast<std::uint32_t>(random_.Between(40, 60));
    common.frame_bytes = static_cast<std::uint32_t>(kLineBytes * random_.Between(1, 32));
    common.checksums = random_.Chance(0.5);
    ranks_.resize(static_cast<std::size_t>(world_));
    for (Rank r = 0; r < world_; ++r) {
      CommunicatorOptions options = common;
      options.rank = r;
      options.peers = peers;
      options.transport = network_->transport(r);
      options.clock = network_->clock();
      options.waiter = waiter_;
      options.timeout = kTimeout;
      options.progress_thread = false;
      auto communicator = Communicator::Create(std::move(options));
      if (!communicator) return Violate(communicator.error().ToString());
      At(r).communicator = std::move(*communicator);
    }
    DrawMessages();
  }

  void DrawMessages() {
    std::map<std::tuple<Rank, Rank, Tag>, int> numbers;
    std::vector<std::vector<Operation>> receives(ranks_.size());
    for (std::uint64_t i = random_.Between(5, 40); i > 0; --i) {
      const auto from = static_cast<Rank>(random_.Below(ranks_.size()));
      const auto to = static_cast<Rank>(random_.Below(ranks_.size()));
      const auto tag = static_cast<Tag>(random_.Below(kTags));
      const std::size_t bytes = random_.Between(kMinBytes, random_.Chance(0.5) ? 100 : kMaxBytes);
      At(from).operations.push_back(
          {.sends = true, .peer = to, .tag = tag, .memory = Payload(from, tag, numbers[{from, to, tag}]++, bytes)});
      auto& theirs = receives[static_cast<std::size_t>(to)];
      theirs.insert(theirs.begin() + static_cast<std::ptrdiff_t>(random_.Below(theirs.size() + 1)),
                    {.peer = tag < kExactTags ? from : kAnyRank, .tag = tag, .memory = std::string(kMaxBytes, '.')});
    }
    // Receives are inserted at random places among the sends.
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<Operation>& all = ranks_[r].operations;
      std::size_t from = 0;
      for (Operation& receive : receives[r]) {
        from += random_.Below(all.size() + 1 - from);
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(from++), std::move(receive));
      }
    }
  }

  void Play() {
    const TimePoint begin = network_->clock()->Now();
    for (Rank r = 0; r < world_ && outcome_.violation.empty(); ++r) At(r).barrier = At(r).communicator->BarrierAsync();
    while (outcome_.violation.empty()) {
      bool all_over = true;
      for (Rank r = 0; r < world_; ++r) {
        if (Dead(r)) continue;
        At(r).communicator->Progress();
        all_over = TakeTurn(At(r)) && all_over;
      }
      if (all_over) break;
      outcome_.killed |= network_->counters().kills > 0;
      // If nothing is in flight, only a deadline can end the wait.
      if (!network_->Step()) network_->clock()->Advance(std::chrono::milliseconds(20));
      if (network_->clock()->Now() > begin + 3 * kTimeout) Violate("a rank still waits after all timeouts");
    }
    if (waiter_->sleeps > 0) Violate("a rank tried to block the simulation's only thread");
    for (Rank r = 0; r < world_; ++r)
      if (!Dead(r) && outcome_.violation.empty()) Judge(r);
  }

  // Returns true if the rank has nothing left to do.
  bool TakeTurn(RankState& rank) {
    // All ranks connect first, so that a failing rank can notify every peer.
    if (!rank.met && !(rank.met = rank.barrier.Test())) return false;
    while (rank.next < rank.operations.size() && random_.Chance(0.7)) Issue(rank, rank.operations[rank.next++]);
    bool over = rank.next == rank.operations.size();
    for (Operation& one : rank.operations) {
      if (one.issued && !one.status) one.status = one.work.Test();
      over = over && one.status;
    }
    return over;
  }

  void Issue(RankState& rank, Operation& one) {
    one.issued = true;
    one.work =
        one.sends
            ? rank.communicator->SendAsync(one.memory.data(), one.memory.size(), DataType::kUint8, one.peer, one.tag)
            : rank.communicator->RecvAsync(one.memory.data(), one.memory.size(), DataType::kUint8, one.peer, one.tag);
  }

  void Judge(Rank r) {
    std::map<std::pair<Rank, Tag>, int> last;  // for each (sender, tag): the latest number received
    for (Operation& one : At(r).operations) {
      if (!*one.status) {
        ++outcome_.failed;
        JudgeFailure(r, one.status->error());
      } else if (!one.sends) {
        ++outcome_.received;
        JudgeMessage(r, one, last);
      }
    }
    if (!*At(r).met) JudgeFailure(r, At(r).met->error());
  }

  void JudgeFailure(Rank r, const Error& error) {
    if (network_->counters().kills == 0)
      return Violate(fmt::format("no rank died, but on rank {}: {}", r, error.ToString()));
    if (error.code() != ErrorCode::kPeerLost || error.culprit() != victim_)
      Violate(fmt::format("rank {} died, but on rank {}: {}", victim_, r, error.ToString()));
  }

  void JudgeMessage(Rank r, const Operation& one, std::map<std::pair<Rank, Tag>, int>& last) {
    const std::optional<Message> message = one.work.message();
    if (!message || message->tag != one.tag || (one.peer != kAnyRank && message->source != one.peer))
      return Violate(fmt::format("rank {}: a receive took a message that is not its", r));
    const std::string text = one.memory.substr(0, message->count);
    const std::string head = fmt::format("{}/{}/", message->source, message->tag);
    int number = -1;
    if (text.starts_with(head)) std::from_chars(text.data() + head.size(), text.data() + text.size(), number);
    if (text != Payload(message->source, message->tag, number, text.size()))
      return Violate(fmt::format("rank {}: '{}' with tag {} from rank {}", r, text, message->tag, message->source));
    // After a death, some numbers may be missing, because their messages failed.
    auto [seen, fresh] = last.try_emplace({message->source, message->tag}, -1);
    const bool next = network_->counters().kills > 0 ? number > seen->second : number == seen->second + 1;
    if (!next)
      Violate(fmt::format("rank {}: message {} of tag {} from rank {} after {}", r, number, message->tag,
                          message->source, seen->second));
    seen->second = number;
  }

  RankState& At(Rank r) { return ranks_[static_cast<std::size_t>(r)]; }
  bool Dead(Rank r) const { return r == victim_ && network_->counters().kills > 0; }
  void Violate(std::string text) {
    if (outcome_.violation.empty()) outcome_.violation = std::move(text);
  }

  Random random_;
  int world_ = 1;
  Rank victim_ = kNoRank;
  std::unique_ptr<SimNetwork> network_;
  std::shared_ptr<NoWaiter> waiter_;
  std::vector<RankState> ranks_;
  MessagesOutcome outcome_;
};

}  // namespace

MessagesOutcome RunMessagesScenario(std::uint64_t seed) { return MessagesScenario(seed).Run(); }

}  // namespace rondo
