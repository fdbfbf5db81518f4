// Moves the bytes of PMI over its socket, with deadlines. What they mean is told by the protocols' codecs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "rendezvous/launchers/pmi_reply.h"

namespace rondo {

// Thread rule: one thread at a time. The socket is the launcher's: it is neither closed nor set to anything else.
class PmiWire {
 public:
  // A codec's TakeReply.
  using TakeReply = std::function<Result<std::optional<PmiReply>>(std::string& unread)>;

  // `name` is for messages: "PMI_FD=6 of mpiexec of MPICH".
  PmiWire(int fd, std::string name, std::shared_ptr<const Clock> clock)
      : fd_(fd), name_(std::move(name)), clock_(std::move(clock)) {}

  const std::string& name() const { return name_; }

  // Sends the request and gives its answer, which must be called `expected` and not say that it failed.
  // kTimeout: it did not come by the deadline. kStoreLost: the launcher closed its end. kProtocol: what came is not it.
  Result<PmiReply> Ask(std::string_view request, std::string_view expected, const TakeReply& take, TimePoint deadline);

 private:
  Status Send(std::string_view bytes, TimePoint deadline);
  Status Await(short events, TimePoint deadline) const;
  tl::unexpected<Error> Closed(std::string_view how) const;

  const int fd_;
  const std::string name_;
  const std::shared_ptr<const Clock> clock_;
  std::string unread_;
};

}  // namespace rondo
