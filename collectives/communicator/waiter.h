// How a thread that drives a communicator waits when there is nothing to do. Injected, so that virtual time can replace
// the kernel.
#pragma once

#include "base/clock.h"
#include "transport/transport.h"

namespace rondo {

// Thread rule: any thread, several at once.
class Waiter {
 public:
  virtual ~Waiter() = default;

  // Returns when the endpoint (armed, see Endpoint::Arm) may have something, when `kick_fd` becomes readable, or at
  // `deadline`, whichever comes first; early returns are harmless.
  virtual void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) = 0;
  // Gives the core to somebody else for a moment.
  virtual void Yield() = 0;
  // From what length on a Yield tells that somebody else ran meanwhile.
  virtual Duration LongYield() const { return std::chrono::microseconds(1); }
  // Whether a wait that lasted much longer than it should means that this process did not run: it was stopped (SIGSTOP,
  // Ctrl-Z), or got no core. On virtual time it means nothing.
  virtual bool SeesPauses() const { return false; }
  // The number of the core that the caller runs on, the same for all processes of the machine; negative: not known.
  // Cheap: asked before every look.
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
