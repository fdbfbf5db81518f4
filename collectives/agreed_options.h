// Tables with a row for each option of a communicator and of Connect. A row says whether its option must be equal on
// all ranks. These tables alone decide which options ranks compare at the rendezvous. If an option differs, every rank
// gets an error with the option's name and both values, before any data moves (rendezvous/membership.h).
//
// If an option has no row in its table, the code does not compile (agreed_options.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "collectives/connect.h"

namespace rondo {

enum class OptionScope : std::uint8_t {
  kEqual,     // equal on all ranks: it decides which bytes go where, or which algorithm is chosen
  kOwn,       // may differ between ranks: it changes only time, memory and the text of errors and logs
  kAssigned,  // Connect fills in the option, or the rendezvous compares it separately
};

template <typename Options>
struct OptionRow {
  std::string_view name;  // name of the field
  OptionScope scope = OptionScope::kOwn;
  // For kEqual: the name of the option in errors, and its value as text. Equal values must give equal texts.
  std::string_view label = {};
  std::string (*value)(const Options& options) = nullptr;
};

// The rows are in the order of the struct's fields (CommunicatorOptions, ConnectOptions).
std::span<const OptionRow<CommunicatorOptions>> CommunicatorOptionTable();
std::span<const OptionRow<ConnectOptions>> ConnectOptionTable();

// The text that a rank with these options publishes as Member::config. It has a line "label=value" for each option that
// must be equal, and for each version of a format that ranks share. REQUIRES: token, tls and communicator.profile are
// set; Connect fills them in if the caller does not.
std::string ConfigOf(const ConnectOptions& options);

}  // namespace rondo
