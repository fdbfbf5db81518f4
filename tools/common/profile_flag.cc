#include "tools/common/profile_flag.h"

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "collectives/connect.h"
#include "tools/common/flags.h"

namespace rondo {

CLI::Option* AddProfile(CLI::App& app, std::shared_ptr<const Profile>& profile) {
  const auto read = [&profile](const std::string& path) -> std::string {
    auto file = ReadProfile(path);
    if (!file) return file.error().message();
    profile = std::move(*file);
    return "";
  };
  return AddText(app, "--profile", read, "FILE",
                 "File of `rondo tune` by which algorithms are chosen; it must be the same on every rank (default: "
                 "variable RONDO_PROFILE, otherwise the built-in profile)");
}

Status TakeProfileOfEnvironment(std::shared_ptr<const Profile>& profile) {
  if (profile != nullptr) return {};
  RONDO_ASSIGN(profile, ProfileIn(ProcessEnvironment));
  return {};
}

}  // namespace rondo
