#include "collectives/agreed_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "collectives/engine/slices.h"
#include "collectives/model/profile.h"
#include "collectives/model/selector.h"
#include "rendezvous/job_token.h"

namespace rondo {
namespace {

// All fields of CommunicatorOptions and of ConnectOptions, in their order. A structured binding must name every field,
// or it does not compile. The static_asserts below check that the tables of options have the same names in the same
// order.
#define RONDO_COMMUNICATOR_OPTIONS                                                                                   \
  rank, peers, id, transport, clock, waiter, make_mover, logger, wait_policy, timeout, progress_thread, frame_bytes, \
      windows_from_bytes, rails, least_rail_bytes, first_rail, max_pending_operations, max_scratch_bytes,            \
      max_cached_plans, eager_message_bytes, eager_credit_bytes, max_announced_messages, max_pending_messages,       \
      checksums, reproducible, fp32_accumulate, compare_results, profile, recorded_operations, record_dir, device,   \
      device_peers, gpu_timeslice_staging_max_bytes, device_window_bytes, job, generation, frame, rebuilder,         \
      kept_goodbyes, report
#define RONDO_CONNECT_OPTIONS                                                                                          \
  rendezvous, store, keeps_store, rank, world_size, token, job, generation, external_store, addresses, tls, interface, \
      ports, path, rdma_port, timeout, environment, logger, tcp_counters, communicator, rebuildable, join
#define RONDO_TEXT_OF(...) RONDO_TEXT(__VA_ARGS__)
#define RONDO_TEXT(...) #__VA_ARGS__

[[maybe_unused]] void NamesEveryField(const CommunicatorOptions& options) {
  [[maybe_unused]] const auto& [RONDO_COMMUNICATOR_OPTIONS] = options;
}
[[maybe_unused]] void NamesEveryField(const ConnectOptions& options) {
  [[maybe_unused]] const auto& [RONDO_CONNECT_OPTIONS] = options;
}

std::string_view NameOf(Path path) {
  switch (path) {
    case Path::kAuto: return "auto";
    case Path::kTcp: return "tcp";
    case Path::kShm: return "shm";
    case Path::kIb: return "ib";
  }
  return "?";
}

// A row for a field that must be equal on all ranks, and is a number or a bool. `words` describes the field in errors.
#define RONDO_EQUAL(field, words)                                            \
  {                                                                          \
#field, OptionScope::kEqual, #field " (" words ")",                      \
        [](const auto& options) { return fmt::format("{}", options.field); } \
  }
#define RONDO_OWN(field) \
  { #field, OptionScope::kOwn }
#define RONDO_ASSIGNED(field) \
  { #field, OptionScope::kAssigned }

constexpr OptionRow<CommunicatorOptions> kCommunicatorOptions[] = {
    RONDO_ASSIGNED(rank),
    RONDO_ASSIGNED(peers),
    RONDO_EQUAL(id, "number of the communicator"),
    RONDO_ASSIGNED(transport),
    RONDO_OWN(clock),
    RONDO_OWN(waiter),
    RONDO_OWN(make_mover),
    RONDO_OWN(logger),
    RONDO_OWN(wait_policy),
    RONDO_OWN(timeout),
    RONDO_OWN(progress_thread),
    RONDO_EQUAL(frame_bytes, "largest payload of a frame"),
    RONDO_EQUAL(windows_from_bytes, "smallest transfer that is written directly into the receiver's memory"),
    RONDO_EQUAL(rails, "connections to each peer that share large collectives"),
    RONDO_EQUAL(least_rail_bytes, "smallest share of a rail"),
    RONDO_EQUAL(first_rail, "number of the first rail"),
    RONDO_OWN(max_pending_operations),
    RONDO_OWN(max_scratch_bytes),
    RONDO_OWN(max_cached_plans),
    RONDO_OWN(eager_message_bytes),
    RONDO_EQUAL(eager_credit_bytes, "credit for eager messages"),
    RONDO_EQUAL(max_announced_messages, "most messages that may be announced"),
    RONDO_OWN(max_pending_messages),
    RONDO_EQUAL(checksums, "CRC-32C of every frame"),
    RONDO_EQUAL(reproducible, "reductions combine operands in rank order"),
    RONDO_EQUAL(fp32_accumulate, "16-bit floats are reduced in float32"),
    RONDO_EQUAL(compare_results, "ranks compare their results"),
    {"profile", OptionScope::kEqual, "profile (by which algorithms are chosen)",
     [](const CommunicatorOptions& options) { return Fingerprint(*options.profile); }},
    RONDO_OWN(recorded_operations),
    RONDO_OWN(record_dir),
    RONDO_OWN(device),
    RONDO_EQUAL(device_peers, "GPUs of a host read each other's memory"),
    RONDO_EQUAL(gpu_timeslice_staging_max_bytes,
                "largest GPU vector that is staged through the host where processes time-slice a GPU"),
    RONDO_EQUAL(device_window_bytes, "piece of GPU memory that is staged through the host at once"),
    RONDO_ASSIGNED(job),
    RONDO_ASSIGNED(generation),
    RONDO_OWN(frame),
    RONDO_ASSIGNED(rebuilder),
    RONDO_ASSIGNED(kept_goodbyes),
    RONDO_ASSIGNED(report),
};

constexpr OptionRow<ConnectOptions> kConnectOptions[] = {
    RONDO_OWN(rendezvous),
    RONDO_OWN(store),
    RONDO_OWN(keeps_store),
    RONDO_ASSIGNED(rank),
    RONDO_ASSIGNED(world_size),
    // Ranks compare a fingerprint of the token, not the token itself. A store in a file (file://) asks for no proof of
    // the token, so until ranks connect to each other, only this comparison shows that their tokens differ.
    {"token", OptionScope::kEqual, "token_fingerprint",
     [](const ConnectOptions& options) -> std::string {
       const auto token = MakeJobToken(options.token);
       return token && *token != nullptr ? (*token)->Fingerprint() : "none";
     }},
    RONDO_ASSIGNED(job),
    RONDO_ASSIGNED(generation),
    RONDO_OWN(external_store),
    RONDO_OWN(addresses),
    {"tls", OptionScope::kEqual, "tls",
     [](const ConnectOptions& options) { return std::string(Name(options.tls->mode)); }},
    RONDO_OWN(interface),
    RONDO_OWN(ports),
    {"path", OptionScope::kEqual, "path (how ranks reach each other)",
     [](const ConnectOptions& options) { return std::string(NameOf(options.path)); }},
    RONDO_OWN(rdma_port),
    RONDO_OWN(timeout),
    RONDO_OWN(environment),
    RONDO_OWN(logger),
    RONDO_OWN(tcp_counters),
    RONDO_ASSIGNED(communicator),  // the fields of `communicator` have a separate table
    {"rebuildable", OptionScope::kEqual, "rebuildable (ranks continue after others were lost)",
     [](const ConnectOptions& options) { return fmt::format("{}", options.rebuildable || options.join); }},
    RONDO_OWN(join),
};

#undef RONDO_EQUAL
#undef RONDO_OWN
#undef RONDO_ASSIGNED

// Whether the rows have the names of the fields in `list`, in the same order, and each row has a value exactly if its
// option must be equal on all ranks.
template <typename Options, std::size_t kRows>
constexpr bool AreNamed(const OptionRow<Options> (&rows)[kRows], std::string_view list) {
  for (const OptionRow<Options>& row : rows) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) != row.name) return false;
    if ((row.scope == OptionScope::kEqual) != (row.value != nullptr)) return false;
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return list.empty();
}
static_assert(AreNamed(kCommunicatorOptions, RONDO_TEXT_OF(RONDO_COMMUNICATOR_OPTIONS)),
              "an option of a communicator has no row that says whether ranks must agree on it");
static_assert(AreNamed(kConnectOptions, RONDO_TEXT_OF(RONDO_CONNECT_OPTIONS)),
              "an option of Connect has no row that says whether ranks must agree on it");

template <typename Options>
void AddLines(std::string& text, std::span<const OptionRow<Options>> rows, const Options& options) {
  for (const OptionRow<Options>& row : rows)
    if (row.scope == OptionScope::kEqual) text += fmt::format("{}={}\n", row.label, row.value(options));
}

}  // namespace

std::span<const OptionRow<CommunicatorOptions>> CommunicatorOptionTable() { return kCommunicatorOptions; }
std::span<const OptionRow<ConnectOptions>> ConnectOptionTable() { return kConnectOptions; }

std::string ConfigOf(const ConnectOptions& options) {
  std::string text = fmt::format("frame_version=1\nchoice_version={}\nleast_slices={}\n", kChoiceVersion, kLeastSlices);
  AddLines(text, ConnectOptionTable(), options);
  AddLines(text, CommunicatorOptionTable(), options.communicator);
  return text;
}

}  // namespace rondo
