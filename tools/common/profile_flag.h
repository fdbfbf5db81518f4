// --profile FILE, or variable RONDO_PROFILE: the profile by which the library chooses algorithms.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/model/profile.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo {

// Adds --profile. The file is read when the flag is parsed.
CLI::Option* AddProfile(CLI::App& app, std::shared_ptr<const Profile>& profile);

// If no flag has set `profile`, reads the file of the variable. Leaves `profile` null if the variable is not set.
// kInvalidArgument names the variable and the file.
Status TakeProfileOfEnvironment(std::shared_ptr<const Profile>& profile);

}  // namespace rondo
