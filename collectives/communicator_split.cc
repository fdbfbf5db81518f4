// Groups: communicators that are split from another one. Either all ranks get their groups or none does.
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

// Gives the group its share of the cores of each host, in proportion to its ranks on that host. The other ranks of
// `all` use the same cores.
void ShareCores(const std::vector<PeerIdentity>& all, std::vector<PeerIdentity>& group) {
  std::map<std::string_view, int> of_all, of_group;
  for (const PeerIdentity& one : all) ++of_all[one.host_id];
  for (const PeerIdentity& one : group) ++of_group[one.host_id];
  for (PeerIdentity& one : group)
    if (one.cores > 0 && !one.host_id.empty())  // a rank without a host id counts as alone on its host
      one.cores = std::max(1, one.cores * of_group[one.host_id] / of_all[one.host_id]);
}

}  // namespace

Result<std::unique_ptr<Communicator>> CommunicatorCore::Split(int color, int key, const GroupOptions& options) {
  // This declaration compiles only if it names all fields of GroupOptions. Ranks compare each field below.
  const auto& [rails, first_rail] = options;
  const SplitRequest own{color, key, rails.value_or(options_.rails), first_rail.value_or(options_.first_rail)};
  RONDO_TRY(CheckRails(own.rails, own.first_rail));
  return failure_.GuardCall("splitting a communicator", [&] { return SplitBy(own); });
}

Result<std::unique_ptr<Communicator>> CommunicatorCore::SplitBy(const SplitRequest& own) {
  const TimePoint until = Later(clock_->Now(), options_.timeout);
  // Ranks exchange their requests by a sum: each rank contributes its own entry of the table, and zeros elsewhere.
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
    if (!made) {  // the failure reaches the other ranks, which wait in the barrier below
      const Error error = made.error().With([&](ErrorDetails& d) { d.culprit = rank(); });
      failure_.Begin(error);
      return Fail(error);
    }
    group = *std::move(made);
  }
  // The barrier makes sure that all ranks have their groups. Otherwise some would wait in a group for a rank without
  // one.
  OperationRequest barrier;
  barrier.descriptor = {.collective = Collective::kBarrier, .type = DataType::kUint8};
  const Status all_have = issuer_.Run(std::move(barrier), {.timeout = std::max(until - clock_->Now(), Duration(1))});
  if (all_have) return group;
  // A rank that has passed the barrier may already use its group. It must get the parent's failure as the cause,
  // instead of an error about the group that this rank destroys.
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
  // The group's id is equal on all its members, and different for every split and color of this parent.
  Random mix(options_.id ^ (splits_ << 32) ^ static_cast<std::uint64_t>(own.color));
  options.id = mix.Next();
  options.rebuilder = nullptr;  // only the parent can find out which ranks remain
  options.report = {};
  options.wait_policy = progress_.policy();  // all ranks of the parent share the cores
  RONDO_ASSIGN(const auto child, Create(std::move(options), std::move(name)));
  child->checker_.Inherit(checker_);
  RONDO_ASSIGN(auto group, Communicator::Own(child));
  children_.Add(child);
  return group;
}

// Whether this rank has no evidence yet that the other ranks also have this group.
bool CommunicatorCore::IsNewGroup() const {
  return queue_.completed() == 0 && !messages_.in_use() && !group_.parent.expired();
}

// A thread that waits in a group advances only the group. So this function polls the parent, whose control messages may
// contain the cause.
bool CommunicatorCore::CheckParentFailure() {
  if (!IsNewGroup()) return AdoptParentFailure();
  if (const auto parent = group_.parent.lock()) parent->PollForNotices();
  return AdoptParentFailure();
}

void CommunicatorCore::PollForNotices() {
  if (!progress_.lock().TryEnter()) return;  // another thread advances it
  failure_.Guard("polling for notices", [&] {
    progress_.Disarm();
    if (endpoint_.exists()) endpoint_->Poll(progress_.Look());
    return true;
  });
  progress_.Leave();
}

// A rank may die in the last step of a Split. Some ranks then have their groups, and wait in them for ranks that have
// none. All of them learn that the communicator that they split has failed, and why.
bool CommunicatorCore::AdoptParentFailure() {
  if (queue_.completed() > 0) return false;  // an operation ended, so the other ranks have the group, too
  const auto parent = group_.parent.lock();
  const auto failed = parent != nullptr ? parent->failure() : std::nullopt;
  if (!failed) return false;
  const auto here = [&](Rank of_parent) { return RankInGroup(of_parent, parent->group_.ranks, group_.ranks); };
  // The reporter is the rank that found the failure in the parent. If a mismatch names a rank as culprit, that rank's
  // own error names the reporter as culprit instead (control.cc).
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
