#include "tools/perf_bench.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xA5};
constexpr std::byte kPoison{0xEE};  // of an output before the operation that must write it
constexpr int kMaxIterations = 4000;
constexpr std::uint64_t kLargeBytes = 256 << 20;

double ToMicroseconds(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

bool IsGuard(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kGuard; });
}

// Without a wish of the user: 200 ms for each of a few sizes, less when many are to be measured.
Duration TimePerSize(std::size_t measurements) {
  const double milliseconds =
      std::clamp(30'000.0 / static_cast<double>(std::max<std::size_t>(measurements, 1)), 5.0, 200.0);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

// Memory of the largest size, a guard in front, a guard behind whatever size is in use.
class PerfBench::Arena {
 public:
  static Result<std::unique_ptr<Arena>> Make(std::uint64_t bytes) {
    const std::uint64_t all = bytes + 4096 + kGuardBytes;  // the data starts on a page
    void* memory = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return Fail(ErrorCode::kOutOfMemory, "no memory for a buffer of {} bytes: {}", bytes, std::strerror(errno));
    }
    ::madvise(memory, all, MADV_HUGEPAGE);
    return std::unique_ptr<Arena>(new Arena(static_cast<std::byte*>(memory), all));
  }
  ~Arena() { ::munmap(memory_, all_bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The first `bytes`, guarded from now on.
  MutableBytes Guarded(std::uint64_t bytes) {
    bytes_ = bytes;
    std::fill_n(data() - kGuardBytes, kGuardBytes, kGuard);
    std::fill_n(data() + bytes, kGuardBytes, kGuard);
    return {data(), bytes};
  }
  MutableBytes bytes() { return {data(), bytes_}; }
  bool GuardsIntact() {
    return IsGuard({data() - kGuardBytes, kGuardBytes}) && IsGuard({data() + bytes_, kGuardBytes});
  }

 private:
  Arena(std::byte* memory, std::uint64_t all_bytes) : memory_(memory), all_bytes_(all_bytes) {}
  std::byte* data() { return memory_ + 4096; }

  std::byte* memory_;
  std::uint64_t all_bytes_;
  std::uint64_t bytes_ = 0;
};

PerfBench::PerfBench(Communicator& communicator, const Clock& clock, std::string transport,
                     std::function<void(const std::string&)> complain)
    : communicator_(communicator), clock_(clock), transport_(std::move(transport)), complain_(std::move(complain)) {}

PerfBench::~PerfBench() = default;

Status PerfBench::Prepare(const PerfOptions& options, const std::vector<PerfCase>& cases) {
  fixed_iterations_ = options.iterations;
  warmup_ = options.warmup;
  check_ = options.check;
  std::uint64_t max_bytes = 0;
  std::size_t measurements = 0;
  bool needs_output = false;
  for (const PerfCase& one : cases) {
    max_bytes = std::max(max_bytes, one.bytes());
    max_count_ = std::max(max_count_, one.count);
    const std::vector<bool> placements = Placements(options, one);
    measurements += placements.size();
    needs_output |= std::find(placements.begin(), placements.end(), false) != placements.end();
  }
  time_per_size_ = options.time_per_size.value_or(TimePerSize(measurements));
  RONDO_ASSIGN(input_, Arena::Make(max_bytes));
  if (!needs_output) return {};
  RONDO_ASSIGN(output_, Arena::Make(max_bytes));
  return {};
}

Result<PerfRow> PerfBench::Measure(const PerfCase& which, bool in_place) {
  PerfRow row;
  row.of = which;
  row.in_place = in_place;
  row.transport = transport_;
  row.ranks = communicator_.world_size();
  RONDO_ASSIGN(row.algorithm, AlgorithmOf(which));

  UseDataOf(which);
  Fill(which, in_place);
  TimePoint start = clock_.Now();
  RONDO_TRY(Once(which, in_place));
  const double first_us = ToMicroseconds(clock_.Now() - start);
  std::uint64_t wrong = CountWrong(which, in_place, "the first operation");

  // The first operation makes connections, so unless a count was given another one says how long they take; of a very
  // large vector the first says enough.
  double operation_us = first_us;
  if (!fixed_iterations_ && which.bytes() < kLargeBytes) {
    start = clock_.Now();
    RONDO_TRY(Once(which, in_place));
    operation_us = ToMicroseconds(clock_.Now() - start);
  }
  RONDO_ASSIGN(row.iterations, AgreeOnIterations(operation_us));
  const int warmup = warmup_.value_or(std::min(5, row.iterations / 4));
  for (int i = 0; i < warmup; ++i) RONDO_TRY(Once(which, in_place));

  // Collectives with a root start together, or the root would run ahead and nobody would see how long one takes.
  times_us_.assign(static_cast<std::size_t>(row.iterations), 0);
  for (double& time_us : times_us_) {
    if (PerfCase::HasRoot(which.collective) && !which.send_recv) RONDO_TRY(communicator_.Barrier());
    const TimePoint begin = clock_.Now();
    RONDO_TRY(Once(which, in_place));
    time_us = ToMicroseconds(clock_.Now() - begin);
  }

  // Data in place was fed with its own results, except where the operation copies; out of place nothing may have
  // changed.
  if (!in_place || !PerfCase::Reduces(which.collective)) wrong += CountWrong(which, in_place, "the timed operations");
  const std::size_t ranks = static_cast<std::size_t>(row.ranks);
  const std::size_t mine = times_us_.size() + static_cast<std::size_t>(communicator_.rank());
  times_us_.resize(times_us_.size() + ranks, 0);
  times_us_[mine] = static_cast<double>(wrong);
  RONDO_TRY(MaxOverRanks(times_us_));
  double wrong_of_all = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    wrong_of_all += times_us_.back();
    times_us_.pop_back();
  }
  if (check_) row.wrong = static_cast<std::uint64_t>(wrong_of_all);

  std::sort(times_us_.begin(), times_us_.end());
  const auto quantile = [&](double q) {
    const auto last = static_cast<double>(times_us_.size() - 1);
    return times_us_[static_cast<std::size_t>(std::lround(q * last))];
  };
  row.min_us = times_us_.front();
  row.median_us = quantile(0.5);
  row.p99_us = quantile(0.99);
  row.max_us = times_us_.back();
  return row;
}

Result<std::string> PerfBench::AlgorithmOf(const PerfCase& which) const {
  if (which.send_recv) return "-";
  OperationOptions wish;
  wish.algorithm = which.algorithm;
  RONDO_ASSIGN(const Communicator::Choice choice,
               communicator_.Choose(which.collective, which.count, which.type, wish));
  return std::string(Name(choice.algorithm));
}

Status PerfBench::ExchangeWithNeighbours(const PerfCase& which) {
  const int ranks = communicator_.world_size();
  const Rank next = (communicator_.rank() + 1) % ranks;
  const auto received = communicator_.SendRecv({input_->bytes().data(), which.count, next, 0},
                                               {output_->bytes().data(), which.count, Previous(), 0}, which.type);
  RONDO_TRY(received);
  if (received->count == which.count) return {};
  return Fail(ErrorCode::kInternal, "{} of {} elements came from rank {}", received->count, which.count, Previous());
}

Status PerfBench::Once(const PerfCase& which, bool in_place) {
  if (which.send_recv) return ExchangeWithNeighbours(which);
  OperationOptions options;
  options.algorithm = which.algorithm;
  options.scale = data_.scale;
  const void* input = input_->bytes().data();
  void* output = in_place ? input_->bytes().data() : output_->bytes().data();
  switch (which.collective) {
    case Collective::kAllReduce:
      return communicator_.AllReduce(input, output, which.count, which.type, which.op, options);
    case Collective::kBroadcast:
      return communicator_.Broadcast(input, output, which.count, which.type, which.root, options);
    case Collective::kBarrier: return communicator_.Barrier(options);
  }
  return Fail(ErrorCode::kUnsupported, "{} cannot be measured", which.Subject());
}

void PerfBench::Fill(const PerfCase& which, bool in_place) {
  const MutableBytes input = input_->Guarded(which.bytes());
  if (!in_place) {
    const MutableBytes output = output_->Guarded(which.bytes());
    if (check_) std::memset(output.data(), static_cast<int>(kPoison), output.size());
  }
  if (PerfCase::HasData(which.collective)) data_.input.Fill(input);
}

std::uint64_t PerfBench::CountWrong(const PerfCase& which, bool in_place, const char* when) {
  if (!check_ || !PerfCase::HasData(which.collective)) return 0;
  const auto complain = [&](const std::string& what) {
    complain_(fmt::format("{} {} {}, {} elements, {}, after {}: {}", which.Subject(), which.TypeName(), which.OpName(),
                          which.count, in_place ? "in place" : "out of place", when, what));
  };
  std::uint64_t wrong = 0;
  const auto compare = [&](const RepeatedElements& expected, Bytes actual, const char* name) {
    const RepeatedElements::Difference difference = expected.Compare(actual);
    if (difference.count == 0) return;
    wrong += difference.count;
    const std::size_t size = SizeOf(which.type);
    complain(fmt::format("{} elements of the {} are wrong; number {} is {} and should be {}", difference.count, name,
                         difference.first_index,
                         FormatElement(which.type, actual.subspan(difference.first_index * size, size)),
                         FormatElement(which.type, expected.At(difference.first_index))));
  };
  compare(data_.output, in_place ? input_->bytes() : output_->bytes(), "output");
  if (!in_place) compare(data_.input, input_->bytes(), "input, which must stay as it was,");
  for (Arena* arena : {input_.get(), in_place ? nullptr : output_.get()}) {
    if (arena == nullptr || arena->GuardsIntact()) continue;
    ++wrong;
    complain("bytes beside the buffer were overwritten");
  }
  return wrong;
}

void PerfBench::UseDataOf(const PerfCase& which) {
  if (!PerfCase::HasData(which.collective)) return;
  if (data_of_ && data_of_->Subject() == which.Subject() && data_of_->type == which.type && data_of_->op == which.op &&
      data_of_->root == which.root) {
    return;
  }
  data_ = PerfCase::Reduces(which.collective)
              ? MakeReduceData(which.type, which.op, communicator_.world_size(), communicator_.rank(), max_count_)
              : MakeCopyData(which.type, which.send_recv ? Previous() : which.root, communicator_.rank(), max_count_);
  data_of_ = which;
}

Status PerfBench::MaxOverRanks(std::vector<double>& numbers) {
  return communicator_.AllReduce(numbers.data(), numbers.data(), numbers.size(), DataType::kFloat64, ReduceOp::kMax);
}

Result<int> PerfBench::AgreeOnIterations(double operation_us) {
  if (fixed_iterations_) return *fixed_iterations_;
  std::vector<double> slowest{operation_us};
  RONDO_TRY(MaxOverRanks(slowest));
  const double fit = ToMicroseconds(time_per_size_) / std::max(slowest.front(), 0.1);
  // A median wants five, as long as that does not take ten times the time.
  const double wanted = std::max(fit, std::min(5.0, 10 * fit));
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(kMaxIterations)));
}

}  // namespace rondo
