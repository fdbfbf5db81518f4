// Records of a communicator and of its groups.
#include <utility>

#include "base/out_of_memory.h"
#include "collectives/communicator_core.h"

namespace rondo {

std::vector<DumpedGroup> CommunicatorCore::Records() const {
  std::vector<DumpedGroup> groups;
  record_writer_.Add(NameInRecords(), groups);
  for (const auto& child : children_.Live())
    for (DumpedGroup& group : child->Records()) groups.push_back(std::move(group));
  return groups;
}

std::string CommunicatorCore::DumpRecords(std::string_view reason) const {
  return record_writer_.Text(NameInRecords(), reason, Records());
}

Result<std::string> CommunicatorCore::WriteRecords(std::string_view reason) const {
  return record_writer_.Write(NameInRecords(), reason, [this] { return Records(); });
}

void CommunicatorCore::OnEnded() noexcept {
  if (!record_writer_.has_folder()) return;
  IfMemoryAllows([&] {
    if (const Result<std::string> written = WriteRecords("error"); !written) record_writer_.LogFailure(written.error());
  });
}

}  // namespace rondo
