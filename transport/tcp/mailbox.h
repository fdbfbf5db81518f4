// What the control thread hands to the thread that owns an endpoint: connected sockets, failures, and a wake-up.
//
// The sleep protocol. The owner announces itself (Arm stores `armed_`), then looks (`woken_`); a waker first stores
// `woken_`, then looks for a sleeper (`armed_`). All four are sequentially consistent, so at least one of the two sees
// the other: either Arm answers true, or the waker writes the eventfd, which makes the owner's wait end.
//
// Thread rule: Deliver and Wake from any thread; the rest by the owner.
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

// One socket of one lane, handed over with all later bytes unread; or the reason why the lane cannot be.
struct Delivery {
  Rank peer = kNoRank;
  std::uint32_t index = 0;
  bool sends = true;     // this socket carries our bytes
  bool receives = true;  // this socket carries the peer's bytes
  Fd fd;
  std::unique_ptr<TlsSession> tls;  // established; may hold some of those bytes already. Null: in the clear
  std::optional<Error> failure;
};

class Mailbox {
 public:
  static Result<std::shared_ptr<Mailbox>> Create();  // kResource
  explicit Mailbox(Fd event) : event_(std::move(event)) {}

  void Deliver(Delivery delivery);
  void Wake();

  // Whether Take would give anything: one load.
  bool has_deliveries() const { return has_deliveries_.load(std::memory_order_acquire); }
  std::vector<Delivery> Take();

  // True: woken since the last Disarm (or Arm that said so), or deliveries wait. Else event_fd() becomes readable when.
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
