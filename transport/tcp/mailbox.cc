#include "transport/tcp/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rondo::tcp {

Result<std::shared_ptr<Mailbox>> Mailbox::Create() {
  Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) return Fail(SystemError(errno, "cannot create an eventfd for an endpoint", ErrorCode::kResource));
  return std::make_shared<Mailbox>(std::move(event));
}

void Mailbox::Deliver(Delivery delivery) {
  {
    const std::lock_guard lock(mutex_);
    deliveries_.push_back(std::move(delivery));
    has_deliveries_.store(true, std::memory_order_release);
  }
  Wake();
}

void Mailbox::Wake() {
  woken_.store(true);
  if (!armed_.load()) return;
  const std::uint64_t one = 1;
  // EAGAIN: the counter is full because of earlier wake-ups, so the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

std::vector<Delivery> Mailbox::Take() {
  const std::lock_guard lock(mutex_);
  has_deliveries_.store(false, std::memory_order_relaxed);
  return std::exchange(deliveries_, {});
}

bool Mailbox::Arm() {
  armed_.store(true);
  return woken_.exchange(false) || has_deliveries();
}

void Mailbox::Disarm() {
  armed_.store(false);
  // A waking thread that has loaded armed_ may still write the eventfd later. Then the descriptor becomes readable once
  // without need, which is harmless.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_.get(), &count, sizeof count);
  woken_.store(false);
}

}  // namespace rondo::tcp
