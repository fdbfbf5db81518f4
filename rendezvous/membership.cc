#include "rendezvous/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/byte_codec.h"
#include "rendezvous/prefix_store.h"

// The keys of one rendezvous, all under "rondo/JOB/GENERATION/":
//
//   founding     written by the first process: world size, how ranks are given, config. All other processes
//                compare these values with their own.
//   arrivals     counts the processes, if ranks follow the order of arrival
//   member/R     the claim on rank R; a second process with that rank finds it taken
//   outcome      written once and never changed. When all claims exist, rank 0 writes the table of all members.
//                A process that finds a failure first writes the failure instead. All processes wait for this
//                key, so all processes get the same result.
//   table/I      further parts of the table of members, if it does not fit into one value
//
// After a failure, the next attempt must use a new generation. A claim belongs to one instance of a process. So a
// process that died during the rendezvous and was started again counts as a duplicate, because other processes may
// already have its old address.
//
// A process with a given rank makes three round trips (founding, claim, outcome), for any world size. Rank 0 makes two
// more.

namespace rondo {
namespace {

constexpr char kFounding[] = "founding";
constexpr char kArrivals[] = "arrivals";
constexpr char kOutcome[] = "outcome";

constexpr std::size_t kMaxHostBytes = 1024;
constexpr std::size_t kMaxConfigBytes = 64 << 10;
constexpr std::size_t kMaxMemberAddressBytes = 4096;
constexpr std::size_t kMaxMemberCpusBytes = 4096;
constexpr std::size_t kMaxJobBytes = 256;
constexpr std::size_t kMaxFailureBytes = 64 << 10;
constexpr std::size_t kPartBytes = 512 << 10;
constexpr std::size_t kMaxMemberBytes = 3 * kMaxHostBytes + kMaxMemberAddressBytes + kMaxMemberCpusBytes + 64;
constexpr int kClaimsAtOnce = 4096;
constexpr std::size_t kListedRanks = 32;

enum class OutcomeKind : std::uint8_t { kTable = 1, kFailure = 2 };

std::string ClaimKey(Rank rank) { return fmt::format("member/{}", rank); }
// The maximum number of parts of a table of members. The number of parts is read from the store, so this limit protects
// against a wrong value there.
std::uint64_t MostParts(int world_size) {
  return DivCeil(static_cast<std::uint64_t>(world_size) * kMaxMemberBytes, kPartBytes);
}
std::string PartKey(std::uint32_t part) { return fmt::format("table/{}", part); }

// "host a, pid 17"
std::string Who(const Member& member) { return fmt::format("host {}, pid {}", member.host, member.pid); }
// "rank 3, host a, pid 17"; without the rank if it is not known.
std::string RankAndWho(Rank rank, const Member& member) {
  return rank == kNoRank ? Who(member) : fmt::format("rank {}, {}", rank, Who(member));
}

// ---- records ----

void WriteMember(ByteWriter& out, const Member& member) {
  out.Text(member.host).Text(member.host_id).Number(member.pid).Text(member.instance).Text(member.address);
  out.Text(member.cpus);
}

Member ReadMember(ByteReader& in) {
  Member member;
  member.host = in.Text(kMaxHostBytes);
  member.host_id = in.Text(kMaxHostBytes);
  member.pid = in.Number<std::uint64_t>();
  member.instance = in.Text(kMaxHostBytes);
  member.address = in.Text(kMaxMemberAddressBytes);
  member.cpus = in.Text(kMaxMemberCpusBytes);
  return member;
}

Error Unreadable(const Store& store, std::string_view what) {
  return {ErrorCode::kProtocol, fmt::format("the {} of the rendezvous in store {} cannot be read; a process with "
                                            "another version of Rondo may have written it",
                                            what, store.Describe())};
}

// The record `founding`: the values on which all processes must agree, and the process that wrote them (the founder).
// The founder's rank is known only if ranks are given.
struct Founding {
  int world_size = 0;
  bool ranks_given = false;
  std::string config;
  Member founder;
};

std::string Encode(const Founding& founding) {
  ByteWriter out;
  out.Number(static_cast<std::uint32_t>(founding.world_size)).Number(static_cast<std::uint8_t>(founding.ranks_given));
  out.Text(founding.config);
  WriteMember(out, founding.founder);
  out.Number(static_cast<std::uint32_t>(founding.founder.rank));
  return out.Take();
}

std::optional<Founding> DecodeFounding(std::string_view bytes) {
  ByteReader in(bytes);
  Founding founding;
  founding.world_size = static_cast<int>(in.Number<std::uint32_t>());
  founding.ranks_given = in.Number<std::uint8_t>() != 0;
  founding.config = in.Text(kMaxConfigBytes);
  founding.founder = ReadMember(in);
  founding.founder.rank = static_cast<Rank>(in.Number<std::uint32_t>());
  return in.AtEnd() ? std::optional(founding) : std::nullopt;
}

std::string EncodeClaim(const Member& member) {
  ByteWriter out;
  WriteMember(out, member);
  return out.Take();
}

std::optional<Member> DecodeMember(std::string_view bytes) {
  ByteReader in(bytes);
  Member member = ReadMember(in);
  return in.AtEnd() ? std::optional(member) : std::nullopt;
}

std::string EncodeFailure(const Error& error) {
  ByteWriter out;
  out.Number(static_cast<std::uint8_t>(OutcomeKind::kFailure)).Number(static_cast<std::uint8_t>(error.code()));
  out.Number(static_cast<std::uint32_t>(error.culprit()));
  out.Text(std::string_view(error.message()).substr(0, kMaxFailureBytes)).Text(error.details().host);
  return out.Take();
}

// ---- messages ----

// Lists ranks as "2, 5..7", at most kListedRanks ranges.
std::string Ranges(const std::vector<Rank>& ranks) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (++ranges > kListedRanks) return text + fmt::format(" and {} more", ranks.size() - i);
    if (!text.empty()) text += ", ";
    text += end - i == 1 ? fmt::format("{}", ranks[i]) : fmt::format("{}..{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return text;
}

std::map<std::string, std::string, std::less<>> Fields(std::string_view config) {
  std::map<std::string, std::string, std::less<>> fields;
  while (!config.empty()) {
    const std::string_view line = config.substr(0, config.find('\n'));
    config.remove_prefix(std::min(config.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    fields[std::string(line.substr(0, equals))] = equals == std::string_view::npos ? "" : line.substr(equals + 1);
  }
  return fields;
}

}  // namespace

std::string ConfigDifferences(std::string_view here, std::string_view there) {
  const auto ours = Fields(here);
  const auto theirs = Fields(there);
  std::string text;
  const auto note = [&](const std::string& field, const std::string& our, const std::string& their) {
    text += fmt::format("{}{} is {} here and {} there", text.empty() ? "" : "; ", field, our, their);
  };
  for (const auto& [field, our] : ours) {
    const auto their = theirs.find(field);
    if (their == theirs.end()) {
      note(field, fmt::format("'{}'", our), "not set");
    } else if (their->second != our) {
      note(field, fmt::format("'{}'", our), fmt::format("'{}'", their->second));
    }
  }
  for (const auto& [field, their] : theirs) {
    if (ours.count(field) == 0) note(field, "not set", fmt::format("'{}'", their));
  }
  return text;
}

namespace {

Status CheckOptions(const JoinOptions& options) {
  if (options.world_size < 1 || options.world_size > kMaxWorldSize) {
    return Fail(ErrorCode::kInvalidArgument, "world size {} is outside 1..{}", options.world_size, kMaxWorldSize);
  }
  if (options.rank && (*options.rank < 0 || *options.rank >= options.world_size)) {
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", *options.rank, options.world_size - 1);
  }
  const auto check = [](std::string_view field, std::string_view value, std::size_t limit) -> Status {
    if (value.size() <= limit) return {};
    return Fail(ErrorCode::kInvalidArgument, "the {} has {} bytes; at most {} are allowed", field, value.size(), limit);
  };
  RONDO_TRY(check("job id", options.job, kMaxJobBytes));
  RONDO_TRY(check("host name", options.self.host, kMaxHostBytes));
  RONDO_TRY(check("host id", options.self.host_id, kMaxHostBytes));
  RONDO_TRY(check("instance id", options.self.instance, kMaxHostBytes));
  RONDO_TRY(check("transport address", options.self.address, kMaxMemberAddressBytes));
  RONDO_TRY(check("list of CPUs", options.self.cpus, kMaxMemberCpusBytes));
  RONDO_TRY(check("config", options.self.config, kMaxConfigBytes));
  return {};
}

// ---- the rendezvous ----

class RendezvousAttempt {
 public:
  RendezvousAttempt(Store& store, const Clock& clock, const JoinOptions& options)
      : store_(store, fmt::format("rondo/{}/{}/", options.job, options.generation)),
        options_(options),
        self_(options.self) {
    // Waits end before the deadline. The remaining time is used to find the missing ranks and to publish the failure.
    // It is long enough for two round trips to the store on a machine whose cores are all busy.
    const TimePoint now = clock.Now();
    const Duration budget = std::max(options.deadline - now, Duration::zero());
    wait_until_ = options.deadline - std::min<Duration>(budget / 4, std::chrono::milliseconds(500));
    seconds_ = std::chrono::duration<double>(budget).count();
  }

  Error Abort(const Error& why) {
    ErrorDetails details = why.details();
    details.message = fmt::format("{} cannot take part: {}", Self(), why.message());
    details.culprit = self_.rank = options_.rank.value_or(kNoRank);
    details.host = self_.host;
    const Error error(std::move(details));
    // The result is ignored, because if the store does not accept the failure, this process can do nothing more.
    (void)store_.CompareSet(kOutcome, std::nullopt, EncodeFailure(error), options_.deadline);
    if (options_.rank)  // claims the rank, so that other processes that cannot take part do not wait for it
      (void)store_.CompareSet(ClaimKey(self_.rank), std::nullopt, EncodeClaim(self_), options_.deadline);
    std::vector<std::string> others;
    for (Rank rank = 0; rank < options_.world_size; ++rank)
      if (rank != self_.rank) others.push_back(ClaimKey(rank));
    if (!others.empty()) (void)store_.Wait(others, {.deadline = options_.deadline});
    return error;
  }

  Result<Membership> Join() {
    RONDO_ASSIGN(const Founding founding, Found());
    RONDO_TRY(Agree(founding));
    RONDO_TRY(TakeRank());
    RONDO_TRY(Claim());
    if (self_.rank == 0) RONDO_TRY(Gather());
    return AwaitOutcome();
  }

 private:
  // Writes the founding record, or reads the one that an earlier process wrote.
  Result<Founding> Found() {
    Founding ours{.world_size = options_.world_size,
                  .ranks_given = options_.rank.has_value(),
                  .config = self_.config,
                  .founder = self_};
    ours.founder.rank = options_.rank.value_or(kNoRank);
    RONDO_ASSIGN(const CompareSetResult result,
                 store_.CompareSet(kFounding, std::nullopt, Encode(ours), options_.deadline));
    if (result.swapped) return ours;
    const auto theirs = DecodeFounding(result.current);
    if (!theirs) return tl::unexpected(Unreadable(store_, "founding record"));
    return *theirs;
  }

  Status Agree(const Founding& founding) {
    const Member& first = founding.founder;
    if (founding.world_size != options_.world_size) {
      return FailRendezvous(first, ErrorCode::kWorldSizeMismatch,
                            fmt::format("{} has world size {}, but {}, which came first, has {}", Self(),
                                        options_.world_size, RankAndWho(first.rank, first), founding.world_size));
    }
    if (founding.ranks_given != options_.rank.has_value()) {
      const auto how = [](bool given) { return given ? "was given its rank" : "gets its rank by order of arrival"; };
      return FailRendezvous(
          first, ErrorCode::kVersionMismatch,
          fmt::format("{} {}, but {}, which came first, {}; all ranks must do the same", Self(),
                      how(options_.rank.has_value()), RankAndWho(first.rank, first), how(founding.ranks_given)));
    }
    if (const std::string differences = ConfigDifferences(self_.config, founding.config); !differences.empty()) {
      return FailRendezvous(first, ErrorCode::kVersionMismatch,
                            fmt::format("configurations differ between {} (here) and {} (there): {}", Self(),
                                        RankAndWho(first.rank, first), differences));
    }
    return {};
  }

  Status TakeRank() {
    if (options_.rank) {
      self_.rank = *options_.rank;
      return {};
    }
    RONDO_ASSIGN(const std::int64_t arrivals, store_.Add(kArrivals, 1, options_.deadline));
    if (arrivals < 1) return tl::unexpected(Unreadable(store_, "count of arrivals"));
    if (arrivals > options_.world_size) {
      return FailRendezvous({}, ErrorCode::kWorldSizeMismatch,
                            fmt::format("{} arrived as number {}, but the world has only {} ranks", Self(), arrivals,
                                        options_.world_size));
    }
    self_.rank = static_cast<Rank>(arrivals - 1);
    return {};
  }

  Status Claim() {
    RONDO_ASSIGN(const CompareSetResult result,
                 store_.CompareSet(ClaimKey(self_.rank), std::nullopt, EncodeClaim(self_), options_.deadline));
    if (result.swapped) return {};
    const auto holder = DecodeMember(result.current);
    if (!holder) return tl::unexpected(Unreadable(store_, ClaimKey(self_.rank)));
    // The claim is this process's own, from an earlier call that was interrupted.
    if (holder->instance == self_.instance) return {};
    return FailRendezvous(
        *holder, ErrorCode::kDuplicateRank,
        fmt::format("two processes claim rank {}: {} came first, then {}", self_.rank, Who(*holder), Who(self_)));
  }

  // On rank 0: waits for all claims, then publishes the table of members. If the rendezvous fails during the wait,
  // AwaitOutcome gives the error.
  Status Gather() {
    std::vector<Member> members;
    members.reserve(static_cast<std::size_t>(options_.world_size));
    while (static_cast<int>(members.size()) < options_.world_size) {
      const int first = static_cast<int>(members.size());
      const int last = std::min(options_.world_size, first + kClaimsAtOnce);
      std::vector<std::string> keys;
      for (Rank rank = first; rank < last; ++rank) keys.push_back(ClaimKey(rank));
      auto claims = store_.Wait(keys, {.deadline = wait_until_, .cancel_key = kOutcome});
      if (!claims && claims.error().code() == ErrorCode::kAborted) return {};
      if (!claims && claims.error().code() == ErrorCode::kStoreTimeout) return TimedOut(claims.error());
      if (!claims) return tl::unexpected(claims.error());
      for (const std::string& bytes : *claims) {
        auto member = DecodeMember(bytes);
        if (!member) return tl::unexpected(Unreadable(store_, ClaimKey(static_cast<Rank>(members.size()))));
        members.push_back(std::move(*member));
      }
    }
    if (options_.all_are_here) options_.all_are_here();
    return Publish(members);
  }

  Status Publish(const std::vector<Member>& members) {
    ByteWriter table;
    for (const Member& member : members) WriteMember(table, member);
    const std::string_view bytes = table.bytes();
    const auto parts = static_cast<std::uint32_t>(DivCeil(bytes.size(), kPartBytes));
    // The later parts are written first, so that a process that sees the outcome finds all parts.
    for (std::uint32_t part = 1; part < parts; ++part) {
      RONDO_TRY(store_.Set(PartKey(part), bytes.substr(part * kPartBytes, kPartBytes), options_.deadline));
    }
    ByteWriter outcome;
    outcome.Number(static_cast<std::uint8_t>(OutcomeKind::kTable)).Number(parts).Raw(bytes.substr(0, kPartBytes));
    RONDO_TRY(store_.CompareSet(kOutcome, std::nullopt, outcome.bytes(), options_.deadline));
    return {};
  }

  Result<Membership> AwaitOutcome() {
    auto outcome = store_.WaitFor(kOutcome, wait_until_);
    if (!outcome && outcome.error().code() == ErrorCode::kStoreTimeout) {
      const Status timed_out = TimedOut(outcome.error());
      if (!timed_out) return tl::unexpected(timed_out.error());
      // A short wait, because another process has just written the outcome.
      outcome = store_.WaitFor(kOutcome, options_.deadline);
    }
    if (!outcome) return tl::unexpected(outcome.error());
    ByteReader in(*outcome);
    if (in.Number<std::uint8_t>() != static_cast<std::uint8_t>(OutcomeKind::kTable)) {
      return tl::unexpected(FailureIn(*outcome));
    }
    const auto parts = in.Number<std::uint32_t>();
    if (parts > MostParts(options_.world_size)) return tl::unexpected(Unreadable(store_, "outcome"));
    std::string table(in.Raw(in.remaining()));
    for (std::uint32_t part = 1; part < parts; ++part) {
      RONDO_ASSIGN(const std::string bytes, store_.WaitFor(PartKey(part), options_.deadline));
      table += bytes;
    }
    return Read(table);
  }

  Result<Membership> Read(std::string_view table) {
    Membership membership{.rank = self_.rank, .job = options_.job, .generation = options_.generation, .members = {}};
    ByteReader in(table);
    for (Rank rank = 0; rank < options_.world_size; ++rank) {
      Member member = ReadMember(in);
      member.rank = rank;
      member.config = self_.config;  // config is the same on all members
      membership.members.push_back(std::move(member));
    }
    if (!in.AtEnd()) return tl::unexpected(Unreadable(store_, "list of members"));
    const Member& holder = membership.members[static_cast<std::size_t>(self_.rank)];
    if (holder.instance != self_.instance) return tl::unexpected(Over(holder));
    return membership;
  }

  // ---- failing ----

  // Publishes `error` as the outcome, unless there is one already. Gives the error that this process must return.
  tl::unexpected<Error> FailRendezvous(const Member& other, ErrorCode code, std::string message) {
    ErrorDetails details;
    details.code = code;
    details.message = std::move(message);
    details.host = other.host;
    details.culprit = code == ErrorCode::kDuplicateRank ? self_.rank : kNoRank;
    Error error(std::move(details));
    const auto result = store_.CompareSet(kOutcome, std::nullopt, EncodeFailure(error), options_.deadline);
    if (!result || result->swapped) return tl::unexpected(std::move(error));
    if (IsTable(result->current)) return tl::unexpected(Over(other));
    return tl::unexpected(error.With([&](ErrorDetails& changed) {
      changed.first_cause = fmt::format("the rendezvous of job '{}' generation {} had already failed: {}", options_.job,
                                        options_.generation, FailureIn(result->current).message());
    }));
  }

  // The error if a rendezvous of this job and generation has succeeded without this process.
  Error Over(const Member& other) {
    return {
        ErrorCode::kStale,
        fmt::format(
            "store {} holds a complete rendezvous of job '{}' generation {}, which does not include {}{}: it is left "
            "over from an earlier run, or the job has one process too many; give each run its own job id or generation",
            store_.Describe(), options_.job, options_.generation, Self(),
            other.host.empty() ? "" : fmt::format(" (it includes {})", Who(other)))};
  }

  // Called when the wait has timed out: finds the missing ranks and publishes the failure. Success means that another
  // process has already written the outcome.
  Status TimedOut(const Error& store_error) {
    std::vector<std::string> keys;
    for (Rank rank = 0; rank < options_.world_size; ++rank) keys.push_back(ClaimKey(rank));
    const auto claims = store_.GetMany(keys, options_.deadline);
    if (!claims) return tl::unexpected(store_error);
    std::vector<Rank> absent;
    std::string present;
    std::size_t listed = 0;
    for (Rank rank = 0; rank < options_.world_size; ++rank) {
      const auto& claim = (*claims)[static_cast<std::size_t>(rank)];
      if (!claim) {
        absent.push_back(rank);
      } else if (++listed <= kListedRanks) {
        const auto member = DecodeMember(*claim);
        present += fmt::format("{}{} ({})", present.empty() ? "" : ", ", rank, member ? Who(*member) : "unreadable");
      }
    }
    if (listed > kListedRanks) present += fmt::format(" and {} more", listed - kListedRanks);
    const std::string missing = absent.empty() ? "no rank is absent, but rank 0 did not publish the list of members"
                                               : fmt::format("absent: {}", Ranges(absent));
    ErrorDetails details;
    details.code = ErrorCode::kRendezvousTimeout;
    details.culprit = absent.empty() ? 0 : absent.front();
    details.message = fmt::format(
        "{} of {} ranks came to the rendezvous of job '{}' generation {} in store {} within {:.1f} s; "
        "{}; present: {}",
        options_.world_size - static_cast<int>(absent.size()), options_.world_size, options_.job, options_.generation,
        store_.Describe(), seconds_, missing, present.empty() ? "none" : present);
    if (listed <= 1 && !options_.if_alone.empty()) details.message += ". " + options_.if_alone;
    const Error error = Error(std::move(details));
    const auto result = store_.CompareSet(kOutcome, std::nullopt, EncodeFailure(error), options_.deadline);
    if (result && !result->swapped) return {};
    return tl::unexpected(error);
  }

  static bool IsTable(std::string_view outcome) {
    return ByteReader(outcome).Number<std::uint8_t>() == static_cast<std::uint8_t>(OutcomeKind::kTable);
  }

  Error FailureIn(std::string_view outcome) {
    ByteReader in(outcome);
    if (in.Number<std::uint8_t>() != static_cast<std::uint8_t>(OutcomeKind::kFailure))
      return Unreadable(store_, "outcome");
    ErrorDetails details;
    details.code = ErrorCodeFromNumber(in.Number<std::uint8_t>());
    details.culprit = static_cast<Rank>(in.Number<std::uint32_t>());
    details.message = in.Text(kMaxFailureBytes);
    details.host = in.Text(kMaxHostBytes);
    details.rank = self_.rank;
    if (!in.AtEnd() || details.message.empty()) return Unreadable(store_, "outcome");
    return Error(std::move(details));
  }

  std::string Self() const { return RankAndWho(options_.rank.value_or(kNoRank), self_); }

  PrefixStore store_;
  const JoinOptions& options_;
  Member self_;
  TimePoint wait_until_;
  double seconds_ = 0;
};

}  // namespace

Error AbortRendezvous(Store& store, const Clock& clock, const JoinOptions& options, const Error& why) {
  return RendezvousAttempt(store, clock, options).Abort(why);
}

Result<Membership> Join(Store& store, const Clock& clock, const JoinOptions& options) {
  RONDO_TRY(CheckOptions(options));
  auto membership = RendezvousAttempt(store, clock, options).Join();
  if (membership) {
    Log(options.logger, LogLevel::kInfo,
        "this process is rank {} of {} in job '{}' generation {}, after a rendezvous in store {}", membership->rank,
        options.world_size, options.job, options.generation, store.Describe());
  }
  return membership;
}

}  // namespace rondo
