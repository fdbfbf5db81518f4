// --profile FILE, or variable RONDO_PROFILE: the file of measured times with which the library chooses algorithms.
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

// If no flag has set `profile`, reads the file that RONDO_PROFILE names. Leaves `profile` null if the variable is not
// set. kInvalidArgument names the variable and the file.
Status TakeProfileOfEnvironment(std::shared_ptr<const Profile>& profile);

}  // namespace rondo
