// The client of a TCP store.
//
// One connection carries the calls of all threads. Each call has an id, so a long Wait delays no other call. The client
// has no thread of its own. One of the threads that await an answer reads for all of them. When that thread returns,
// another waiting thread takes over. When the connection is lost, all pending and later calls get kStoreLost with the
// address at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/net/fd.h"
#include "base/net/resolve.h"
#include "base/tls.h"
#include "base/wire.h"
#include "rendezvous/remote_store.h"

namespace rondo {

// Thread rule: any thread. No call may run when the destructor begins.
class TcpStoreClient final : public RemoteStore {
 public:
  struct Options {
    HostPort address;
    // Further addresses that the server may have, in the order in which they are tried.
    std::vector<HostPort> others = {};
    // If true, Connect skips an address whose server belongs to another job or is not a Rondo store, and tries the
    // other addresses. If false, such a server makes Connect fail, unless another address succeeds.
    bool expect_foreign_servers = false;
    std::shared_ptr<const JobToken> token = nullptr;  // null: a server that has a token refuses this client
    std::string job;                                  // at most 256 bytes; a server of another job refuses this client
    TimePoint deadline;                               // for connecting, including the handshake
    // How long a Wait waits, after its own deadline, for the server's list of missing keys.
    Duration answer_grace = std::chrono::milliseconds(200);
    std::shared_ptr<const Clock> clock;               // null: SteadyClock
    Logger* logger = nullptr;                         // must outlive the client
    std::shared_ptr<const TlsContext> tls = nullptr;  // null: no TLS
  };

  // Tries every address of every host until one succeeds or the deadline passes. Between the rounds it pauses, longer
  // each time, because a server may start later than its clients. Errors:
  // - kUnreachable, at the deadline: lists every address with the reason why it failed;
  // - kResource, some time before the deadline: this host has no local port left for the connection.
  // These errors come at once, if no other address succeeded in the same round:
  // - kProtocol: the server at an address is not a Rondo store;
  // - kVersionMismatch: it has another version or another job;
  // - kAuth: the tokens differ, authentication by TLS failed, or only one side uses TLS;
  // - kResource: the server has too many clients.
  static Result<std::unique_ptr<TcpStoreClient>> Connect(const Options& options);

 private:
  // A call that awaits its answer. The object is on the stack of the calling thread.
  struct Call {
    std::condition_variable woken;  // signals that the answer has arrived, or that this thread must read now
    std::optional<Result<std::string>> answer;
  };
  TcpStoreClient(const Options& options, const HostPort& place, std::shared_ptr<const Clock> clock, Fd socket, Fd wake,
                 Wire wire, std::string unread);

  // Sends a request and awaits its answer. A Wait returns at most Options::answer_grace after its deadline.
  Result<std::string> Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) override;
  // Returns when call.answer is set or the deadline has passed. REQUIRES: `lock` holds mutex_; `call` is in calls_.
  void Await(std::unique_lock<std::mutex>& lock, Call& call, TimePoint deadline);

  // Each function below REQUIRES mutex_.
  void Send(std::string frame);
  void Flush();
  bool Unsent() const { return !unsent_.empty() || wire_.unsent(); }
  void ReadAnswers();
  void HandOut();
  void PassReading();
  void Lose(const std::string& why);

  const Duration answer_grace_;
  const std::shared_ptr<const Clock> clock_;
  const Fd socket_;
  const Fd wake_;  // an eventfd that wakes the reading thread when there are bytes to send

  // The members below are guarded by mutex_.
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Call*> calls_;
  bool someone_reads_ = false;
  Wire wire_;
  std::string unsent_;
  std::string unread_;  // an incomplete answer
  std::optional<Error> lost_;
};

}  // namespace rondo
