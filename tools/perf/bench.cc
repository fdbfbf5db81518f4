#include "tools/perf/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace rondo {
namespace {

constexpr std::byte kFiller{0xEE};  // content of an output before the operation
// The largest number of iterations in one batch; after each batch the ranks agree on the size of the next. Also the
// largest total number if the user gives neither a time nor a number.
constexpr int kMaxIterations = 4000;
constexpr std::uint64_t kLargeBytes = 256 << 20;

double ToMicroseconds(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

OperationOptions OptionsOf(const PerfCase& which) {
  OperationOptions options;
  options.algorithm = which.algorithm;
  options.reproducible = which.reproducible;
  options.fp32_accumulate = which.fp32_accumulate;
  return options;
}

// The arguments for the library's choice of an algorithm. In all_gather and reduce_scatter with uneven counts every
// rank knows all counts, so the sum is known.
Communicator::Question QuestionOf(const PerfCase& which) {
  const bool sum_known = which.collective == Collective::kAllGather || which.collective == Collective::kReduceScatter;
  Communicator::Question question{which.collective, which.count, which.type, which.op, which.uneven};
  if (which.uneven) question.count = sum_known ? which.count * which.blocks : 0;
  return question;
}

// The default time for one size: 200 ms if there are few sizes, less if there are many.
Duration TimePerSize(std::size_t measurements) {
  const double milliseconds =
      std::clamp(30'000.0 / static_cast<double>(std::max<std::size_t>(measurements, 1)), 5.0, 200.0);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

PerfBench::PerfBench(Communicator& communicator, const Clock& clock, std::function<void(const std::string&)> complain)
    : communicator_(communicator), clock_(clock), complain_(std::move(complain)) {}

PerfBench::~PerfBench() = default;

Status PerfBench::Prepare(const PerfOptions& options, const std::vector<PerfCase>& cases) {
  fixed_iterations_ = options.iterations;
  warmup_ = options.warmup;
  check_ = options.check;
  std::uint64_t max_bytes = 0;
  std::size_t measurements = 0;
  for (const PerfCase& one : cases) {
    max_bytes = std::max(max_bytes, one.bytes());
    max_count_ = std::max(max_count_, one.count * one.blocks);
    measurements += Placements(options, one).size();
  }
  time_per_size_ = options.time_per_size.value_or(TimePerSize(measurements));
  is_time_given_ = options.time_per_size.has_value();
  // Buffers of messages are allocated by the communicator, as in a program that wants the fastest transfer. Collectives
  // do not need that.
  const bool messages = std::all_of(cases.begin(), cases.end(), [](const PerfCase& one) { return one.send_recv; });
  Communicator* const allocator = options.allocate || messages ? &communicator_ : nullptr;
  memory_ = options.memory;
  if (memory_ != PerfMemory::kHost) {
    RONDO_ASSIGN(session_, OpenCudaSession(LocalRank()));
  }
  const auto make = [&] { return PerfArena::Make(max_bytes, memory_, allocator, session_.get()); };
  RONDO_ASSIGN(input_, make());
  // Made even if it is not needed. Plain memory costs nothing, because it uses no physical pages before its first use.
  RONDO_ASSIGN(output_, make());
  return {};
}

Result<PerfRow> PerfBench::Measure(const PerfCase& which, bool in_place) {
  PerfRow row;
  row.of = which;
  row.in_place = in_place;
  row.ranks = communicator_.world_size();

  graph_.reset();
  part_ = PartOf(which, in_place);
  RONDO_TRY(Fill());
  TimePoint start = clock_.Now();
  RONDO_TRY(Once(which));
  const double first_us = ToMicroseconds(clock_.Now() - start);
  RONDO_ASSIGN(std::uint64_t wrong, CountWrong(which, in_place, "the first operation"));

  // The first operation includes the setup of connections. So its time is not used to choose the number of iterations,
  // except for a very large vector. If the user gives the number, no time is needed.
  double operation_us = first_us;
  if (!fixed_iterations_ && which.bytes() < kLargeBytes) {
    start = clock_.Now();
    RONDO_TRY(Once(which));
    operation_us = ToMicroseconds(clock_.Now() - start);
  }
  RONDO_ASSIGN(const int first, AgreeOnIterations(operation_us));
  const int warmup = warmup_.value_or(std::min(5, first / 4));
  for (int i = 0; i < warmup; ++i) RONDO_TRY(Once(which));

  RONDO_ASSIGN(TimeSamples times, TimeAll(which, first));

  // In place, each reduction takes the result of the one before as its input, so the final result is not known.
  // Otherwise the result must be the same as after the first operation.
  if (!in_place || !Reduces(which.collective)) {
    RONDO_ASSIGN(const std::uint64_t more, CountWrong(which, in_place, "the timed operations"));
    wrong += more;
  }
  std::vector<double> wrong_by_rank(static_cast<std::size_t>(row.ranks), 0);
  wrong_by_rank[static_cast<std::size_t>(communicator_.rank())] = static_cast<double>(wrong);
  RONDO_TRY(MaxOverRanks(wrong_by_rank));
  const double wrong_of_all = std::accumulate(wrong_by_rank.begin(), wrong_by_rank.end(), 0.0);
  if (check_) row.wrong = static_cast<std::uint64_t>(wrong_of_all);

  row.iterations = times.count();
  row.min_us = times.min();
  row.median_us = times.Quantile(0.5);
  row.p99_us = times.Quantile(0.99);
  row.max_us = times.max();
  row.transport = communicator_.Transports();
  // This must follow the first operation, because before it the library does not know whether the ranks share memory.
  RONDO_TRY(Choose(row));
  return row;
}

Result<TimeSamples> PerfBench::TimeAll(const PerfCase& which, int first) {
  TimeSamples times;
  const double budget_us = ToMicroseconds(time_per_size_);
  const TimePoint begin = clock_.Now();
  for (int batch = std::min(first, kMaxIterations); batch > 0;) {
    RONDO_TRY(TimeEach(which, batch));
    for (const double us : times_us_) times.Add(us);
    const auto done = static_cast<double>(times.count());
    double left = 0;
    if (fixed_iterations_) {
      left = *fixed_iterations_ - done;
    } else if (is_time_given_) {
      std::vector<double> elapsed_us{ToMicroseconds(clock_.Now() - begin)};
      RONDO_TRY(MaxOverRanks(elapsed_us));  // the maximum over all ranks, so that all ranks decide in the same way
      if (elapsed_us.front() < budget_us) left = std::max(1.0, (budget_us / elapsed_us.front() - 1) * done);
    }
    batch = static_cast<int>(std::min<double>(left, kMaxIterations));
  }
  return times;
}

Status PerfBench::TimeEach(const PerfCase& which, int iterations) {
  // An operation with a root starts after a barrier. Otherwise the root would start later operations before the others
  // finish, and a single operation could not be timed. Ranks leave the barrier at different times, and a rank that
  // leaves late measures too short a time. So if all ranks are on one host and read the same clock, the measured time
  // is from the root's start to the end on the slowest rank.
  const bool from_root = which.has_root() && communicator_.topology().even_hosts() == 1 && !is_on_gpu();
  const bool is_root = communicator_.rank() == which.root;
  const TimePoint origin{};
  times_us_.assign(static_cast<std::size_t>(iterations), 0);
  starts_us_.assign(static_cast<std::size_t>(from_root ? iterations : 0), 0);
  for (std::size_t i = 0; i < times_us_.size(); ++i) {
    if (which.has_root()) RONDO_TRY(communicator_.Barrier());
    const TimePoint begin = clock_.Now();
    RONDO_TRY(Once(which));
    times_us_[i] = is_on_gpu() ? gpu_us_ : ToMicroseconds(clock_.Now() - (from_root ? origin : begin));
    if (from_root && is_root) starts_us_[i] = ToMicroseconds(begin - origin);
  }
  RONDO_TRY(MaxOverRanks(times_us_));
  if (!from_root) return {};
  RONDO_TRY(MaxOverRanks(starts_us_));
  for (std::size_t i = 0; i < times_us_.size(); ++i) times_us_[i] -= starts_us_[i];
  return {};
}

// Asks the library which algorithm it used, and which time the profile predicts.
Status PerfBench::Choose(PerfRow& row) const {
  row.algorithm = "-";
  if (row.of.send_recv) return {};
  RONDO_ASSIGN(const Communicator::Choice choice, communicator_.Choose(QuestionOf(row.of), OptionsOf(row.of)));
  row.algorithm = Name(choice.algorithm);
  row.expected_us = choice.expected_us;
  row.expected_measured = choice.measured;
  return {};
}

PerfBench::Part PerfBench::PartOf(const PerfCase& which, bool in_place) {
  Part part;
  if (!PerfCase::HasData(which.collective)) return part;
  const int ranks = communicator_.world_size();
  const auto self = static_cast<std::size_t>(communicator_.rank());
  const bool at_root = communicator_.rank() == which.root;
  const std::vector<std::uint64_t> counts = CountsOf(which, ranks);
  const auto begin = [](const std::vector<std::uint64_t>& of, std::size_t block) {
    return std::accumulate(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(block), std::uint64_t{0});
  };
  const std::uint64_t own_at = begin(counts, self), all = begin(counts, counts.size());
  const auto block_of_each = [&](const MovedElements& moved) {
    std::vector<Piece> pieces;
    for (Rank rank = 0; rank < ranks; ++rank)
      pieces.push_back({moved.Of(rank), counts[static_cast<std::size_t>(rank)]});
    return pieces;
  };

  switch (which.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: {
      const CheckedData& data = ReduceDataOf(which);
      part.input = {{data.input, which.count}};
      if (which.collective == Collective::kAllReduce || at_root) part.output = {{data.output, which.count}};
      part.scale = data.scale;
      break;
    }
    case Collective::kReduceScatter: {
      const CheckedData& data = ReduceDataOf(which);
      part.input = {{data.input, all}};
      part.output = {{data.output.From(own_at), counts[self]}};
      part.output_counts = counts;
      part.output_at = own_at;
      part.scale = data.scale;
      break;
    }
    case Collective::kBroadcast: {
      if (which.send_recv) {
        part.input = {{MovedOf(which.type).Of(communicator_.rank()), which.count}};
        part.output = {{MovedOf(which.type).Of(Previous()), which.count}};
        break;
      }
      const RepeatedElements of_root = MovedOf(which.type).Of(which.root);
      if (at_root) part.input = {{of_root, which.count}};
      part.output = {{of_root, which.count}};
      break;
    }
    case Collective::kAllGather:
    case Collective::kGather: {
      const MovedElements& moved = MovedOf(which.type);
      part.input = {{moved.Of(communicator_.rank()), counts[self]}};
      if (which.collective == Collective::kAllGather || at_root) part.output = block_of_each(moved);
      part.output_counts = counts;
      part.input_at = own_at;
      break;
    }
    case Collective::kScatter: {
      const RepeatedElements of_root = MovedOf(which.type).Of(which.root);
      if (at_root) part.input = {{of_root, all}};
      part.output = {{of_root.From(own_at), counts[self]}};
      part.input_counts = counts;
      part.output_at = own_at;
      break;
    }
    case Collective::kAllToAll: {
      const MovedElements& moved = MovedOf(which.type);
      const auto row_of = [&](std::size_t rank) {  // the counts that a rank sends to each peer
        std::vector<std::uint64_t> row(counts.size());
        for (std::size_t to = 0; to < row.size(); ++to) row[to] = counts[(rank + to) % counts.size()];
        return row;
      };
      part.input_counts = row_of(self);
      part.input = {{moved.Of(communicator_.rank()), all}};
      for (std::size_t from = 0; from < counts.size(); ++from) {
        const std::vector<std::uint64_t> row = row_of(from);
        part.output_counts.push_back(row[self]);
        part.output.push_back({moved.Of(static_cast<Rank>(from)).From(begin(row, self)), row[self]});
      }
      break;
    }
    case Collective::kBarrier: break;
  }
  const std::size_t element_bytes = SizeOf(which.type);
  for (const Piece& piece : part.input) part.input_bytes += piece.count * element_bytes;
  for (const Piece& piece : part.output) part.output_bytes += piece.count * element_bytes;
  part.one_memory = in_place && (!HasRoot(which.collective) || at_root);
  part.input_at = part.one_memory ? part.input_at * element_bytes : 0;
  part.output_at = part.one_memory ? part.output_at * element_bytes : 0;
  return part;
}

Status PerfBench::ExchangeWithNeighbours(const PerfCase& which) {
  const Rank next = (communicator_.rank() + 1) % communicator_.world_size();
  const auto received = communicator_.SendRecv({input_->bytes().data(), which.count, next, 0},
                                               {output_->bytes().data(), which.count, Previous(), 0}, which.type);
  RONDO_TRY(received);
  if (received->count == which.count) return {};
  return Fail(ErrorCode::kInternal, "received only {} of {} elements from rank {}", received->count, which.count,
              Previous());
}

int PerfBench::LocalRank() const {
  const std::string& host = communicator_.peer(communicator_.rank()).host_id;
  int before = 0;
  for (Rank rank = 0; rank < communicator_.rank(); ++rank) before += communicator_.peer(rank).host_id == host ? 1 : 0;
  return before;
}

Status PerfBench::LaunchGraph() {
  RONDO_TRY(session_->Begin());
  RONDO_TRY(graph_->Launch());
  RONDO_TRY(session_->End());
  RONDO_ASSIGN(gpu_us_, session_->TookUs());
  communicator_.Progress();  // detects a failure, because the launch of a graph does not report a timeout
  if (const auto failure = communicator_.failure()) return Fail(*failure);
  return {};
}

template <typename... Formal, typename... Actual>
Status PerfBench::Call(Status (Communicator::*blocking)(Formal...), Work (Communicator::*issuing)(Formal...),
                       Actual&&... arguments) {
  if (!is_on_gpu()) return (communicator_.*blocking)(std::forward<Actual>(arguments)...);
  if (memory_ == PerfMemory::kGraph) {
    if (graph_ == nullptr) {
      RONDO_TRY(session_->BeginCapture());
      const Work work = (communicator_.*issuing)(std::forward<Actual>(arguments)...);
      auto graph = session_->EndCapture();
      if (work.refused()) return Fail(*work.refused());
      RONDO_ASSIGN(graph_, std::move(graph));
    }
    return LaunchGraph();
  }
  RONDO_TRY(session_->Begin());
  Work work = (communicator_.*issuing)(std::forward<Actual>(arguments)...);
  RONDO_TRY(session_->End());
  RONDO_TRY(work.Wait());
  RONDO_ASSIGN(gpu_us_, session_->TookUs());
  return {};
}

Status PerfBench::Once(const PerfCase& which) {
  if (which.send_recv) return ExchangeWithNeighbours(which);
  OperationOptions options = OptionsOf(which);
  options.scale = part_.scale;
  if (is_on_gpu()) {
    options.memory = MemoryKind::kDevice;
    options.stream = session_->stream();
  }
  const void* const input = input_->address() + part_.input_at;
  void* const output = part_.one_memory ? input_->address() + part_.output_at : output_->address();
  const std::size_t element_bytes = SizeOf(which.type);
  switch (which.collective) {
    case Collective::kAllReduce:
      return Call(&Communicator::AllReduce, &Communicator::AllReduceAsync, input, output, which.count, which.type,
                  which.op, options);
    case Collective::kReduce:
      return Call(&Communicator::Reduce, &Communicator::ReduceAsync, input, output, which.count, which.type, which.op,
                  which.root, options);
    case Collective::kBroadcast:
      return Call(&Communicator::Broadcast, &Communicator::BroadcastAsync, input, output, which.count, which.type,
                  which.root, options);
    case Collective::kAllGather:
      if (which.uneven)
        return Call(&Communicator::AllGatherV, &Communicator::AllGatherVAsync, input, output, part_.output_counts,
                    which.type, options);
      return Call(&Communicator::AllGather, &Communicator::AllGatherAsync, input, output, which.count, which.type,
                  options);
    case Collective::kReduceScatter:
      if (which.uneven)
        return Call(&Communicator::ReduceScatterV, &Communicator::ReduceScatterVAsync, input, output,
                    part_.output_counts, which.type, which.op, options);
      return Call(&Communicator::ReduceScatter, &Communicator::ReduceScatterAsync, input, output, which.count,
                  which.type, which.op, options);
    case Collective::kGather:
      if (which.uneven)
        return Call(&Communicator::GatherV, &Communicator::GatherVAsync, input, part_.input_bytes / element_bytes,
                    output, part_.output_counts, which.type, which.root, options);
      return Call(&Communicator::Gather, &Communicator::GatherAsync, input, output, which.count, which.type, which.root,
                  options);
    case Collective::kScatter:
      if (which.uneven)
        return Call(&Communicator::ScatterV, &Communicator::ScatterVAsync, input, part_.input_counts, output,
                    part_.output_bytes / element_bytes, which.type, which.root, options);
      return Call(&Communicator::Scatter, &Communicator::ScatterAsync, input, output, which.count, which.type,
                  which.root, options);
    case Collective::kAllToAll:
      if (which.uneven)
        return Call(&Communicator::AllToAllV, &Communicator::AllToAllVAsync, input, part_.input_counts, output,
                    part_.output_counts, which.type, options);
      return Call(&Communicator::AllToAll, &Communicator::AllToAllAsync, input, output, which.count, which.type,
                  options);
    case Collective::kBarrier: return Call(&Communicator::Barrier, &Communicator::BarrierAsync, options);
  }
  return Fail(ErrorCode::kUnsupported, "{} cannot be measured", which.Subject());
}

Status PerfBench::Fill() {
  const auto fill = [&](MutableBytes bytes, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      const std::size_t n = piece.count * piece.elements.element_bytes();
      piece.elements.Fill(bytes.first(n));
      bytes = bytes.subspan(n);
    }
  };
  const auto overwrite = [&](MutableBytes bytes) {
    if (check_) std::fill(bytes.begin(), bytes.end(), kFiller);
  };
  if (part_.one_memory) {
    const MutableBytes both = input_->Guarded(std::max(part_.input_bytes, part_.output_bytes));
    if (part_.input_bytes < both.size()) overwrite(both);
    fill(both.subspan(part_.input_at), part_.input);
    output_->Guarded(0);
  } else {
    fill(input_->Guarded(part_.input_bytes), part_.input);
    overwrite(output_->Guarded(part_.output_bytes));
  }
  RONDO_TRY(input_->ToGpu());
  return output_->ToGpu();
}

Result<std::uint64_t> PerfBench::CountWrong(const PerfCase& which, bool in_place, const char* when) {
  if (!check_ || !PerfCase::HasData(which.collective)) return 0;
  RONDO_TRY(input_->FromGpu());
  RONDO_TRY(output_->FromGpu());
  const auto complain = [&](const std::string& what) {
    complain_(fmt::format("{} {} {}, {} elements, {}, after {}: {}", which.Subject(), which.TypeName(), which.OpName(),
                          which.count, in_place ? "in place" : "out of place", when, what));
  };
  std::uint64_t wrong = 0;
  const std::size_t size = SizeOf(which.type);
  const auto compare = [&](const std::vector<Piece>& expected, Bytes actual, const char* name) {
    RepeatedElements::Difference all;
    Bytes is, should_be;  // the actual and the expected element at the first difference
    std::uint64_t before = 0;
    for (const Piece& piece : expected) {
      const Bytes here = actual.subspan(before * size, piece.count * size);
      const RepeatedElements::Difference difference = piece.elements.Compare(here);
      if (all.count == 0 && difference.count > 0) {
        all.first_index = before + difference.first_index;
        is = here.subspan(difference.first_index * size, size);
        should_be = piece.elements.At(difference.first_index);
      }
      all.count += difference.count;
      before += piece.count;
    }
    if (all.count == 0) return;
    wrong += all.count;
    complain(fmt::format("{} elements of the {} are wrong; number {} is {} and should be {}", all.count, name,
                         all.first_index, FormatElement(which.type, is), FormatElement(which.type, should_be)));
  };
  compare(part_.output, (part_.one_memory ? input_ : output_)->bytes().subspan(part_.output_at), "output");
  if (!part_.one_memory) compare(part_.input, input_->bytes(), "input, which must stay as it was,");
  for (PerfArena* arena : {input_.get(), output_.get()}) {
    if (arena->GuardsIntact()) continue;
    ++wrong;
    complain("bytes beside the buffer were overwritten");
  }
  return wrong;
}

const CheckedData& PerfBench::ReduceDataOf(const PerfCase& which) {
  const std::pair wanted{which.type, which.op};
  if (reduced_of_ != wanted) {
    reduced_ = MakeReduceData(which.type, which.op, communicator_.world_size(), communicator_.rank(), max_count_);
    reduced_of_ = wanted;
  }
  return reduced_;
}

const MovedElements& PerfBench::MovedOf(DataType type) {
  if (moved_of_ != type) {
    moved_.emplace(type);
    moved_of_ = type;
  }
  return *moved_;
}

Status PerfBench::MaxOverRanks(std::vector<double>& numbers) {
  return communicator_.AllReduce(numbers.data(), numbers.data(), numbers.size(), DataType::kFloat64, ReduceOp::kMax);
}

Result<int> PerfBench::AgreeOnIterations(double operation_us) {
  if (fixed_iterations_) return *fixed_iterations_;
  std::vector<double> slowest{operation_us};
  RONDO_TRY(MaxOverRanks(slowest));
  const double fit = ToMicroseconds(time_per_size_) / std::max(slowest.front(), 0.1);
  // The median needs at least five iterations. There are fewer only if five would take more than ten times the given
  // time.
  const double wanted = std::max(fit, std::min(5.0, 10 * fit));
  return static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(kMaxIterations)));
}

}  // namespace rondo
