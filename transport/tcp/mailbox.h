// What the control thread passes to the thread that owns an endpoint: connected sockets, failures, and a wake-up.
//
// No wake-up is lost. The owner announces that it will sleep: Arm stores `armed_`, and then loads `woken_`. A waking
// thread stores `woken_`, and then loads `armed_`. All four operations are sequentially consistent, so at least one of
// the two threads sees the other's store. Either Arm returns true, or the waking thread writes the eventfd, which ends
// the owner's wait.
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

// One socket of one lane, from which only the handshake has been read; or the reason why the lane cannot be made.
struct Delivery {
  Rank peer = kNoRank;
  std::uint32_t index = 0;
  bool sends = true;     // this socket carries the bytes that this rank sends
  bool receives = true;  // this socket carries the peer's bytes
  Fd fd;
  // The established TLS session, which may already have read some of the peer's bytes. Null: no TLS.
  std::unique_ptr<TlsSession> tls;
  std::optional<Error> failure;
};

class Mailbox {
 public:
  static Result<std::shared_ptr<Mailbox>> Create();  // may fail with kResource
  explicit Mailbox(Fd event) : event_(std::move(event)) {}

  void Deliver(Delivery delivery);
  void Wake();

  // Whether Take would return a delivery. Costs one atomic load.
  bool has_deliveries() const { return has_deliveries_.load(std::memory_order_acquire); }
  std::vector<Delivery> Take();

  // True: deliveries wait, or Wake was called since the latest Disarm (or since the latest Arm that returned true).
  // After false, event_fd() becomes readable when one of these happens.
  bool Arm();
  void Disarm();
  int event_fd() const { return event_.get(); }

 private:
  const Fd event_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> woken_{false};
  std::atomic<bool> has_deliveries_{false};  // makes deliveries_ visible to a later Take
  std::mutex mutex_;
  std::vector<Delivery> deliveries_;  // guarded by mutex_
};

}  // namespace rondo::tcp
