#include "rendezvous/launchers/pmi_reply.h"

namespace rondo {

std::string PmiReply::Field(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

Status PmiReply::Check(std::string_view expected) const {
  if (command != expected) {
    return Fail(ErrorCode::kProtocol, "the PMI server answered '{}', expected '{}'", command, expected);
  }
  if (const std::string rc = Field("rc"); !rc.empty() && rc != "0") {
    const std::string reason = Field("errmsg").empty() ? Field("msg") : Field("errmsg");
    return Fail(ErrorCode::kProtocol, "the PMI server answered {} with rc={}{}{}", command, rc,
                reason.empty() ? "" : ": ", reason);
  }
  return {};
}

}  // namespace rondo
