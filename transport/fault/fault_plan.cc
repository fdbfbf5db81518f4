#include "transport/fault/fault_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/check.h"

namespace rondo::fault {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Reads one fault from left to right. An error says what was expected, and at which position.
class Reader {
 public:
  explicit Reader(std::string_view fault) : whole_(fault), rest_(fault) {}

  bool Skip(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  Status Want(std::string_view token) {
    if (Skip(token)) return {};
    return Wrong(fmt::format("'{}'", token));
  }
  template <typename Number>
  Result<Number> WantNumber(std::string_view what, Number most = std::numeric_limits<Number>::max()) {
    Number number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || rest_.starts_with('-') || number > most) {
      return Wrong(fmt::format("{} (0..{})", what, most));
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }
  // "(0->1)"
  Status WantPair(Fault& fault) {
    RONDO_TRY(Want("("));
    RONDO_ASSIGN(fault.from, WantNumber<Rank>("a rank"));
    RONDO_TRY(Want("->"));
    RONDO_ASSIGN(fault.to, WantNumber<Rank>("a rank"));
    if (fault.from == fault.to) {
      return Fail(ErrorCode::kInvalidArgument, "fault '{}': rank {} is its own peer", whole_, fault.from);
    }
    return Want(")");
  }
  // Reads the lanes of a fault: "all", "lane(0->1)" or "lane(0->1)#1".
  Status WantLanes(Fault& fault) {
    if (Skip("all")) return {};
    if (!Skip("lane")) return Wrong("'all' or 'lane(...)'");
    RONDO_TRY(WantPair(fault));
    if (!Skip("#")) return {};
    RONDO_ASSIGN(fault.lane, WantNumber<std::uint32_t>("the index of a lane"));
    return {};
  }
  Status WantEnd() {
    if (rest_.empty()) return {};
    return Wrong("the end");
  }
  tl::unexpected<Error> Wrong(std::string_view wanted) const {
    return Fail(ErrorCode::kInvalidArgument, "fault '{}': expected {}, got '{}'", whole_, wanted, rest_);
  }
  std::string_view TakeRest() { return std::exchange(rest_, {}); }

 private:
  const std::string_view whole_;
  std::string_view rest_;
};

Result<ErrorCode> ParseCode(Reader& in) {
  const Reader before = in;
  const std::string_view name = in.TakeRest();
  for (int number = 1; number < 256; ++number) {
    const ErrorCode code = ErrorCodeFromNumber(static_cast<std::uint8_t>(number));
    if (Name(code) == name) return code;
  }
  return before.Wrong("the name of an error code, such as 'resource'");
}

Result<Fault> ParseFault(std::string_view text) {
  Reader in(text);
  Fault fault;
  const auto bytes = [&]() -> Status {
    RONDO_TRY(in.Want(":bytes="));
    RONDO_ASSIGN(fault.bytes, in.WantNumber<std::uint64_t>("a number of bytes"));
    return {};
  };
  if (in.Skip("cut@")) {
    fault.kind = FaultKind::kCut;
    RONDO_TRY(in.WantLanes(fault));
    RONDO_TRY(bytes());
  } else if (in.Skip("corrupt@")) {
    fault.kind = FaultKind::kCorrupt;
    RONDO_TRY(in.WantLanes(fault));
    RONDO_TRY(bytes());
    if (in.Skip(",bit=")) {
      RONDO_ASSIGN(fault.bit, in.WantNumber<int>("a bit", 7));
    }
  } else if (in.Skip("slice@")) {
    fault.kind = FaultKind::kSlice;
    RONDO_TRY(in.WantLanes(fault));
    RONDO_TRY(in.Want(":"));
    const Reader before = in;
    RONDO_ASSIGN(fault.bytes, in.WantNumber<std::uint64_t>("a number of bytes"));
    if (fault.bytes == 0) return before.Wrong("at least 1 byte");
  } else if (in.Skip("stall@")) {
    fault.kind = FaultKind::kStall;
    RONDO_TRY(in.WantLanes(fault));
    RONDO_TRY(bytes());
    if (in.Skip(",for_ms=")) {
      RONDO_ASSIGN(fault.for_ms, in.WantNumber<std::uint32_t>("milliseconds"));
    }
  } else if (in.Skip("kill@rank(")) {
    fault.kind = FaultKind::kKill;
    RONDO_ASSIGN(fault.from, in.WantNumber<Rank>("a rank"));
    RONDO_TRY(in.Want(")"));
    RONDO_TRY(bytes());
  } else if (in.Skip("drop_control")) {
    fault.kind = FaultKind::kDropControl;
    RONDO_TRY(in.WantPair(fault));
    if (in.Skip(":after=")) {
      RONDO_ASSIGN(fault.bytes, in.WantNumber<std::uint64_t>("a number of messages"));
    }
  } else if (in.Skip("fail_open")) {
    fault.kind = FaultKind::kFailOpen;
    RONDO_TRY(in.WantPair(fault));
    RONDO_TRY(in.Want(":"));
    RONDO_ASSIGN(fault.code, ParseCode(in));
  } else {
    return in.Wrong("one of cut@, corrupt@, slice@, stall@, kill@, drop_control, fail_open");
  }
  RONDO_TRY(in.WantEnd());
  return fault;
}

std::string LanesOf(const Fault& fault) {
  if (fault.from == kNoRank) return "all";
  return fmt::format("lane({}->{}){}", fault.from, fault.to, fault.lane ? fmt::format("#{}", *fault.lane) : "");
}

}  // namespace

std::string ToString(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kCut: return fmt::format("cut@{}:bytes={}", LanesOf(fault), fault.bytes);
    case FaultKind::kCorrupt:
      return fmt::format("corrupt@{}:bytes={}{}", LanesOf(fault), fault.bytes,
                         fault.bit ? fmt::format(",bit={}", *fault.bit) : "");
    case FaultKind::kSlice: return fmt::format("slice@{}:{}", LanesOf(fault), fault.bytes);
    case FaultKind::kStall:
      return fmt::format("stall@{}:bytes={}{}", LanesOf(fault), fault.bytes,
                         fault.for_ms ? fmt::format(",for_ms={}", *fault.for_ms) : "");
    case FaultKind::kKill: return fmt::format("kill@rank({}):bytes={}", fault.from, fault.bytes);
    case FaultKind::kDropControl:
      return fmt::format("drop_control({}->{}){}", fault.from, fault.to,
                         fault.bytes != 0 ? fmt::format(":after={}", fault.bytes) : "");
    case FaultKind::kFailOpen: return fmt::format("fail_open({}->{}):{}", fault.from, fault.to, Name(fault.code));
  }
  return "";
}

std::string ToString(const FaultPlan& plan) {
  std::string text;
  for (const Fault& fault : plan.faults) text += (text.empty() ? "" : "; ") + ToString(fault);
  return text;
}

Result<FaultPlan> ParseFaultPlan(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view fault = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (fault.empty()) continue;
    RONDO_ASSIGN(Fault parsed, ParseFault(fault));
    plan.faults.push_back(parsed);
  }
  return plan;
}

FaultPlan RandomFaultPlan(const RandomPlanOptions& options, Random& random) {
  RONDO_CHECK(options.world_size >= 2 && options.max_faults >= 1, "a plan for {} ranks with at most {} faults",
              options.world_size, options.max_faults);
  const auto world = static_cast<std::uint64_t>(options.world_size);
  FaultPlan plan;
  for (std::uint64_t left = random.Between(1, static_cast<std::uint64_t>(options.max_faults)); left > 0; --left) {
    Fault fault;
    // Half of the offsets are small and hit headers. The other half are mostly large and hit the middle of transfers.
    fault.bytes =
        random.Below(random.Chance(0.5) ? std::min<std::uint64_t>(256, options.max_bytes + 1) : options.max_bytes + 1);
    if (random.Chance(0.8)) {
      fault.from = static_cast<Rank>(random.Below(world));
      fault.to = static_cast<Rank>((static_cast<std::uint64_t>(fault.from) + random.Between(1, world - 1)) % world);
    }
    const std::uint64_t kind = random.Below(options.harmless ? 2 : options.kills ? 7 : 6);
    switch (kind) {
      case 0:
        fault.kind = FaultKind::kSlice;
        fault.bytes = random.Between(1, random.Chance(0.5) ? 8 : 1000);
        break;
      case 1:
        fault.kind = FaultKind::kStall;
        fault.for_ms = static_cast<std::uint32_t>(random.Between(1, 20));
        break;
      case 2: fault.kind = FaultKind::kCut; break;
      case 3:
        fault.kind = FaultKind::kCorrupt;
        if (random.Chance(0.5)) fault.bit = static_cast<int>(random.Below(8));
        break;
      case 4:
      case 5:
        fault.kind = kind == 4 ? FaultKind::kDropControl : FaultKind::kFailOpen;
        fault.bytes = kind == 4 ? random.Below(4) : 0;
        if (fault.from != kNoRank) break;
        fault.from = 0;
        fault.to = 1;
        break;
      default:
        fault.kind = FaultKind::kKill;
        fault.from = static_cast<Rank>(random.Below(world));
        fault.to = kNoRank;
        break;
    }
    plan.faults.push_back(fault);
  }
  return plan;
}

}  // namespace rondo::fault
