// Options that must be equal on all ranks: the tests try each row of the tables in collectives/agreed_options.h.
#include "collectives/agreed_options.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/model/profile.h"
#include "tests/communicator/own_device.h"
#include "tests/support/connected_ranks.h"
#include "tests/support/own_places.h"
#include "tests/support/threads.h"

namespace rondo {
namespace agreed_options_test {

using Change = std::function<void(ConnectOptions&)>;

// For each option that must be equal on all ranks, a function that changes its value. A row of the tables without an
// entry here fails the tests below.
const std::map<std::string_view, Change>& OtherValues() {
  static const std::map<std::string_view, Change> changes{
      {"token", [](ConnectOptions& o) { o.token = "another"; }},
      {"tls",
       [](ConnectOptions& o) { o.tls = TlsOptions{.mode = TlsMode::kPsk, .psk = std::string(kTlsPskBytes, 'k')}; }},
      {"path", [](ConnectOptions& o) { o.path = o.path == Path::kTcp ? Path::kAuto : Path::kTcp; }},
      {"rebuildable", [](ConnectOptions& o) { o.rebuildable = true; }},
      {"id", [](ConnectOptions& o) { o.communicator.id = 7; }},
      {"frame_bytes", [](ConnectOptions& o) { o.communicator.frame_bytes = 128; }},
      {"windows_from_bytes", [](ConnectOptions& o) { o.communicator.windows_from_bytes = 128; }},
      {"rails", [](ConnectOptions& o) { o.communicator.rails = 2; }},
      {"least_rail_bytes", [](ConnectOptions& o) { o.communicator.least_rail_bytes = 128; }},
      {"first_rail", [](ConnectOptions& o) { o.communicator.first_rail = 1; }},
      {"eager_credit_bytes", [](ConnectOptions& o) { o.communicator.eager_credit_bytes = 128; }},
      {"max_announced_messages", [](ConnectOptions& o) { o.communicator.max_announced_messages = 128; }},
      {"checksums", [](ConnectOptions& o) { o.communicator.checksums = true; }},
      {"reproducible", [](ConnectOptions& o) { o.communicator.reproducible = true; }},
      {"fp32_accumulate", [](ConnectOptions& o) { o.communicator.fp32_accumulate = true; }},
      {"compare_results", [](ConnectOptions& o) { o.communicator.compare_results = true; }},
      {"profile",
       [](ConnectOptions& o) {
         auto profile = std::make_shared<Profile>(*DefaultProfile());
         profile->name = "another";
         o.communicator.profile = std::move(profile);
       }},
      {"device_peers", [](ConnectOptions& o) { o.communicator.device_peers = false; }},
      {"gpu_timeslice_staging_max_bytes",
       [](ConnectOptions& o) { o.communicator.gpu_timeslice_staging_max_bytes = 128; }},
      {"device_window_bytes", [](ConnectOptions& o) { o.communicator.device_window_bytes = 128; }},
  };
  return changes;
}

// Connects two ranks over a file store; `change` is applied to the options of rank 1.
std::vector<Connected> ConnectTwo(const ConnectOptions& common, const Change& change) {
  const TemporaryDirectory directory;
  std::vector<ConnectOptions> each(2, common);
  for (ConnectOptions& options : each) options.rendezvous = directory.StoreUrl();
  change(each[1]);
  return ConnectEach(std::move(each));
}

ConnectOptions Over(Path path) {
  ConnectOptions options;
  options.addresses = {"127.0.0.1"};
  options.path = path;
  return options;
}

// Checks that both ranks' errors contain the option's name and both values, as ConfigOf describes them.
void CheckReportedByBoth(const std::vector<Connected>& ranks, std::string_view label, const std::string& at_0,
                         const std::string& at_1) {
  CHECK(at_0 != at_1);
  for (const Connected& rank : ranks) {
    REQUIRE(!rank);
    const std::string text = rank.error().ToString();
    CAPTURE(text);
    CHECK(text.find("version_mismatch: ") == 0);
    for (const std::string& part : {std::string(label) + " is '", "'" + at_0 + "'", "'" + at_1 + "'",
                                    std::string("rank 0, host "), std::string("rank 1, host ")})
      CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  }
}

// Fills in the options that Connect fills in.
ConnectOptions Completed(ConnectOptions options) {
  if (!options.tls) options.tls = TlsOptions{};
  if (options.communicator.profile == nullptr) options.communicator.profile = DefaultProfile();
  return options;
}

template <typename Row, typename OptionsOf>
void CheckRow(const Row& row, const ConnectOptions& common, const OptionsOf& part) {
  if (row.scope != OptionScope::kEqual) return;
  CAPTURE(std::string(row.name));
  const auto change = OtherValues().find(row.name);
  REQUIRE(change != OtherValues().end());
  ConnectOptions changed = common;
  change->second(changed);
  const std::string at_0 = row.value(part(Completed(common)));
  const std::string at_1 = row.value(part(Completed(changed)));
  CheckReportedByBoth(ConnectTwo(common, change->second), row.label, at_0, at_1);
}

void CheckEveryRow(const ConnectOptions& common) {
  for (const auto& row : CommunicatorOptionTable())
    CheckRow(
        row, common, [](const ConnectOptions& options) -> const auto& { return options.communicator; });
  for (const auto& row : ConnectOptionTable())
    CheckRow(
        row, common, [](const ConnectOptions& options) -> const auto& { return options; });
}

TEST_CASE("ranks that differ in any option that must be alike get its name and both values, over TCP") {
  CheckEveryRow(Over(Path::kTcp));
}

TEST_CASE("the same where they share memory") { CheckEveryRow(Over(Path::kShm)); }

TEST_CASE("the same with GPUs, whose options are compared whether or not a rank has one") {
  OwnDevice own(0);
  ConnectOptions options = Over(Path::kShm);
  options.communicator.device = own.device;
  for (const auto& row : CommunicatorOptionTable())
    if (row.name.starts_with("device_"))
      CheckRow(
          row, options, [](const ConnectOptions& o) -> const auto& { return o.communicator; });
}

TEST_CASE("ranks may differ in what is each rank's own") {
  auto ranks = ConnectTwo(Over(Path::kTcp), [](ConnectOptions& options) {
    options.timeout = std::chrono::seconds(50);
    CommunicatorOptions& own = options.communicator;
    own.progress_thread = false;
    own.max_pending_operations = 7;
    own.max_scratch_bytes = 1 << 20;
    own.max_cached_plans = 3;
    own.eager_message_bytes = 100;
    own.max_pending_messages = 5;
    own.recorded_operations = 0;
    own.device = OwnDevice(1).device;
  });
  for (const Connected& rank : ranks) REQUIRE_MESSAGE(rank, rank.error().ToString());
  OnThreads(ranks.size(), [&](std::size_t rank) {
    Communicator& communicator = **ranks[rank];
    std::int64_t one = 1;
    CHECK(communicator.AllReduce(&one, &one, 1, DataType::kInt64, ReduceOp::kSum));
    CHECK(one == 2);
    CHECK(communicator.Close());
  });
}

TEST_CASE("every option is in a table, and no other value is tried of one that is not") {
  std::size_t equal = 0;
  for (const auto& row : CommunicatorOptionTable()) equal += row.scope == OptionScope::kEqual;
  for (const auto& row : ConnectOptionTable()) equal += row.scope == OptionScope::kEqual;
  CHECK(equal == OtherValues().size());
}

}  // namespace agreed_options_test
}  // namespace rondo
