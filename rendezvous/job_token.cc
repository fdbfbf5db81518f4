#include "rendezvous/job_token.h"

#include <fmt/core.h>

#include <optional>

namespace rondo {

Result<std::string> TokenText(const std::string& given, const Environment& environment) {
  if (!given.empty()) {
    RONDO_TRY(JobToken::Make(given, "the token given"));
    return given;
  }
  const std::optional<std::string> variable = environment ? environment(kTokenVariable) : std::nullopt;
  if (!variable) return "";
  RONDO_TRY(JobToken::Make(*variable, fmt::format("variable {}", kTokenVariable)));
  return *variable;
}

Result<std::shared_ptr<const JobToken>> MakeJobToken(const std::string& text) {
  if (text.empty()) return nullptr;
  return JobToken::Make(text, "the token");
}

}  // namespace rondo
