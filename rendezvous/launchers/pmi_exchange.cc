#include "rendezvous/launchers/pmi_exchange.h"

#include <utility>

#include "rendezvous/launchers/pmi1_protocol.h"
#include "rendezvous/launchers/pmi2_protocol.h"
#include "rendezvous/launchers/pmi_wire.h"

namespace rondo {
namespace {

constexpr Duration kGoodbyePatience = std::chrono::seconds(2);

// The base class of the exchanges over PMI-1 and PMI-2. Each virtual function makes one request and awaits its answer.
class PmiExchange : public Exchange {
 public:
  PmiExchange(const Launched& launch, std::shared_ptr<const Clock> clock)
      : wire_(launch.fd, fmt::format("PMI_FD={} of {}", launch.fd, launch.launcher), clock), clock_(std::move(clock)) {}

  const std::string& job() const override { return job_; }
  std::size_t max_line_bytes() const override { return kMaxPmiValueBytes; }

  Result<std::string> Share(const std::string& name, const std::optional<std::string>& line,
                            TimePoint deadline) override {
    if (line) RONDO_TRY(Put(name, *line, deadline));
    if (const Status all = Barrier(deadline); !all) {
      if (all.error().code() != ErrorCode::kTimeout) return Fail(all.error());
      return Fail(ErrorCode::kRendezvousTimeout,
                  "{}: not every process of the job entered the PMI barrier in time (PMI does not report which "
                  "processes are missing)",
                  wire_.name());
    }
    RONDO_ASSIGN(std::string value, Get(name, deadline));
    if (value.empty()) return Fail(ErrorCode::kProtocol, "{}: rank 0 published nothing under '{}'", wire_.name(), name);
    RONDO_TRY(SayGoodbye(deadline));
    return value;
  }

 protected:
  // Makes a request whose answer has no content.
  Status Request(const std::string& request, std::string_view expected, const PmiWire::TakeReply& take,
                 TimePoint deadline) {
    RONDO_TRY(wire_.Ask(request, expected, take, deadline));
    return {};
  }

  // Makes the first request. If the launcher has closed its end of the connection, an exchange was used in this process
  // before.
  Status Initialize(const std::string& request, TimePoint deadline) {
    const auto reply = wire_.Ask(request, "response_to_init", pmi1::TakeReply, deadline);
    if (reply) {
      initialized_ = true;
      return {};
    }
    if (reply.error().code() != ErrorCode::kStoreLost) return Fail(reply.error());
    return Fail(
        ErrorCode::kStale,
        "{}; a process can use PMI for only one rendezvous, and Rondo or MPI in this process has already done so. For "
        "a further rendezvous give --rendezvous or set RONDO_RENDEZVOUS",
        reply.error().message());
  }

  // Finalizes the connection, if that has not been done yet. The destructors of the derived classes call this function
  // too.
  Status SayGoodbye(TimePoint deadline) {
    if (!std::exchange(initialized_, false)) return {};
    return Goodbye(deadline);
  }
  TimePoint SoonEnough() const { return clock_->Now() + kGoodbyePatience; }

  virtual Status Put(const std::string& name, const std::string& line, TimePoint deadline) = 0;
  virtual Status Barrier(TimePoint deadline) = 0;
  virtual Result<std::string> Get(const std::string& name, TimePoint deadline) = 0;
  virtual Status Goodbye(TimePoint deadline) = 0;

  PmiWire wire_;
  const std::shared_ptr<const Clock> clock_;
  std::string job_;
  bool initialized_ = false;
};

class Pmi1Exchange final : public PmiExchange {
 public:
  using PmiExchange::PmiExchange;
  ~Pmi1Exchange() override { (void)SayGoodbye(SoonEnough()); }

  Status Open(TimePoint deadline) {
    RONDO_TRY(Initialize(pmi1::Init(), deadline));
    RONDO_ASSIGN(const PmiReply name, wire_.Ask(pmi1::GetMyKvsName(), "my_kvsname", pmi1::TakeReply, deadline));
    kvs_ = name.Field("kvsname");
    if (kvs_.empty())
      return Fail(ErrorCode::kProtocol, "{}: the PMI server gave no name of its key-value space", wire_.name());
    job_ = JobId("mpich/" + kvs_);
    return {};
  }

 private:
  Status Put(const std::string& name, const std::string& line, TimePoint deadline) override {
    return Request(pmi1::Put(kvs_, name, line), "put_result", pmi1::TakeReply, deadline);
  }
  Status Barrier(TimePoint deadline) override {
    return Request(pmi1::BarrierIn(), "barrier_out", pmi1::TakeReply, deadline);
  }
  Result<std::string> Get(const std::string& name, TimePoint deadline) override {
    RONDO_ASSIGN(const PmiReply reply, wire_.Ask(pmi1::Get(kvs_, name), "get_result", pmi1::TakeReply, deadline));
    return reply.Field("value");
  }
  Status Goodbye(TimePoint deadline) override {
    return Request(pmi1::Finalize(), "finalize_ack", pmi1::TakeReply, deadline);
  }

  std::string kvs_;
};

class Pmi2Exchange final : public PmiExchange {
 public:
  Pmi2Exchange(const Launched& launch, std::shared_ptr<const Clock> clock)
      : PmiExchange(launch, std::move(clock)), rank_(launch.rank), pmi_job_(launch.pmi_job) {
    job_ = launch.job;
  }
  ~Pmi2Exchange() override { (void)SayGoodbye(SoonEnough()); }

  Status Open(TimePoint deadline) {
    RONDO_TRY(Initialize(pmi2::Init(), deadline));
    return Request(pmi2::FullInit(pmi_job_, rank_), "fullinit-response", pmi2::TakeReply, deadline);
  }

 private:
  Status Put(const std::string& name, const std::string& line, TimePoint deadline) override {
    return Request(pmi2::KvsPut(name, line), "kvs-put-response", pmi2::TakeReply, deadline);
  }
  Status Barrier(TimePoint deadline) override {
    return Request(pmi2::KvsFence(), "kvs-fence-response", pmi2::TakeReply, deadline);
  }
  Result<std::string> Get(const std::string& name, TimePoint deadline) override {
    RONDO_ASSIGN(const PmiReply reply,
                 wire_.Ask(pmi2::KvsGet(pmi_job_, name), "kvs-get-response", pmi2::TakeReply, deadline));
    return reply.Field("value");
  }
  Status Goodbye(TimePoint deadline) override {
    return Request(pmi2::Finalize(), "finalize-response", pmi2::TakeReply, deadline);
  }

  const Rank rank_;
  const std::string pmi_job_;
};

template <typename Version>
Result<std::unique_ptr<Exchange>> Open(const Launched& launch, std::shared_ptr<const Clock> clock, TimePoint deadline) {
  auto exchange = std::make_unique<Version>(launch, std::move(clock));
  RONDO_TRY(exchange->Open(deadline));
  return exchange;
}

}  // namespace

Result<std::unique_ptr<Exchange>> OpenPmi1Exchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline) {
  return Open<Pmi1Exchange>(launch, std::move(clock), deadline);
}

Result<std::unique_ptr<Exchange>> OpenPmi2Exchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline) {
  return Open<Pmi2Exchange>(launch, std::move(clock), deadline);
}

}  // namespace rondo
