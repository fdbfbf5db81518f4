#include "transport/shm/fences.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo::shm {
namespace {

bool Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool JoinFences() {
  return Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void HeavyFence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

}  // namespace rondo::shm
