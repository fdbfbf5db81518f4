#include "collectives/model/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "collectives/algorithms/table.h"
#include "collectives/model/default_profile.h"
#include "collectives/model/json_tree.h"

namespace rondo {
namespace {

constexpr int kMaxDepth = 16;  // maximum nesting of lists and objects; profiles need less
constexpr int kFormat = 1;
constexpr std::int64_t kMaxRanks = 1 << 16;

struct CostField {
  const char* key;
  double MachineCosts::*value;
};
constexpr std::array kCostFields{
    CostField{"hop_us", &MachineCosts::hop_us},
    CostField{"oversubscribed_latency_us", &MachineCosts::oversubscribed_latency_us},
    CostField{"remote_hop_us", &MachineCosts::remote_hop_us},
    CostField{"message_us", &MachineCosts::message_us},
    CostField{"byte_ns", &MachineCosts::byte_ns},
    CostField{"reduce_byte_ns", &MachineCosts::reduce_byte_ns},
    CostField{"wire_gbit_per_s", &MachineCosts::wire_gbit_per_s},
};

// No machine has values beyond these bounds. Sums and products of values within them are far from overflow in doubles.
constexpr double kMin = 1e-6, kMax = 1e12;
bool IsSane(double value) { return value >= kMin && value <= kMax; }

Result<MachineCosts> CostsFrom(const JsonTree& json) {
  MachineCosts costs;
  for (const CostField& field : kCostFields) {
    RONDO_ASSIGN(const JsonTree* const value, json.At(field.key));
    RONDO_ASSIGN(costs.*field.value, value->Number(fmt::format("costs.{}", field.key)));
    if (costs.*field.value != 0 && !IsSane(costs.*field.value))
      return Fail(ErrorCode::kInvalidArgument, "costs.{} must be 0 or within {}..{}", field.key, kMin, kMax);
  }
  if (costs.wire_gbit_per_s == 0) return Fail(ErrorCode::kInvalidArgument, "costs.wire_gbit_per_s must be positive");
  return costs;
}

// The member `name` of `json`, converted by `as`.
template <typename T>
Result<T> Field(const JsonTree& json, const char* name, Result<T> (JsonTree::*as)(std::string_view) const,
                std::string_view field) {
  RONDO_ASSIGN(const JsonTree* const value, json.At(name));
  return (value->*as)(field);
}

Result<MeasuredWorld> WorldFrom(const JsonTree& json) {
  MeasuredWorld world;
  RONDO_ASSIGN(const std::string collective, Field(json, "collective", &JsonTree::String, "measured.collective"));
  const auto parsed = ParseCollective(collective);
  if (!parsed) return Fail(ErrorCode::kInvalidArgument, "measured.collective: there is no '{}'", collective);
  world.collective = *parsed;
  RONDO_ASSIGN(const std::int64_t ranks, Field(json, "ranks", &JsonTree::WholeNumber, "measured.ranks"));
  RONDO_ASSIGN(world.oversubscribed, Field(json, "oversubscribed", &JsonTree::Boolean, "measured.oversubscribed"));
  const std::string where = fmt::format("measured {} of {} ranks", collective, ranks);
  if (ranks < 1 || ranks > kMaxRanks)
    return Fail(ErrorCode::kInvalidArgument, "{}: ranks must be within 1..{}", where, kMaxRanks);
  world.world_size = static_cast<int>(ranks);
  const JsonTree* const given_hosts = json.Find("hosts");
  RONDO_ASSIGN(const std::int64_t hosts,
               given_hosts != nullptr ? given_hosts->WholeNumber("measured.hosts") : Result<std::int64_t>(1));
  if (hosts < 1 || ranks % hosts != 0)
    return Fail(ErrorCode::kInvalidArgument, "{}: hosts is {}, which does not divide the number of ranks", where,
                hosts);
  world.hosts = static_cast<int>(hosts);
  RONDO_ASSIGN(const auto* const sizes, Field(json, "bytes", &JsonTree::List, where + ": bytes"));
  for (const JsonTree& size : *sizes) {
    RONDO_ASSIGN(const std::uint64_t bytes, size.SizeNumber(where + ": bytes"));
    world.bytes.push_back(bytes);
  }
  if (world.bytes.empty() ||
      std::adjacent_find(world.bytes.begin(), world.bytes.end(), std::greater_equal<>()) != world.bytes.end())
    return Fail(ErrorCode::kInvalidArgument, "{}: 'bytes' must be a list of increasing numbers", where);
  RONDO_ASSIGN(const auto* const measured, Field(json, "us", &JsonTree::Object, where + ": us"));
  for (const auto& [name, values] : *measured) {
    const auto algorithm = ParseAlgorithm(name);
    if (!algorithm || FindAlgorithm(world.collective, *algorithm) == nullptr)
      return Fail(ErrorCode::kInvalidArgument, "{}: this collective has no algorithm '{}'", where, name);
    MeasuredWorld::Times times{*algorithm, {}};
    const std::string field = fmt::format("{}: us.{}", where, name);
    const auto same = [&](const MeasuredWorld::Times& other) { return other.algorithm == *algorithm; };
    if (std::any_of(world.times.begin(), world.times.end(), same))
      return Fail(ErrorCode::kInvalidArgument, "{} appears twice", field);
    RONDO_ASSIGN(const auto* const list, values.List(field));
    for (const JsonTree& value : *list) {
      RONDO_ASSIGN(const double us, value.Number(field));
      times.us.push_back(us);
    }
    const auto wrong = [](double us) { return !IsSane(us); };
    if (times.us.size() != world.bytes.size() || std::any_of(times.us.begin(), times.us.end(), wrong))
      return Fail(ErrorCode::kInvalidArgument, "{} must have one positive time for each entry of 'bytes'", field);
    world.times.push_back(std::move(times));
  }
  return world;
}

std::string TextOf(const MeasuredWorld& world) {
  std::string text = fmt::format(R"({{"collective": "{}", "ranks": {},{} "oversubscribed": {},)"
                                 "\n   \"bytes\": [{}],\n   \"us\": {{",
                                 Name(world.collective), world.world_size,
                                 world.hosts == 1 ? "" : fmt::format(" \"hosts\": {},", world.hosts),
                                 world.oversubscribed, fmt::join(world.bytes, ", "));
  for (std::size_t i = 0; i < world.times.size(); ++i)
    text += fmt::format("{}\n     \"{}\": [{}]", i == 0 ? "" : ",", Name(world.times[i].algorithm),
                        fmt::join(world.times[i].us, ", "));
  return text + "}}";
}

}  // namespace

std::optional<double> MeasuredWorld::Us(Algorithm algorithm, std::uint64_t of_bytes) const {
  const auto found =
      std::find_if(times.begin(), times.end(), [&](const Times& one) { return one.algorithm == algorithm; });
  if (found == times.end()) return std::nullopt;
  const std::vector<double>& us = found->us;
  const auto above = static_cast<std::size_t>(std::lower_bound(bytes.begin(), bytes.end(), of_bytes) - bytes.begin());
  if (above == 0) return us.front();
  if (above == bytes.size())
    return bytes.back() == 0 ? us.back()
                             : us.back() * static_cast<double>(of_bytes) / static_cast<double>(bytes.back());
  const auto logarithm = [](std::uint64_t size) {
    return std::log(static_cast<double>(std::max<std::uint64_t>(size, 1)));
  };
  const double low = logarithm(bytes[above - 1]), high = logarithm(bytes[above]);
  const double along = high > low ? (logarithm(of_bytes) - low) / (high - low) : 1;
  return std::exp(std::log(us[above - 1]) * (1 - along) + std::log(us[above]) * along);
}

const MeasuredWorld* Profile::Find(Collective collective, int world_size, int hosts, bool oversubscribed) const {
  for (const MeasuredWorld& world : measured) {
    if (world.collective == collective && world.world_size == world_size && world.hosts == hosts &&
        world.oversubscribed == oversubscribed)
      return &world;
  }
  return nullptr;
}

std::string Print(const Profile& profile) {
  std::string text = fmt::format("{{\n \"rondo_profile\": {},\n \"name\": {},\n \"provenance\": {{", kFormat,
                                 JsonQuoted(profile.name));
  for (std::size_t i = 0; i < profile.provenance.size(); ++i)
    text += fmt::format("{}\n   {}: {}", i == 0 ? "" : ",", JsonQuoted(profile.provenance[i].first),
                        JsonQuoted(profile.provenance[i].second));
  text += "},\n \"costs\": {";
  for (std::size_t i = 0; i < kCostFields.size(); ++i)
    text +=
        fmt::format("{}\n   \"{}\": {}", i == 0 ? "" : ",", kCostFields[i].key, profile.costs.*kCostFields[i].value);
  text += "},\n \"measured\": [";
  for (std::size_t i = 0; i < profile.measured.size(); ++i)
    text += (i == 0 ? "\n  " : ",\n  ") + TextOf(profile.measured[i]);
  return text + "]\n}\n";
}

namespace {

Result<Profile> ProfileFrom(const JsonTree& json) {
  RONDO_ASSIGN(const std::int64_t format, Field(json, "rondo_profile", &JsonTree::WholeNumber, "rondo_profile"));
  if (format != kFormat)
    return Fail(ErrorCode::kInvalidArgument, "rondo_profile is {}, but this version of Rondo reads {}", format,
                kFormat);
  Profile profile;
  RONDO_ASSIGN(profile.name, Field(json, "name", &JsonTree::String, "name"));
  RONDO_ASSIGN(const auto* const provenance, Field(json, "provenance", &JsonTree::Object, "provenance"));
  for (const auto& [what, value] : *provenance) {
    RONDO_ASSIGN(std::string said, value.String("provenance." + what));
    profile.provenance.emplace_back(what, std::move(said));
  }
  RONDO_ASSIGN(const JsonTree* const costs, json.At("costs"));
  RONDO_ASSIGN(profile.costs, CostsFrom(*costs));
  RONDO_ASSIGN(const auto* const measured, Field(json, "measured", &JsonTree::List, "measured"));
  for (const JsonTree& world : *measured) {
    RONDO_ASSIGN(MeasuredWorld one, WorldFrom(world));
    if (profile.Find(one.collective, one.world_size, one.hosts, one.oversubscribed) != nullptr)
      return Fail(ErrorCode::kInvalidArgument, "measured {} of {} ranks{} appears twice", Name(one.collective),
                  one.world_size, one.hosts == 1 ? "" : fmt::format(" on {} hosts", one.hosts));
    profile.measured.push_back(std::move(one));
  }
  return profile;
}

}  // namespace

Result<Profile> ParseProfile(std::string_view json) {
  return OrOutOfMemory("reading a profile", [&]() -> Result<Profile> {
    const auto parsed = JsonTree::Parse(json, kMaxDepth);
    if (!parsed)
      return Fail(ErrorCode::kInvalidArgument, "this is not a profile that `rondo tune` wrote: {}",
                  parsed.error().message());
    return ProfileFrom(*parsed);
  });
}

Result<std::shared_ptr<const Profile>> ReadProfile(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // a folder can be opened but not read
  if (!file || !text) return Fail(ErrorCode::kInvalidArgument, "profile {} cannot be read", path);
  auto profile = ParseProfile(text.str());
  if (!profile) return Fail(ErrorCode::kInvalidArgument, "profile {}: {}", path, profile.error().message());
  return std::make_shared<const Profile>(std::move(*profile));
}

std::shared_ptr<const Profile> DefaultProfile() {
  // Parsed once per process: parsing takes longer than all other steps of making a communicator.
  static const std::shared_ptr<const Profile> profile = [] {
    auto parsed = ParseProfile(kDefaultProfileJson);
    if (!parsed && parsed.error().code() == ErrorCode::kOutOfMemory)
      throw std::bad_alloc();  // leaves `profile` uninitialized, so that a later call tries again
    RONDO_CHECK(parsed.has_value());
    return std::make_shared<const Profile>(std::move(*parsed));
  }();
  return profile;
}

std::string Fingerprint(const Profile& profile) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : Print(profile)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}, {:016x}", profile.name, hash);
}

}  // namespace rondo
