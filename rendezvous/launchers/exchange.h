// A launcher's own small key-value space, as far as ranks need it in order to meet: rank 0 says one line and all of
// them hear it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// Thread rule: one thread at a time. The destructor says goodbye to the launcher, as launchers want it of whoever has
// greeted them: they take a silent end for a crash, and end the job. Destroy it when all ranks have heard the line.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // The launcher's name of this job; differs between jobs that run at the same time.
  virtual const std::string& job() const = 0;
  // How many bytes a line may have.
  virtual std::size_t max_line_bytes() const = 0;
  // Rank 0 gives its line under a name ([-_A-Za-z0-9], at most 60 bytes), the others nullopt; gives that line to all. A
  // line is printable ASCII without space and semicolon. kRendezvousTimeout: not every rank that must take part did so
  // by `deadline`. kStoreLost: the launcher is gone.
  virtual Result<std::string> Share(const std::string& name, const std::optional<std::string>& line,
                                    TimePoint deadline) = 0;
};

// The space of a launch by kPmi1, kPmi2 or kPmix. kStale: the launcher has closed it, as PMI does after one meeting.
// Else the errors of Share.
Result<std::unique_ptr<Exchange>> OpenExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline);

}  // namespace rondo
