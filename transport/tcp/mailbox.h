// What the control thread passes to the thread that owns an endpoint: connected sockets, failures, and a wake-up.
//
// The sleep protocol. The owner announces that it will sleep (Arm stores `armed_`), then looks (`woken_`). A waking
// thread first stores `woken_`, then looks for a sleeper (`armed_`). All four are sequentially consistent, so at least
// one of the two sees the other: either Arm returns true, or the waking thread writes the eventfd, which ends the
// owner's wait.
//
// Thread rule: any thread may call Deliver and Wake; only the owner may call the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/tls.h"
#include "transport/tcp/socket.h"

namespace rondo::tcp {

// One socket of one lane, from which no byte after the handshake has been read; or the reason why the lane cannot be
// made.
struct Delivery {
  Rank peer = kNoRank;
  std::uint32_t index = 0;
  bool sends = true;     // this socket carries the bytes that this rank sends
  bool receives = true;  // this socket carries the peer's bytes
  Fd fd;
  std::unique_ptr<TlsSession> tls;  // established; may have read some of those bytes already. Null: no TLS
  std::optional<Error> failure;
};

class Mailbox {
 public:
  static Result<std::shared_ptr<Mailbox>> Create();  // kResource
  explicit Mailbox(Fd event) : event_(std::move(event)) {}

  void Deliver(Delivery delivery);
  void Wake();

  // Whether Take would return a delivery. Costs one load.
  bool has_deliveries() const { return has_deliveries_.load(std::memory_order_acquire); }
  std::vector<Delivery> Take();

  // True: Wake was called since the last Disarm or the last Arm that returned true, or deliveries wait. After false,
  // event_fd() becomes readable when one of these happens.
  bool Arm();
  void Disarm();
  int event_fd() const { return event_.get(); }

 private:
  const Fd event_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> woken_{false};
  std::atomic<bool> has_deliveries_{false};  // publishes deliveries_ to a Take that follows
  std::mutex mutex_;
  std::vector<Delivery> deliveries_;  // guarded by mutex_
};

}  // namespace rondo::tcp
