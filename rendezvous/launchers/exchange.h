// Access to a launcher's small key-value space. A rendezvous needs only one function of it: rank 0 publishes one line,
// and all ranks get it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// Thread rule: one thread at a time. The destructor finalizes the connection to the launcher, because launchers end the
// job if a process exits without finalizing. Destroy the exchange only when Share has returned on all ranks.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // The launcher's name for this job. It differs between jobs that run at the same time.
  virtual const std::string& job() const = 0;
  // The maximum length of a line in bytes.
  virtual std::size_t max_line_bytes() const = 0;
  // Rank 0 gives its line, the other ranks give nullopt; every rank gets the line. `name` has characters [-_A-Za-z0-9],
  // at most 60 bytes. A line is printable ASCII without space and semicolon. kRendezvousTimeout: by
  // `deadline`, rank 0 (with PMIx) or some rank (with PMI) did not make the call. kStoreLost: the launcher closed the
  // connection, or PMIx reports a failure. kTimeout: a PMI server does not answer. kProtocol: the answer of a PMI
  // server is malformed, or says that the request failed.
  virtual Result<std::string> Share(const std::string& name, const std::optional<std::string>& line,
                                    TimePoint deadline) = 0;
};

// Opens the exchange of a launch by kPmi1, kPmi2 or kPmix. kStale: the launcher has closed the connection, because PMI
// allows only one use. Other errors: as Share.
Result<std::unique_ptr<Exchange>> OpenExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline);

}  // namespace rondo
