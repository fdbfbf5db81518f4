#include "transport/inproc/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace rondo {

Doorbell::~Doorbell() { Close(); }

Status Doorbell::Open() {
  RONDO_CHECK(fd_ < 0);
  fd_ = eventfd(0, EFD_CLOEXEC);
  if (fd_ < 0) return Fail(ErrorCode::kResource, "no eventfd for an endpoint's wake-up: {}", std::strerror(errno));
  return {};
}

void Doorbell::Close() {
  if (fd_ < 0) return;
  Disarm();  // afterwards no publisher can be on its way to the descriptor
  close(fd_);
  fd_ = -1;
}

bool Doorbell::Arm() {
  RONDO_CHECK(fd_ >= 0, "Arm on a closed endpoint");
  State expected = State::kAwake;
  state_.compare_exchange_strong(expected, State::kArmed, std::memory_order_seq_cst);
  return expected == State::kRung;
}

void Doorbell::Disarm() {
  State expected = State::kArmed;
  if (state_.compare_exchange_strong(expected, State::kAwake, std::memory_order_seq_cst)) return;
  if (expected == State::kAwake) return;
  // Rung: the write is done or about to be done by a publisher that took the state from armed to rung. The read blocks
  // for those few instructions at most.
  std::uint64_t count = 0;
  ssize_t got = 0;
  do got = read(fd_, &count, sizeof count);
  while (got < 0 && errno == EINTR);
  RONDO_CHECK(got == sizeof count && count == 1, "eventfd: {} bytes, count {}", got, count);
  state_.store(State::kAwake, std::memory_order_seq_cst);
}

void Doorbell::RingSleeper() {
  State expected = State::kArmed;
  if (!state_.compare_exchange_strong(expected, State::kRung, std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  ssize_t put = 0;
  do put = write(fd_, &one, sizeof one);
  while (put < 0 && errno == EINTR);
  RONDO_CHECK(put == sizeof one, "eventfd: {}", std::strerror(errno));
}

}  // namespace rondo
