// Groups: communicators that are split from another one. All ranks get theirs, or none does.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {
namespace {

// A group has its part of the cores: the others of `all` run on them too.
void ShareCores(const std::vector<PeerIdentity>& all, std::vector<PeerIdentity>& group) {
  std::map<std::string_view, int> of_all, of_group;
  for (const PeerIdentity& one : all) ++of_all[one.host_id];
  for (const PeerIdentity& one : group) ++of_group[one.host_id];
  for (PeerIdentity& one : group)
    if (one.cores > 0 && !one.host_id.empty())  // who does not say its host is alone on it
      one.cores = std::max(1, one.cores * of_group[one.host_id] / of_all[one.host_id]);
}

}  // namespace

Result<std::unique_ptr<Communicator>> CommunicatorCore::Split(int color, int key, const GroupOptions& options) {
  const auto& [rails, first_rail] = options;  // all of them, or it does not compile: each is compared below
  const SplitRequest own{color, key, rails.value_or(options_.rails), first_rail.value_or(options_.first_rail)};
  RONDO_TRY(CheckRails(own.rails, own.first_rail));
  return failure_.GuardCall("splitting a communicator", [&] { return SplitBy(own); });
}

Result<std::unique_ptr<Communicator>> CommunicatorCore::SplitBy(const SplitRequest& own) {
  const TimePoint until = Later(clock_->Now(), options_.timeout);
  // Everybody tells everybody what it wants by a sum to which each contributes its own entry.
  std::vector<SplitRequest> table(static_cast<std::size_t>(world_size()));
  table[static_cast<std::size_t>(rank())] = own;
  OperationRequest request;
  request.descriptor = {.count = table.size() * sizeof(SplitRequest) / sizeof(std::int64_t),
                        .collective = Collective::kAllReduce,
                        .type = DataType::kInt64,
                        .op = ReduceOp::kSum};
  request.input = request.output = table.data();
  RONDO_TRY(issuer_.Run(std::move(request), {}));
  ++splits_;

  std::unique_ptr<Communicator> group;
  if (own.color >= 0) {
    auto made = MakeGroup(own, table);
    if (!made) {  // the others are told why, where they wait below
      const Error error = made.error().With([&](ErrorDetails& d) { d.culprit = rank(); });
      failure_.Begin(error);
      return Fail(error);
    }
    group = *std::move(made);
  }
  // Where one rank has no group, nobody shall have one and wait in it for that rank.
  OperationRequest barrier;
  barrier.descriptor = {.collective = Collective::kBarrier, .type = DataType::kUint8};
  const Status all_have = issuer_.Run(std::move(barrier), {.timeout = std::max(until - clock_->Now(), Duration(1))});
  if (all_have) return group;
  // A rank that has passed may use its group already, and hears from this one why it ends: not that this rank ends it.
  if (group != nullptr) FailNewestChild();
  return Fail(all_have.error());
}

void CommunicatorCore::FailNewestChild() {
  if (const auto child = children_.Newest(); child != nullptr) child->AdoptParentFailure();
}

Result<std::unique_ptr<Communicator>> CommunicatorCore::MakeGroup(const SplitRequest& own,
                                                                  const std::vector<SplitRequest>& table) {
  RONDO_ASSIGN(const std::vector<Rank> members, GroupMembers(table, rank()));
  CommunicatorOptions options = options_;
  options.rails = static_cast<std::uint32_t>(own.rails);
  options.first_rail = static_cast<std::uint32_t>(own.first_rail);
  options.peers.clear();
  GroupName name{.name = fmt::format("{}.{}.{}", group_.name, splits_, own.color),
                 .description = fmt::format("split {} of {}, color {}", splits_, group_.name, own.color),
                 .parent = weak_from_this()};
  for (const Rank member : members) {
    if (member == rank()) options.rank = static_cast<Rank>(options.peers.size());
    options.peers.push_back(options_.peers[static_cast<std::size_t>(member)]);
    name.ranks.push_back(group_.ranks[static_cast<std::size_t>(member)]);
  }
  options.frame = std::make_shared<const RankFrame>(RankFrame{name.name, name.ranks});
  ShareCores(options_.peers, options.peers);
  // The same on all members, different for every split and color of this parent.
  Random mix(options_.id ^ (splits_ << 32) ^ static_cast<std::uint64_t>(own.color));
  options.id = mix.Next();
  options.rebuilder = nullptr;  // what is left of a group only its parent can tell
  options.report = {};
  options.wait_policy = progress_.policy();  // the parent's ranks share the cores, whatever group they are in
  RONDO_ASSIGN(const auto child, Create(std::move(options), std::move(name)));
  child->checker_.Inherit(checker_);
  RONDO_ASSIGN(auto group, Communicator::Own(child));
  children_.Add(child);
  return group;
}

// Nothing has shown yet that the others have this group as well.
bool CommunicatorCore::IsNewGroup() const {
  return queue_.completed() == 0 && !messages_.in_use() && !group_.parent.expired();
}

// Who waits in a group drives that alone, and the parent's reason may lie there unheard.
bool CommunicatorCore::CheckParentFailure() {
  if (!IsNewGroup()) return AdoptParentFailure();
  if (const auto parent = group_.parent.lock()) parent->Hear();
  return AdoptParentFailure();
}

void CommunicatorCore::Hear() {
  if (!progress_.lock().TryEnter()) return;  // somebody drives it
  failure_.Guard("polling for notices", [&] {
    progress_.Disarm();
    if (endpoint_.exists()) endpoint_->Poll(progress_.Look());
    return true;
  });
  progress_.Leave();
}

// A rank may die in the last step of a Split: some ranks then have their groups, and wait in them for others that do
// not. All of them know that the communicator which they split has failed, and why.
bool CommunicatorCore::AdoptParentFailure() {
  if (queue_.completed() > 0) return false;  // so the others have the group as well
  const auto parent = group_.parent.lock();
  const auto failed = parent != nullptr ? parent->failure() : std::nullopt;
  if (!failed) return false;
  const auto here = [&](Rank of_parent) { return RankInGroup(of_parent, parent->group_.ranks, group_.ranks); };
  // Who found it, not who follows: of two that disagree one is told that it is the other.
  failure_.Begin(Error({.code = failed->code(),
                        .message = std::string(kParentFailed),
                        .culprit = here(failed->culprit()),
                        .host = failed->details().host,
                        .address = failed->details().address,
                        .first_cause = parent->names_.FramedError(*failed).ToString()}),
                 here(parent->failure_.reporter()));
  return true;
}

}  // namespace rondo
