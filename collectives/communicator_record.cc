// What is left of a communicator's records: text, and files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {

DumpOrigin CommunicatorCore::Origin(std::string_view reason) const {
  const auto self = static_cast<std::size_t>(rank());
  const PeerIdentity& identity = options_.peers[self];
  return {.job = options_.job.empty() ? "default" : options_.job,
          .generation = options_.generation,
          .rank = group_.ranks[self],
          .host = identity.host,
          .host_id = identity.host_id,
          .pid = identity.pid,
          .reason = std::string(reason),
          .anchor = AnchorOf(*clock_)};
}

DumpedGroup CommunicatorCore::RecordsOfGroup() const {
  DumpedGroup dumped;
  dumped.name = group_.name;
  dumped.description = group_.description;
  dumped.ranks = group_.ranks;
  dumped.rank = rank();
  // Records first: what they say of an operation is then no more than what is said of all.
  dumped.records = records_.recorder()->Read();
  dumped.message_errors = records_.recorder()->MessageErrors();
  if (options_.frame != nullptr)
    for (auto& [number, text] : dumped.message_errors) text = options_.frame->Reword(text);
  dumped.completed = queue_.completed();
  dumped.issued = queue_.issued();
  endpoint_.Try([&](const Endpoint& endpoint) {
    for (Rank peer = 0; peer < world_size(); ++peer)
      dumped.transport_to.emplace_back(peer == rank() ? "self" : endpoint.TransportTo(peer));
  });
  std::set<std::string_view> names(dumped.transport_to.begin(), dumped.transport_to.end());
  names.erase("self");
  dumped.transports = fmt::format("{}", fmt::join(names, "+"));
  if (const std::optional<Error> failed = failure()) dumped.failure = names_.FramedError(*failed).ToString();
  return dumped;
}

void CommunicatorCore::AddRecords(std::vector<DumpedGroup>& groups) const {
  if (records_.is_on()) groups.push_back(RecordsOfGroup());
  for (const auto& child : children_.Live()) child->AddRecords(groups);
}

std::string CommunicatorCore::DumpRecords(std::string_view reason) const {
  std::vector<DumpedGroup> groups;
  AddRecords(groups);
  return DumpText(Origin(reason), groups);
}

Result<std::string> CommunicatorCore::WriteRecords(std::string_view reason) const {
  if (options_.record_dir.empty())
    return Fail(ErrorCode::kInvalidArgument, "there is no folder for records (options.record_dir)");
  const std::lock_guard lock(dump_mutex_);
  return WriteDump(options_.record_dir, DumpFileName(Origin(reason), group_.name), DumpRecords(reason));
}

void CommunicatorCore::WriteRecordsOfFailure() const {
  if (options_.record_dir.empty()) return;
  if (const Result<std::string> written = WriteRecords("error"); !written)
    Log(options_.logger, LogLevel::kWarning, "{}: records: {}", names_.NameOf(rank()), written.error().message());
}

}  // namespace rondo
