// --profile FILE, or variable RONDO_PROFILE: what the library chooses algorithms by.
#pragma once

#include <memory>

#include "base/result.h"
#include "collectives/model/profile.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo {

// The file is read when the flag is parsed.
CLI::Option* AddProfile(CLI::App& app, std::shared_ptr<const Profile>& profile);

// Where no flag gave one, reads that of the variable; leaves `profile` null where there is none either.
// kInvalidArgument names the variable and the file.
Status TakeProfileOfEnvironment(std::shared_ptr<const Profile>& profile);

}  // namespace rondo
