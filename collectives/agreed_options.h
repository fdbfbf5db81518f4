// Every option of a communicator, and of the connecting that makes it: whether all ranks must have it alike. What ranks
// compare when they meet comes from these tables alone, so an option that must agree is compared, and ranks that differ
// are told its name and both values before anything moves (rendezvous/membership.h).
//
// A field that is in neither table does not compile (agreed_options.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collectives/connect.h"

namespace rondo {

enum class OptionScope : std::uint8_t {
  kEqual,     // alike on all ranks: it decides which bytes go where, or what is chosen
  kOwn,       // each rank's own: no other rank sees a difference but in time, memory or words
  kAssigned,  // Connect fills it in, or the meeting compares it by itself
};

template <typename Options>
struct OptionRow {
  std::string_view name;  // of the field
  OptionScope scope = OptionScope::kOwn;
  // Of kEqual: how errors name it, and its value as text, the same text for the same meaning.
  std::string_view label = {};
  std::string (*value)(const Options& options) = nullptr;
};

// In the order of the fields.
std::span<const OptionRow<CommunicatorOptions>> CommunicatorOptionTable();
std::span<const OptionRow<ConnectOptions>> ConnectOptionTable();

// Member::config of a rank with these options: a line "label=value" for each that must agree, and the versions of what
// is no option. REQUIRES: token, tls and communicator.profile are there, as Connect completes them.
std::string ConfigOf(const ConnectOptions& options);

}  // namespace rondo
