// Sends and receives PMI messages over the launcher's socket, with deadlines. pmi1_protocol.h and pmi2_protocol.h
// encode them.
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

// Thread rule: one thread at a time. The socket belongs to the launcher: this class does not close it or change its
// settings.
class PmiWire {
 public:
  // The function TakeReply of pmi1_protocol.h or pmi2_protocol.h.
  using TakeReply = std::function<Result<std::optional<PmiReply>>(std::string& unread)>;

  // `name` is for messages: "PMI_FD=6 of mpiexec of MPICH".
  PmiWire(int fd, std::string name, std::shared_ptr<const Clock> clock)
      : fd_(fd), name_(std::move(name)), clock_(std::move(clock)) {}

  const std::string& name() const { return name_; }

  // Sends the request and gives its answer, after PmiReply::Check against `expected`. kTimeout: no answer came by the
  // deadline. kStoreLost: the launcher closed its end. kProtocol: the answer is not `expected`, or says that the
  // request failed.
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
