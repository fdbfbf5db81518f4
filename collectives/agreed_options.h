// Says of every option of a communicator, and of Connect, whether it must be equal on all ranks. These tables alone
// decide what ranks compare at the rendezvous. If ranks differ, each gets an error with the option's name and both
// values, before any data moves (rendezvous/membership.h).
//
// A field without a row in one of the tables does not compile (agreed_options.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collectives/connect.h"

namespace rondo {

enum class OptionScope : std::uint8_t {
  kEqual,     // equal on all ranks: it decides which bytes go where, or which algorithm is chosen
  kOwn,       // may differ: it changes only time, memory and the text of errors and logs
  kAssigned,  // Connect fills it in, or the rendezvous compares it separately
};

template <typename Options>
struct OptionRow {
  std::string_view name;  // name of the field
  OptionScope scope = OptionScope::kOwn;
  // For kEqual: the name of the option in errors, and its value as text. Equal values must give equal texts.
  std::string_view label = {};
  std::string (*value)(const Options& options) = nullptr;
};

// The rows are in the order of the fields.
std::span<const OptionRow<CommunicatorOptions>> CommunicatorOptionTable();
std::span<const OptionRow<ConnectOptions>> ConnectOptionTable();

// The text that a rank with these options publishes as Member::config: a line "label=value" for each option that must
// be equal, and the versions of formats that are no options. REQUIRES: token, tls and communicator.profile are set, as
// Connect completes them.
std::string ConfigOf(const ConnectOptions& options);

}  // namespace rondo
