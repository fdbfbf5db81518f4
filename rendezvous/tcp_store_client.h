// A store over TCP, this process's end.
//
// One connection carries the calls of all threads; each call has an id, so a Wait that takes long holds up nobody.
// There is no thread behind it: of the threads that await an answer one reads for all, and hands that duty on when it
// leaves. When the server goes, all of them (and every later call) get kStoreLost with the address, at once.
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

// Thread rule: any thread; the destructor after the last call.
class TcpStoreClient final : public RemoteStore {
 public:
  struct Options {
    HostPort address;
    std::vector<HostPort> others = {};  // where it may be instead, in the order in which to try
    // With others: what answers wrongly at one address (another job's store, a foreign server) is passed over, since it
    // was to be expected there. Without: it is final.
    bool expect_foreign_servers = false;
    std::shared_ptr<const JobToken> token = nullptr;         // null: a server that has one refuses us
    std::string job;                                         // at most 256 bytes; a server of another job refuses us
    TimePoint deadline;                                      // of the connection, its hello included
    Duration answer_grace = std::chrono::milliseconds(200);  // how long past its deadline a Wait stays for the server's
                                                             // list of the missing keys
    std::shared_ptr<const Clock> clock;                      // null: the machine's
    Logger* logger = nullptr;                                // outlives the client
    std::shared_ptr<const TlsContext> tls = nullptr;         // null: in the clear
  };

  // Tries every address of every host, again with growing pauses (a server may come later than its clients), until the
  // deadline. kUnreachable lists every address and why it failed. At once, when no other address was better: kProtocol
  // (what listens there is no store of ours), kVersionMismatch (another version or job), kAuth (server and process do
  // not know the same token, or could not prove by TLS to belong to one job, or one of them speaks no TLS), kResource
  // (the server has no room). kResource some time before the deadline: this host has no local port left for it.
  static Result<std::unique_ptr<TcpStoreClient>> Connect(const Options& options);

 private:
  // A call that awaits its answer; on its thread's stack.
  struct Call {
    std::condition_variable woken;  // answered, or its turn to read
    std::optional<Result<std::string>> answer;
  };
  TcpStoreClient(const Options& options, const HostPort& place, std::shared_ptr<const Clock> clock, Fd socket, Fd wake,
                 Wire wire, std::string unread);

  // A Wait returns at most Options::answer_grace after its deadline.
  Result<std::string> Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) override;
  // Until call.answer is there or the deadline has passed. REQUIRES: `lock` holds mutex_; `call` is in calls_.
  void Await(std::unique_lock<std::mutex>& lock, Call& call, TimePoint deadline);

  // All of these: REQUIRES mutex_.
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
  const Fd wake_;  // an eventfd: tells the reader that there is something to write

  // Guarded by mutex_.
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Call*> calls_;
  bool someone_reads_ = false;
  Wire wire_;
  std::string unsent_;
  std::string unread_;  // the beginning of an answer
  std::optional<Error> lost_;
};

}  // namespace rondo
