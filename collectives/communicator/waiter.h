// How a thread waits if it advances a communicator and there is nothing to do. It is an interface, so that tests can
// replace the kernel by virtual time.
#pragma once

#include "base/clock.h"
#include "transport/transport.h"

namespace rondo {

// Thread rule: any thread, several at once.
class Waiter {
 public:
  virtual ~Waiter() = default;

  // Returns when the endpoint (armed, see Endpoint::Arm) may have something to do, when `kick_fd` becomes readable, or
  // at `deadline`, whichever comes first. Early returns are harmless.
  virtual void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) = 0;
  // Gives the core to another thread for a moment.
  virtual void Yield() = 0;
  // A Yield that takes at least this long shows that another thread ran meanwhile.
  virtual Duration LongYield() const { return std::chrono::microseconds(1); }
  // Whether an overlong wait shows that this process did not run, because it was stopped (SIGSTOP, Ctrl-Z) or got no
  // CPU core. It is false on virtual time.
  virtual bool SeesPauses() const { return false; }
  // The number of the CPU core on which the caller runs, the same for all processes of the machine; negative: not
  // known. Must be cheap, because it is called before every poll.
  virtual int Core() { return -1; }
};

// Sleeps in the kernel.
class KernelWaiter final : public Waiter {
 public:
  explicit KernelWaiter(const Clock& clock);
  void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) override;
  void Yield() override;
  Duration LongYield() const override { return long_yield_; }
  bool SeesPauses() const override { return true; }
  int Core() override;

 private:
  const Clock& clock_;
  const Duration long_yield_;
};

}  // namespace rondo
