#include "collectives/communicator/record_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <utility>

namespace rondo {

DumpOrigin RecordWriter::Origin(const Group& group, std::string_view reason) const {
  return {.job = options_.job.empty() ? "default" : options_.job,
          .generation = options_.generation,
          .rank = group.ranks[static_cast<std::size_t>(near_.names.self())],
          .host = options_.host,
          .host_id = options_.host_id,
          .pid = options_.pid,
          .reason = std::string(reason),
          .anchor = AnchorOf(near_.clock)};
}

void RecordWriter::Add(const Group& group, std::vector<DumpedGroup>& groups) const {
  if (!near_.records.is_on()) return;
  const Rank self = near_.names.self();
  DumpedGroup dumped;
  dumped.name = group.name;
  dumped.description = group.description;
  dumped.ranks = group.ranks;
  dumped.rank = self;
  // The records are read before the counters below. So they contain no operation that the counters do not count.
  dumped.records = near_.records.recorder()->Read();
  dumped.message_errors = near_.records.recorder()->MessageErrors();
  if (options_.frame != nullptr)
    for (auto& [number, text] : dumped.message_errors) text = options_.frame->Reword(text);
  dumped.completed = near_.queue.completed();
  dumped.issued = near_.queue.issued();
  near_.endpoint.Try([&](const Endpoint& endpoint) {
    for (Rank peer = 0; peer < static_cast<Rank>(group.ranks.size()); ++peer)
      dumped.transport_to.emplace_back(peer == self ? "self" : endpoint.TransportTo(peer));
  });
  std::set<std::string_view> names(dumped.transport_to.begin(), dumped.transport_to.end());
  names.erase("self");
  dumped.transports = fmt::format("{}", fmt::join(names, "+"));
  if (const std::optional<Error> failed = near_.failure.cause())
    dumped.failure = near_.names.FramedError(*failed).ToString();
  groups.push_back(std::move(dumped));
}

std::string RecordWriter::Text(const Group& group, std::string_view reason,
                               const std::vector<DumpedGroup>& groups) const {
  return DumpText(Origin(group, reason), groups);
}

Result<std::string> RecordWriter::Write(const Group& group, std::string_view reason,
                                        const std::function<std::vector<DumpedGroup>()>& groups) const {
  if (!has_folder()) return Fail(ErrorCode::kInvalidArgument, "there is no folder for records (options.record_dir)");
  const MutexLock lock(writing_);
  const DumpOrigin origin = Origin(group, reason);
  return WriteDump(options_.folder, DumpFileName(origin, std::string(group.name)), DumpText(origin, groups()));
}

void RecordWriter::LogFailure(const Error& error) const {
  Log(options_.logger, LogLevel::kWarning, "{}: records: {}", near_.names.NameOf(near_.names.self()), error.message());
}

}  // namespace rondo
